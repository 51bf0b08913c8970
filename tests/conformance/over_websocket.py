"""A bridge between the kit and a worker that dials: data of the inherited socket is sent as WebSocket messages, and the
other way round. So the kit tests the connection of a remote runtime by the same cases. Argument: the plugin."""

import asyncio
import os
import socket
import sys

from tests.doubles.websocket_server import serve_websocket

from bollard.wire import connect_socket


class Onward:
    """Hands each frame to the other side, and its end too."""

    def __init__(self, other):
        self.other = other
        self.gone = asyncio.get_running_loop().create_future()

    def frames_received(self, frames):
        for frame in frames:
            if isinstance(frame, bytes):
                self.other.send(frame)
            else:
                self.other.send(b"{")  # what cannot be read here is not made readable on the way

    def connection_lost(self, reason):
        self.other.close(reason)
        if not self.gone.done():
            self.gone.set_result(reason)


async def main() -> int:
    kit = await connect_socket(socket.socket(fileno=int(os.environ.pop("BOLLARD_CHANNEL_FD"))))
    dialled = asyncio.get_running_loop().create_future()

    async def accept(transport, request):
        dialled.set_result(transport)

    server = await serve_websocket(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bollard.runtime", sys.argv[1], "--connect", f"ws://127.0.0.1:{port}/"
    )
    runtime = await dialled
    back = Onward(kit)
    runtime.start(back)
    there = Onward(runtime)
    kit.start(there)
    await asyncio.wait({back.gone, there.gone}, return_when=asyncio.FIRST_COMPLETED)
    server.close()
    return await worker.wait()


sys.exit(asyncio.run(main()))
