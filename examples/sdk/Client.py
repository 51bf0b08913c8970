import asyncio

from bollard.sdk.http import BadStatus, Client, NotConnected


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    status = b"404 Not Found" if head.startswith(b"GET /missing") else b"200 OK"
    writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 15\r\nconnection: close\r\n\r\n" + b'{"hello":"you"}')
    await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", max_bytes=1000) as client:
        answer = await client.get("/hello")
        assert answer.check().json() == {"hello": "you"}
        async with client.stream("GET", "/hello") as streamed:
            assert [line async for line in streamed.lines()] == ['{"hello":"you"}']
        try:
            (await client.get("/missing")).check()
        except BadStatus as error:
            print("refused with", error.status)
        server.close()
        try:
            await client.get("/hello")
        except NotConnected:
            print("nothing was sent, so try again later")


asyncio.run(main())
