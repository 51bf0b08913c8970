"""The HTTP client against sockets that answer byte for byte as a test demands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
from tests.tables import for_each

from bollard.cli.client.http_client import Address, BadAnswer, ConnectionLost, HttpClient, Unreachable, read_url

_TLS = b"\x16"
"""The first byte of a TLS handshake."""


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[tuple[HttpClient, list[bytes]]]:
    """A server that reads one request, sends the pieces one by one, and hangs up."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            first = await reader.readexactly(1)
            if first == _TLS:  # after an answer that is no HTTP, the client looks whether the port speaks TLS
                return
            head = first + await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
            requests.append(head + await reader.readexactly(length))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield HttpClient(Address(scheme="http", host="127.0.0.1", port=port), {"Authorization": "Bearer t"}), requests


async def read(client: HttpClient) -> tuple[int, bytes]:
    async with client.request("GET", "/x") as answer:
        return answer.status, await answer.whole()


async def test_a_request_carries_its_headers_and_body() -> None:
    async with (
        answering(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}") as (client, requests),
        client.request("POST", "/api/v1/runs?a=b", b'{"a":1}', {"Accept": "text/plain"}) as answer,
    ):
        assert answer.status == 202
        assert await answer.whole() == b"{}"
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /api/v1/runs?a=b HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in head
    assert b"\r\nAccept: text/plain\r\n" in head
    assert body == b'{"a":1}'


async def test_a_large_body_is_sent_whole_with_progress() -> None:
    body, told = bytes(range(256)) * 1000, list[int]()
    async with (
        answering(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}") as (client, requests),
        client.request("POST", "/x", body, {"Content-Type": "application/zip"}, told.append) as answer,
    ):
        assert answer.status == 201
    head, _, sent = requests[0].partition(b"\r\n\r\n")
    assert sent == body
    assert b"\r\nContent-Type: application/zip\r\n" in head + b"\r\n"
    assert b"application/json" not in head
    assert told == [65536, 131072, 196608, 256000]


@for_each("cut", [1, 2, 3, 7, 1000])
async def test_chunks_are_joined_at_any_cut(cut: int) -> None:
    body = b"5\r\nhello\r\n1;ext=1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    async with answering(*(whole[at : at + cut] for at in range(0, len(whole), cut))) as (client, _):
        assert await read(client) == (200, b"hello 0123456789")


async def test_a_body_without_a_length_is_read_to_the_end() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nabc", b"def") as (client, _):
        assert await read(client) == (200, b"abcdef")


async def test_an_interim_response_is_not_the_answer() -> None:
    async with answering(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx") as found:
        assert await read(found[0]) == (404, b"x")


@for_each(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
async def test_an_answer_that_ends_too_early_is_a_lost_connection(answer: bytes) -> None:
    async with answering(answer) as (client, _):
        with pytest.raises(ConnectionLost):
            await read(client)


@for_each(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 yes\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_an_invalid_http_response_is_reported(answer: bytes) -> None:
    async with answering(answer) as (client, _):
        with pytest.raises(BadAnswer):
            await read(client)


async def test_a_closed_port_is_unreachable() -> None:
    with pytest.raises(Unreachable) as caught:
        await read(HttpClient(Address(scheme="http", host="127.0.0.1", port=1), {}))
    assert str(caught.value.detail) == "Connection refused"


async def test_a_header_cannot_inject_another() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (client, requests):
        with pytest.raises(ValueError, match="line break"):
            async with client.request("GET", "/", headers={"Last-Event-ID": "1\r\nX: y"}):
                pass
    assert requests == []


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8420", "http://127.0.0.1:8420"),
        ("http://127.0.0.1:8420/", "http://127.0.0.1:8420"),
        ("https://host.example", "https://host.example:443"),
        ("http://[::1]:1/base/", "http://[::1]:1/base"),
    ],
)
def test_a_url_is_parsed_as_an_address(url: str, address: str) -> None:
    assert str(read_url(url)) == address


@for_each("url", ["", "ftp://x", "127.0.0.1:80", "http://", "http://x:99999", "http://u:p@x", "http://x?y"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the caller has the sentence
        read_url(url)
