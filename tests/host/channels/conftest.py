"""A program behind a channel: a real server on loopback that remembers requests, and answers on demand."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Came:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Program:
    """Answers 200 with an id for each message, unless planned otherwise: a status, bytes, or nothing at all."""

    came: list[Came] = field(default_factory=list[Came])
    plan: deque[Any] = field(default_factory=deque[Any])
    port: int = 0
    stays: bool = False
    """Whether it keeps the connection until the other side ends it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if line}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.came.append(Came(head[0].split(" ")[1], headers, body))
            writer.write(self._answer())
            await writer.drain()
            if self.stays:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self) -> bytes:
        planned = self.plan.popleft() if self.plan else 200
        if isinstance(planned, bytes):
            return planned
        said = json.dumps({"message": f"m{len(self.came)}"}).encode()
        return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nretry-after: 7\r\n\r\n%b" % (planned, len(said), said)


@pytest.fixture
async def program() -> AsyncIterator[Program]:
    program = Program()
    server = await asyncio.start_server(program.serve, "127.0.0.1", 0)
    program.port = server.sockets[0].getsockname()[1]
    yield program
    server.close()
    await server.wait_closed()
