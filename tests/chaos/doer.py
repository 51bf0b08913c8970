"""A plugin whose runner calls its own tool, which leaves a mark and never returns."""

import asyncio
from pathlib import Path

from bollard.sdk import RunContext, runner, tool


@runner(name="default", label="Doer", permissions={"tools": ["detail", "call"]})
async def doer(ctx: RunContext):
    yield ctx.delta("doing ")
    result = await ctx.api.tools.call("mark", {"path": ctx.event.data["path"]}, call_id="once")
    yield ctx.completed(str(result.is_error))


@tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False})
async def mark(path: str) -> str:
    """Leaves a line in a file."""
    with Path(path).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 -- one line, once
        file.write("done\n")
    await asyncio.Event().wait()
    return "never"
