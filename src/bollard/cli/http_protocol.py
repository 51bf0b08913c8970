"""The server's HTTP protocol, with one change: what is written in one turn of the loop leaves in one send.

The head of an answer, its first events and the end of a chunk are written one by one; each send costs more than all
of them took to make.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["OneSendProtocol"]


class _OneSend:
    """A transport that gathers writes until the loop turns. Everything else is the transport's own."""

    __slots__ = ("_parts", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))


class OneSendProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a transport that gathers writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_OneSend(transport))  # type: ignore[arg-type]
