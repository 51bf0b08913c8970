"""A collector that discards every batch of spans, as cheaply as possible. Prints its port.

`GET` returns the number of received bytes: a traced host must have sent some.
"""

import asyncio
import re
import socket

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_taken = 0


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    global _taken  # noqa: PLW0603 -- a process with one number
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            await reader.readexactly(size)
            _taken += size
            body = str(_taken).encode() if head.startswith(b"GET ") else b""
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    except (asyncio.IncompleteReadError, OSError):
        writer.close()


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(_serve, sock=listener, limit=2**24)
    print(listener.getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
