import asyncio

from websockets.asyncio.server import ServerConnection, serve

from bollard.sdk.websocket import SocketClosed, connect


async def answer(connection: ServerConnection) -> None:
    await connection.send(f"you said: {await connection.recv()!s}")
    await connection.close(4000, "enough")


async def main() -> None:
    async with serve(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}/gateway", max_bytes=1000) as socket:
            await socket.send("hello")
            assert await socket.receive() == "you said: hello"
            try:
                await socket.receive()
            except SocketClosed as closed:
                print(closed.code, closed.reason)


asyncio.run(main())
