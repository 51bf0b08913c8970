"""An HTTP client that notices where a connection broke."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from tests.chaos.patience import patience
from tests.simulation.history import View

from bollard.host.runs.hub import StreamRecord

__all__ = ["BROKEN", "Answer", "Client"]

BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


class Answer:
    """One HTTP response: its head, and its body as a stream."""

    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the body; raises one of `BROKEN` when the connection breaks before its end."""
        if "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
            return
        while left := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            while left:  # what has come counts, also of a chunk that is cut
                piece = await self._reader.read(left)
                if not piece:
                    raise EOFError("the connection ended inside a chunk")
                left -= len(piece)
                yield piece
            await self._reader.readexactly(2)

    async def json(self) -> Any:
        return json.loads(b"".join([piece async for piece in self.body()]))

    async def events(self) -> AsyncIterator[StreamRecord]:
        """The events of a stream."""
        buffer = b""
        async for piece in self.body():
            buffer += piece
            while b"\n\n" in buffer:
                event, buffer = buffer.split(b"\n\n", 1)
                if not event.startswith(b":"):
                    yield _record(event)


def _record(event: bytes) -> StreamRecord:
    fields = dict(line.split(b": ", 1) for line in event.split(b"\n"))
    epoch, _, seq = fields.get(b"id", b"0.0").partition(b".")
    return StreamRecord(int(epoch), int(seq), fields[b"event"].decode(), fields[b"data"])


class Client:
    """Speaks HTTP to one port. Every request has its own connection."""

    def __init__(self, port: int, token: Callable[[], str], seen: Callable[[], Awaitable[str]]) -> None:
        """`seen` reports the state of the server when it does not answer."""
        self.port = port
        self._token = token
        self._seen = seen

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[Answer]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            content = b"" if body is None else json.dumps(body).encode()
            lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close"]
            lines += [f"authorization: Bearer {self._token()}", f"content-length: {len(content)}"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            yield Answer(int(head[0].split()[1]), {name.lower(): value for name, value in pairs}, reader)
        finally:
            writer.close()

    async def get(self, path: str) -> Any:
        async with self.request("GET", path) as answer:
            assert answer.status == 200, await answer.json()
            return await answer.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.request("POST", path, body) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), found
            return found

    async def watch(self, view: View) -> None:
        """Read on from the position of the view, until the run or the connection has ended."""
        headers = {"last-event-id": view.place} if view.place else {}
        async with self.request("GET", f"/api/v1/runs/{view.run_id}/stream", headers=headers) as answer:
            assert answer.status == 200, await answer.json()
            async for record in answer.events():
                view.see(record)

    async def run(self, agent: str, data: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        """One run from its event to its end: all its records. A reader that falls behind a flood resumes."""
        body = {"agent": agent, "input": {"text": "hello"}, "data": data, **fields}
        async with patience(f"the end of a run of {agent} with {data}", self._seen):
            async with self.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
                assert answer.status == 200, await answer.json()
                path = f"/api/v1/runs/{answer.headers['bollard-run-id']}/stream"
                records = [record async for record in answer.events()]
            while records and fell_behind(records[-1]):
                records.pop()
                headers = {"last-event-id": f"{records[-1].epoch}.{records[-1].seq}"}
                async with self.request("GET", path, headers=headers) as answer:
                    records += [record async for record in answer.events()]
        return [json.loads(record.json) for record in records]


def fell_behind(record: StreamRecord) -> bool:
    return record.type == "gap" and json.loads(record.json)["data"]["reason"] == "behind"
