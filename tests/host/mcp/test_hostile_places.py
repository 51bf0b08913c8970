"""Addresses of invalid MCP servers: their responses are limited, and nothing is sent to other addresses."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.host.mcp.conftest import Servers

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Answer], Awaitable[tuple[str, list[bytes]]]]


@pytest.fixture(scope="module")
async def serve() -> AsyncIterator[Serve]:
    """An address whose every request is answered in one way, and the heads of those requests."""
    running: list[asyncio.Server] = []

    async def start(answer: Answer) -> tuple[str, list[bytes]]:
        heads: list[bytes] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                await answer(writer)
            except (OSError, asyncio.IncompleteReadError):
                pass  # the other side has had enough
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        running.append(server)
        port = server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/mcp", heads

    yield start
    for server in running:
        server.close()


def answering(head: str, body: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"jsonrpc": "2.0", "id": 1, "result": "')
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_an_endless_a_compressed_and_an_error_response_end_the_try(servers: Servers, serve: Serve) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    json = "200 OK\r\ncontent-type: application/json"
    answers = {
        "endless": (endless, "more than 4194304 bytes"),
        "packed": (answering(f"{json}\r\ncontent-encoding: gzip", bomb), "compressed"),
        "broken": (answering("500 Oh no", b"<html>"), "error response"),
        "no-json": (answering(json, b"{{{{"), "parse"),
    }
    for name, (answer, _) in answers.items():
        address, _ = await serve(answer)
        await servers.add(name, url=address, protocol="legacy")
    for name, (_, words) in answers.items():
        connection = servers.source.connection("w", name)
        assert connection is not None
        await servers.until(lambda connection=connection, words=words: words in connection.problem.sentence)
        await servers.source.repository.delete("w", name, by="ann", edited=None)


async def test_a_secret_does_not_follow_a_redirect_to_another_origin(servers: Servers, serve: Serve) -> None:
    servers.secrets.known["key"] = "the secret of this server"
    elsewhere, stolen = await serve(answering("200 OK", b""))
    address, heads = await serve(answering(f"307 There\r\nlocation: {elsewhere}", b""))
    headers = {"Authorization": "Bearer secret:key"}
    connection = await servers.add("moving", url=f"{address}?apikey=secret:key", headers=headers, protocol="legacy")
    await servers.until(lambda: "not followed" in connection.problem.sentence)
    assert connection.server.endpoint.endswith("?apikey=secret:key"), "what a definition is bound to is no secret"
    assert b"POST /mcp?apikey=the%20secret%20of%20this%20server HTTP" in heads[0]
    assert b"authorization: bearer the secret of this server" in heads[0].lower()
    assert stolen == []
    await servers.source.repository.delete("w", "moving", by="ann", edited=None)
