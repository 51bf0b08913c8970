"""A WebSocket server that speaks the subprotocol of remote runtimes, without the rest of a host."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from websockets.http11 import Request
from websockets.server import ServerProtocol

from bollard.protocol import limits
from bollard.wire import ChannelClosed, IncompatiblePeer, StreamTransport
from bollard.wire.websocket import CHANNEL_SUBPROTOCOL, WebSocketCodec, wait_for_handshake

Accept = Callable[[StreamTransport, Request], Awaitable[None]]
"""Takes over one connection after its handshake."""


async def serve_websocket(accept: Accept, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """Listen for runtimes. `accept` gets each connection after its handshake."""
    tasks: set[asyncio.Task[None]] = set()

    async def welcome(transport: StreamTransport, codec: WebSocketCodec) -> None:
        try:
            request = await wait_for_handshake(transport, codec)
        except (ChannelClosed, IncompatiblePeer):
            return
        if request is not None:
            await accept(transport, request)

    def connected() -> StreamTransport:
        codec = WebSocketCodec(
            ServerProtocol(subprotocols=[CHANNEL_SUBPROTOCOL], max_size=limits.FRAME_BYTES, extensions=None)
        )
        transport = StreamTransport(codec)
        task = asyncio.get_running_loop().create_task(welcome(transport, codec))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return transport

    return await asyncio.get_running_loop().create_server(connected, host, port, ssl=tls)
