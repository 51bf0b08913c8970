"""A loopback server that records requests and returns scripted answers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Web:
    """Records requests and returns scripted answers."""

    answers: list[bytes] = field(default_factory=list[bytes])
    came: list[str] = field(default_factory=list[str])
    bodies: list[bytes] = field(default_factory=list[bytes])
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = [line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            self.bodies.append(await reader.readexactly(int(length[0])) if length else b"")
            self.came.append(head)
            writer.write(self.answers.pop(0) if self.answers else b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
            await writer.drain()

    def send_on(self, to: str, status: int = 302) -> None:
        self.answers.append(f"HTTP/1.1 {status} Go\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode())


Start = Callable[..., Awaitable[Web]]
