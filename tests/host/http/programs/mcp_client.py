"""A client written with the official SDK, as an external program: its steps are JSON on stdin, and its results are JSON
on stdout. Address and token are in its environment, as a harness has them."""

import json
import os
import sys
from typing import Any

import anyio
from httpx2 import AsyncClient, Timeout
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

PATIENCE_S = 120.0


async def call(client: Client, step: dict[str, Any]) -> dict[str, Any]:
    told: list[Any] = []
    with anyio.CancelScope() as scope:

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append([done, total, message])
            if step.get("leave"):
                scope.cancel()

        answer = await client.call_tool(
            step["name"], step.get("arguments", {}), progress_callback=progress, meta=step.get("meta")
        )
        return {"progress": told, **answer.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return {"left": True, "progress": told}


async def do(client: Client, step: dict[str, Any]) -> Any:
    try:
        with anyio.fail_after(PATIENCE_S):
            if step["do"] == "list":
                page = await client.list_tools()
                return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            return await call(client, step)
    except MCPError as error:
        return {"code": error.code, "message": str(error)}


async def main() -> list[Any]:
    headers = {"authorization": f"Bearer {os.environ['MCP_TOKEN']}"}
    async with AsyncClient(headers=headers, timeout=Timeout(PATIENCE_S)) as http:
        transport = streamable_http_client(os.environ["MCP_URL"], http_client=http)
        async with Client(transport, mode=os.environ["MCP_MODE"]) as client:
            return [client.protocol_version, *[await do(client, step) for step in json.load(sys.stdin)]]


print(json.dumps(anyio.run(main)))
