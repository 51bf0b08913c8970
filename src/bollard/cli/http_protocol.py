"""The server's HTTP protocol, with one change: the head of an answer leaves with the first part of its body, in one
send. A send costs more than both took to make."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["OneSendProtocol"]


class _OneSend:
    """A transport that keeps the head of an answer for what follows it. Everything else is the transport's own."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            self._transport.write(self._head + data)
            self._head = b""
        elif data.startswith(b"HTTP/1."):
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)  # an answer may have no body for a while
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""


class OneSendProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a transport that gathers writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_OneSend(transport))  # type: ignore[arg-type]
