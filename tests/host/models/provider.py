"""A provider on loopback that sends the script of a test, cut as the test demands. It records its requests."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bollard.host.models.boundary import ModelCall
from bollard.host.models.specs import SavedModel
from bollard.protocol import Message

KEY = "sk-loopback-0123456789"
PATIENCE_S = 60.0


@dataclass
class Reply:
    """One answer. `pieces` are sent one after the other, each as a separate chunk."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    kind: str = "text/event-stream"
    end: Literal["whole", "cut", "silent", "nothing"] = "whole"
    """The end of the answer: proper, by closing, never; or no answer at all."""
    framing: Literal["chunked", "length", "close"] = "chunked"
    gate: asyncio.Event | None = None
    """Waited for before the second piece."""
    raw: bytes | None = None
    """All bytes of the answer, head and everything, instead of the above."""


@dataclass
class Asked:
    """One request, unchanged."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Provider:
    """A server and its script; an unscripted request is answered with 500."""

    replies: list[Reply] = field(default_factory=list[Reply])
    asked: list[Asked] = field(default_factory=list[Asked])
    connections: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """The client disconnected."""
    came: asyncio.Condition = field(default_factory=asyncio.Condition)
    port: int = 0
    closes: bool = False
    """Whether every connection is closed behind its answer, without a word about it."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            self.gone.set()
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        plain = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in lines[1:] if line}
        self.asked.append(Asked(lines[0].split(" ")[1], plain, json.loads(body)))
        async with self.came:
            self.came.notify_all()
        reply = self.replies.pop(0) if self.replies else Reply(status=500)
        return await _send(reply, reader, writer) and not self.closes

    async def until_asked(self, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S), self.came:
            await self.came.wait_for(lambda: len(self.asked) >= times)

    def say(self, *replies: Reply) -> None:
        self.replies += replies

    def spec(self, **changes: Any) -> SavedModel:
        style = changes.get("style", "openai-chat")
        kind = {"rerank": "rerank", "openai-embeddings": "embedding"}.get(style, "llm")
        known: dict[str, Any] = {
            "model_id": "m",
            "model_type": kind,
            "style": style,
            "base_url": f"http://127.0.0.1:{self.port}/v1",
            "model": "tiny",
            "tries": 1,
            "first_token_s": PATIENCE_S,
            "idle_s": PATIENCE_S,
        }
        return SavedModel(**{**known, **changes})


async def _send(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection can be used again."""
    if reply.raw is not None:
        writer.write(reply.raw)
        await writer.drain()
        return reply.end == "whole"
    if reply.end == "nothing":
        await reader.read()
        return False
    headers = {"content-type": reply.kind, **reply.headers}
    if reply.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif reply.framing == "length":
        headers["content-length"] = str(sum(map(len, reply.pieces)))
    head = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(head).encode("latin-1"))
    for number, piece in enumerate(reply.pieces):
        if number == 1 and reply.gate is not None:
            await reply.gate.wait()
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if reply.framing == "chunked" else piece)
        await writer.drain()
        await asyncio.sleep(0)  # the reader gets its turn, so that it sees the pieces one by one
    if reply.end == "silent":
        await reader.read()
    if reply.end != "whole" or reply.framing == "close":
        return False
    if reply.framing == "chunked":
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


@contextlib.asynccontextmanager
async def provider(tls: ssl.SSLContext | None = None) -> AsyncIterator[Provider]:
    """One that runs."""
    it = Provider()
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0, ssl=tls)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()


def events(*bodies: Any, named: bool = False) -> bytes:
    """Server-sent events; a text is sent unchanged."""
    found: list[str] = []
    for body in bodies:
        name = f"event: {body['type']}\n" if named else ""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        found.append(f"{name}data: {text}\n\n")
    return "".join(found).encode()


def bytewise(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def whole(body: Any, status: int = 200, **headers: str) -> Reply:
    """A JSON answer."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(
        [text],
        status=status,
        kind="application/json",
        framing="length",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def call(text: str = "hello", **changes: Any) -> ModelCall:
    return ModelCall(**{"messages": (Message(role="user", content=text),), **changes})
