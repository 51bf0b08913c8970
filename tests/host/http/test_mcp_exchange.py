"""MCP messages and responses, without a socket: errors, pages, streams and cancellation."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from tests.tables import for_each

from bollard.host.capabilities.sources import Progress
from bollard.host.errors import Overloaded
from bollard.host.http.mcp.exchange import McpExchange
from bollard.host.http.mcp.messages import (
    CALLS_OF_CALLER,
    HANDSHAKE_VERSIONS,
    NOTES,
    TOOLS_OF_PAGE,
    RpcRefused,
    blocks_of,
    read_message,
    refused_call,
    tool_answer,
    without_headers,
)
from bollard.protocol import AgentAPIError, JsonObject

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
PATIENCE_S = 120.0


class Workbench:
    """Tools in memory: `wait` runs until it is released, `steps` reports its progress."""

    instructions = "In memory."

    def __init__(self, number: int = 3) -> None:
        self.names = [f"tool_{index:04}" for index in range(number)] + ["steps", "wait"]
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.stopped = asyncio.Event()

    def tools(self) -> Mapping[str, JsonObject]:
        return {name: {"name": name, "inputSchema": {"type": "object"}} for name in sorted(self.names)}

    def knows(self, name: str) -> bool:
        return name in self.names

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        del meta
        if name == "steps":
            for step in range(NOTES + 10):
                progress(step, None, "on its way")
        if name == "wait":
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
        return tool_answer([], {"name": name, **arguments})


class Sent:
    """One request, and the messages sent back for it."""

    scope: dict[str, Any]

    def __init__(self, body: Any, headers: Mapping[str, str] = {}) -> None:
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._hung_up = asyncio.Event()
        self._read = False
        self.messages: list[Any] = []
        self.headed = asyncio.Event()
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "query_string": b""}

    def hang_up(self) -> None:
        self._hung_up.set()

    async def receive(self) -> Any:
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        self.headed.set()

    async def over(self, exchange: McpExchange, server: Workbench, who: str = "ann") -> "Sent":
        async with asyncio.timeout(PATIENCE_S):
            answer = await exchange.answer(Request(self.scope, self.receive), who, server)
            await answer(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: ")]


def modern(method: str, headers: Mapping[str, str] | None = None, **params: Any) -> Sent:
    said = {"mcp-protocol-version": MODERN, "mcp-method": method}
    said |= {"mcp-name": str(params["name"])} if "name" in params else {}
    meta = {**META, **params.pop("meta", {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return Sent(body, {**said, "accept": "application/json, text/event-stream", **(headers or {})})


def older(method: str, identity: Any = 1, accept: str = "application/json", **params: Any) -> Sent:
    return Sent({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}, {"accept": accept})


def note(method: str, **params: Any) -> Sent:
    return Sent({"jsonrpc": "2.0", "method": method, "params": params})


@for_each(
    ("body", "headers", "code", "status"),
    [
        (b"{", {}, -32700, 400),
        ([], {}, -32600, 400),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], {}, -32600, 400),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, {}, -32600, 400),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, {}, -32600, 400),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, {}, -32600, 400),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, {}, -32600, 400),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, {}, -32600, 400),
        ({"jsonrpc": "2.0", "method": "x"}, {"mcp-protocol-version": "1999-01-01"}, -32022, 400),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"mcp-protocol-version": MODERN}, -32602, 400),
    ],
)
def test_an_invalid_message_is_refused_with_its_code(body: Any, headers: Any, code: int, status: int) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RpcRefused) as refused:
        read_message(raw, headers)
    assert (refused.value.code, refused.value.status) == (code, status)


@for_each(
    ("sent", "code", "status"),
    [
        (lambda: modern("tools/list", {"mcp-method": "tools/call"}), -32020, 400),
        (lambda: modern("tools/list", {"mcp-protocol-version": "2025-11-25"}), -32020, 400),
        (lambda: modern("tools/call", {"mcp-name": "other"}, name="steps"), -32020, 400),
        (lambda: modern("tools/call", {"mcp-name": "=?base64?!?="}, name="steps"), -32020, 400),
        (
            lambda: modern(
                "tools/list",
                {"mcp-protocol-version": "2027-01-01"},
                meta={"io.modelcontextprotocol/protocolVersion": "2027-01-01"},
            ),
            -32022,
            400,
        ),
        (lambda: modern("ping"), -32601, 404),
        (lambda: modern("initialize"), -32601, 404),
        (lambda: modern("tools/call", name="absent"), -32602, 400),
        (lambda: modern("tools/call", name="steps", arguments=[]), -32602, 400),
        (lambda: older("server/discover"), -32601, 200),
        (lambda: older("tools/call", name="absent"), -32602, 200),
        (lambda: older("tools/list", cursor=1), -32602, 200),
    ],
)
async def test_a_request_is_refused_in_the_form_of_its_era(sent: Any, code: int, status: int) -> None:
    answer = await sent().over(McpExchange(), Workbench())
    assert (answer.json["error"]["code"], answer.status) == (code, status)


async def test_a_duplicate_header_matches_no_method() -> None:
    sent = modern("tools/list")
    sent.scope["headers"].append((b"mcp-method", b"tools/list"))
    answer = await sent.over(McpExchange(), Workbench())
    assert (answer.json["error"]["code"], answer.status) == (-32020, 400)


async def test_both_eras_learn_the_server_info() -> None:
    exchange, server = McpExchange(), Workbench()
    found = (await modern("server/discover").over(exchange, server)).json["result"]
    assert (found["supportedVersions"], found["resultType"]) == ([MODERN], "complete")
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "bollard"
    for version in HANDSHAKE_VERSIONS:
        greeted = (await older("initialize", protocolVersion=version).over(exchange, server)).json["result"]
        assert greeted["protocolVersion"] == version
    unknown = (await older("initialize", protocolVersion="2027-01-01").over(exchange, server)).json["result"]
    assert unknown["protocolVersion"] == HANDSHAKE_VERSIONS[-1]
    assert "resultType" not in unknown
    greeted = await note("notifications/initialized").over(exchange, server)
    assert (greeted.status, greeted.body) == (202, b"")
    encoded = {"mcp-name": "=?base64?c3RlcHM=?="}
    assert (await modern("tools/call", encoded, name="steps").over(exchange, server)).status == 200


async def test_a_long_list_has_pages_without_a_gap() -> None:
    exchange, server = McpExchange(), Workbench(2 * TOOLS_OF_PAGE + 7)
    names: list[str] = []
    more: dict[str, Any] = {}
    sizes: list[int] = []
    while True:
        page = (await older("tools/list", **more).over(exchange, server)).json["result"]
        names += [tool["name"] for tool in page["tools"]]
        sizes.append(len(page["tools"]))
        if "nextCursor" not in page:
            break
        more = {"cursor": page["nextCursor"]}
    assert names == sorted(server.names)
    assert sizes == [TOOLS_OF_PAGE, TOOLS_OF_PAGE, 9]


async def test_progress_is_sent_on_request_and_only_the_newest_notes_are_kept() -> None:
    exchange, server = McpExchange(), Workbench()
    told = await modern("tools/call", name="steps", meta={"progressToken": "mine"}).over(exchange, server)
    *notes, last = told.events
    assert {each["params"]["progressToken"] for each in notes} == {"mine"}
    assert [each["params"]["progress"] for each in notes] == [*range(10, NOTES + 10)]
    assert last["result"]["structuredContent"] == {"name": "steps"}
    for silent in (modern("tools/call", name="steps"), older("tools/call", name="steps", _meta={"progressToken": 1})):
        assert (await silent.over(exchange, server)).json["result"]["structuredContent"] == {"name": "steps"}


async def test_a_silent_call_turns_into_a_stream_that_stays_open() -> None:
    exchange, server = McpExchange(stream_after_s=0.0), Workbench()
    sent = modern("tools/call", name="wait")
    asking = asyncio.create_task(sent.over(exchange, server))
    await asyncio.wait_for(sent.headed.wait(), PATIENCE_S)
    server.go.set()
    told = await asking
    assert dict(told.messages[0]["headers"])[b"content-type"] == b"text/event-stream"
    assert told.body.startswith(b": alive\n\n")
    assert [each["result"]["structuredContent"] for each in told.events] == [{"name": "wait"}]


async def test_a_disconnect_stops_a_call_of_the_newer_era_only() -> None:
    exchange, server = McpExchange(), Workbench()
    for sent, stops in ((modern("tools/call", name="wait"), True), (older("tools/call", name="wait"), False)):
        server.begun.clear()
        server.stopped.clear()
        asking = asyncio.create_task(sent.over(exchange, server))
        await asyncio.wait_for(server.begun.wait(), PATIENCE_S)
        sent.hang_up()
        await asking
        if stops:
            await asyncio.wait_for(server.stopped.wait(), PATIENCE_S)
        assert sent.messages == []
        assert server.stopped.is_set() == stops
    server.go.set()


async def test_a_notification_cancels_only_the_call_of_that_id_and_caller() -> None:
    exchange, server = McpExchange(), Workbench()

    async def begin(who: str, identity: Any) -> "asyncio.Task[Sent]":
        server.begun.clear()
        asking = asyncio.create_task(older("tools/call", identity, name="wait").over(exchange, server, who))
        await asyncio.wait_for(server.begun.wait(), PATIENCE_S)
        return asking

    first, second, text = await begin("ann", 1), await begin("ann", 2), await begin("ann", "1")
    other = await begin("bob", 2)
    await note("notifications/cancelled", requestId=1).over(exchange, server)
    assert (await first).json["error"]["message"] == "the call was cancelled"
    twin = await begin("ann", 2)
    await note("notifications/cancelled", requestId=2).over(exchange, server)  # which of the two is not known
    server.go.set()
    for asking in (second, twin, text, other):
        assert "result" in (await asking).json


async def test_a_caller_has_a_limit_of_calls_in_flight() -> None:
    exchange, server = McpExchange(), Workbench()
    many: list[asyncio.Task[Sent]] = []
    for number in range(CALLS_OF_CALLER):
        server.begun.clear()
        many.append(asyncio.create_task(older("tools/call", number, name="wait").over(exchange, server)))
        await asyncio.wait_for(server.begun.wait(), PATIENCE_S)
    with pytest.raises(Overloaded) as refused:
        await older("tools/call", name="wait").over(exchange, server)
    assert refused.value.retryable
    assert (await older("tools/list").over(exchange, server)).status == 200
    server.go.set()
    for asking in many:
        assert "result" in (await asking).json
    assert (await older("tools/call", name="wait").over(exchange, server)).status == 200


def test_content_is_translated_to_mcp_content() -> None:
    elements: list[JsonObject] = [
        {"type": "text", "text": "hello"},
        {"type": "image_base64", "image_base64": "data:image/jpeg;base64,AAAA"},
        {"type": "image_base64", "image_base64": "AAAA"},
        {"type": "file_url", "file_url": "https://example.org/a.txt", "file_name": "a.txt"},
        {"type": "file_base64", "file_base64": "AAAA", "file_name": "a.pdf"},
        {"type": "hologram", "depth": 3},
    ]
    blocks = blocks_of(elements, [{"artifact_id": "art_1"}])
    assert [block["type"] for block in blocks] == [
        "text",
        "image",
        "image",
        "resource_link",
        "resource",
        "text",
        "text",
    ]
    assert (blocks[1]["mimeType"], blocks[1]["data"], blocks[2]["mimeType"]) == ("image/jpeg", "AAAA", "image/png")
    assert blocks[4]["resource"] == {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "AAAA"}
    assert "art_1" in str(blocks[6]["text"])
    refused = refused_call(AgentAPIError(code="revoked", message="it was taken away"), "begin anew")
    assert (refused["isError"], refused["content"]) == (
        True,
        [{"type": "text", "text": "revoked: it was taken away (begin anew)"}],
    )


def test_arguments_are_not_repeated_in_headers() -> None:
    marked: JsonObject = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "x-mcp-header": {"type": "string"},
            "list": {"anyOf": [{"type": "string", "x-mcp-header": "L"}]},
        },
    }
    assert without_headers(marked) == {
        "type": "object",
        "properties": {
            "region": {"type": "string"},
            "x-mcp-header": {"type": "string"},
            "list": {"anyOf": [{"type": "string"}]},
        },
    }
