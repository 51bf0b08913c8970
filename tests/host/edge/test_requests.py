"""Requests on a raw socket: ambiguous ones are refused."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.http.server.exchange import Exchange

PATIENCE_S = 120.0
_POST = b"POST /a HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
AMBIGUOUS = {
    "two lengths": _POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "the same length twice": _POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": _POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a length with a plus": _POST + b"Content-Length: +3\r\n\r\nabc",
    "a length below zero": _POST + b"Content-Length: -3\r\n\r\nabc",
    "a length in hex": _POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length with a space": _POST + b"Content-Length: 3 3\r\n\r\nabc",
    "an empty length": _POST + b"Content-Length: \r\n\r\nabc",
    "a length beyond all numbers": _POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "length and chunks": _POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "identity": _POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked, then identity": _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "gzip, then chunked": _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "something like chunked": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked behind a control character": _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked on HTTP/1.0": b"POST /a HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": _POST + b"X: a\r\n b\r\n\r\n",
    "a line folded with a tab": _POST + b"X: a\r\n\tb\r\n\r\n",
    "a folded encoding": _POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a bare LF behind the first line": b"GET /a HTTP/1.1\nHost: localhost\r\n\r\n",
    "a bare LF behind a header": b"GET /a HTTP/1.1\r\nHost: localhost\nX: b\r\n\r\n",
    "a bare LF at the end": b"GET /a HTTP/1.1\r\nHost: localhost\r\n\n",
    "only bare LF": b"GET /a HTTP/1.1\nHost: localhost\n\n",
    "a bare CR behind a header": b"GET /a HTTP/1.1\r\nHost: localhost\rX: b\r\n\r\n",
    "a bare CR in a value": _POST + b"X: b\rc\r\n\r\n",
    "two CR": b"GET /a HTTP/1.1\r\nHost: localhost\r\r\n\r\n",
    "a NUL": _POST + b"X: b\0c\r\n\r\n",
    "a space before the colon": b"GET /a HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a space before the colon of a length": _POST + b"Content-Length : 3\r\n\r\nabc",
    "a space before the first header": b"GET /a HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a header without a colon": _POST + b"foo\r\n\r\n",
    "a header without a name": _POST + b": foo\r\n\r\n",
    "a header name beyond ASCII": _POST + b"X\xff: 3\r\n\r\n",
    "a whole address": b"GET http://evil.example/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel to a path": b"CONNECT /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel with an upgrade": b"CONNECT /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path beyond ASCII": b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a control character in the path": b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two hosts": b"GET /a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /a HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"GET /a\r\n\r\n",
    "HTTP/1.2": b"GET /a HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "HTTP/1.10": b"GET /a HTTP/1.10\r\nHost: localhost\r\n\r\n",
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tab in the first line": b"GET\t/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a method in small letters": b"get /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a chunk below zero": _CHUNKED + b"-1\r\n\r\n",
    "a chunk with 0x": _CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk beyond all numbers": _CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a chunk with a bare LF": _CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "chunk data with a bare LF": _CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "a chunk that is longer than it says": _CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk size with a space": _CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "a chunk extension with a bare LF": _CHUNKED + b"3;a\nxx\r\nabc\r\n0\r\n\r\n",
    "a chunk without a size": _CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "a length in the trailer": _CHUNKED + b"0\r\nContent-Length: 3\r\n\r\n",
}


@for_each("name", AMBIGUOUS)
@for_each("split", [False, True], ids=["at once", "byte by byte"])
def test_an_ambiguous_request_is_refused(shared: Any, name: str, split: bool) -> None:
    wire = shared.wire()
    data = AMBIGUOUS[name] + _SMUGGLED
    try:
        for part in [bytes([byte]) for byte in data] if split else [data]:
            wire.send(part)
    except ConnectionError:
        pass  # it was hung up on before all had left
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("connection")) == (400, "malformed_request", ["close"])
    assert wire.ended()
    assert b"HTTP/1.1" not in wire.received  # no second answer
    assert "/smuggled" not in [path for _, path in shared.app.seen]
    wire.close()
    good = shared.wire()
    assert good.get("/good").status == 200
    good.close()
    assert shared.problems == []


def test_a_second_request_before_the_answer_is_never_read(server: Any) -> None:
    wire = server.wire()
    wire.send(b"GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n" + _SMUGGLED)
    answer = wire.answer()
    assert answer is not None
    assert (answer.json["path"], answer.all("connection")) == ("/first", ["close"])
    assert wire.ended()
    assert server.app.seen == [("GET", "/first")]


def test_a_second_request_during_a_stream_is_never_read(server: Any) -> None:
    wire = server.wire()
    assert wire.get("/stream").status == 200
    wire.send(_SMUGGLED)
    wire.send(b"x" * 300_000)
    assert wire.ended()
    assert server.app.gone.wait(PATIENCE_S)
    assert server.app.seen == [("GET", "/stream")]


def test_the_rest_of_a_body_is_never_parsed_as_a_request(server: Any) -> None:
    wire = server.wire()
    wire.send(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.all("connection")) == (200, ["close"])
    wire.send(_SMUGGLED * 3)
    assert wire.ended()
    assert server.app.seen == [("POST", "/early")]


def test_an_unknown_upgrade_is_ignored(server: Any) -> None:
    wire = server.wire()
    head = (
        b"POST /h2c HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
    )
    wire.send(head + _SMUGGLED)
    answer = wire.answer()
    assert answer is not None
    assert (answer.json["path"], answer.json["body"], answer.all("connection")) == ("/h2c", 3, ["close"])
    assert wire.ended()
    assert server.app.seen == [("POST", "/h2c")]


@pytest.mark.parametrize(
    "begun",
    [b"3\r\nabc\r\n0\r\nX: ", b"3\r\nabc\r\n0\r\n", b"3;a=", b""],
    ids=["a trailer", "many trailers", "a chunk extension", "zeros before a size"],
)
def test_trailers_and_chunk_extensions_are_limited(server: Any, begun: bytes) -> None:
    wire = server.wire()
    wire.send(_CHUNKED + begun)
    part = {b"": b"0", b"3\r\nabc\r\n0\r\n": b"X: a\r\n"}.get(begun, b"a")
    with contextlib.suppress(ConnectionError):  # it was hung up on before all had left
        for _ in range(64):
            wire.send(part * 4096)
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("connection")) == (431, "head_too_large", ["close"])
    assert "trailers and chunk extensions" in answer.json["error"]["message"]
    assert server.app.gone.wait(PATIENCE_S)  # the reader of the rest of the body is notified


def test_a_body_in_small_chunks_with_a_short_trailer_is_read_whole(server: Any) -> None:
    wire = server.wire()
    wire.send(_CHUNKED + b"1;a=b\r\nx\r\n" * 20_000 + b"0\r\nX: a\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.json["body"]) == (200, 20_000)


def test_one_connection_serves_many_requests(server: Any) -> None:
    wire = server.wire()
    for number in range(20):
        assert wire.get(f"/{number}").json["path"] == f"/{number}"
    wire.send(b"POST /with HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello\r\n")  # and an empty line
    answer = wire.answer()
    assert answer is not None
    assert answer.json["body"] == 5
    wire.send(_CHUNKED + b"3;why=not\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: yes\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert answer.json["body"] == 5
    assert "x-trailer" not in dict(answer.json["headers"])
    assert wire.get("/last").status == 200


def test_a_large_body_arrives_whole(server: Any) -> None:
    wire = server.wire()
    wire.send(b"POST /large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
    answer = wire.answer()
    assert answer is not None
    assert answer.json["body"] == 3_000_000


def test_a_client_with_expect_gets_100_continue(server: Any) -> None:
    wire = server.wire()
    wire.send(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-Continue \r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.headers) == (100, [])
    wire.send(b"abc")
    answer = wire.answer()
    assert answer is not None
    assert answer.json["body"] == 3


@pytest.mark.parametrize(
    "line", [b"Expect: banana", b"Expect: 100-continue, banana", b"Expect: 100-continue\r\nExpect: banana", b"Expect:"]
)
def test_an_unknown_expectation_is_refused(server: Any, line: bytes) -> None:
    wire = server.wire()
    wire.send(_POST + b"Content-Length: 3\r\n" + line + b"\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("connection")) == (417, "expectation_failed", ["close"])
    assert "Expect" in answer.json["error"]["hint"]
    assert server.app.seen == []


@pytest.mark.parametrize("packed", [b"gzip", b"identity, gzip", b"br", b"identity\r\nContent-Encoding: gzip", b""])
def test_a_compressed_body_is_refused(server: Any, packed: bytes) -> None:
    wire = server.wire()
    wire.send(_POST + b"Content-Length: 3\r\nContent-Encoding: " + packed + b"\r\n\r\nabc")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("connection")) == (415, "unsupported_media_type", ["close"])
    assert "Content-Encoding" in answer.json["error"]["hint"]
    assert server.app.seen == []


def test_a_body_with_identity_encoding_is_read(server: Any) -> None:
    wire = server.wire()
    wire.send(_POST + b"Content-Length: 3\r\nContent-Encoding: Identity \r\n\r\nabc")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.json["body"]) == (200, 3)


def test_an_http_1_0_client_gets_its_response_and_the_end(server: Any) -> None:
    wire = server.wire()
    wire.send(b"GET /old HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.json["path"], answer.all("connection")) == ("/old", ["close"])
    assert wire.ended()


@pytest.mark.parametrize("path", ["/broken", "/injected", "/silent"])
def test_an_error_of_the_app_gives_a_typed_response_or_the_end(server: Any, path: str) -> None:
    wire = server.wire()
    wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = wire.answer()
    if path == "/silent":
        assert answer is None
    else:
        assert answer is not None
        assert (answer.status, answer.code) == (500, "runtime_error")
        assert answer.all("set-cookie") == []
    assert server.wire().get("/good").status == 200


def test_a_head_is_limited_in_bytes_and_in_lines(server: Any) -> None:
    for lines in ([f"X-{number}: 1" for number in range(101)], ["X: " + "a" * 33_000], ["X: " + "a" * 1_000_000]):
        wire = server.wire()
        answer = wire.get("/a", *lines)
        assert (answer.status, answer.code) == (431, "head_too_large")
        assert wire.ended()
    wire = server.wire()
    assert wire.get("/" + "a" * 40_000).status == 431
    assert server.app.seen == []
    assert server.wire().get("/" + "a" * 8000, *[f"X-{number}: 1" for number in range(90)]).status == 200


class _Line:
    """A connection that one part fills."""

    def __init__(self) -> None:
        self.is_behind = False
        self.headers = b""
        self.transport: Any = self
        self.written = list[bytes]()
        self.room = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.is_behind = len(data) > 100

    async def drained(self) -> None:
        await self.room.wait()
        self.is_behind = False

    def set_reading(self, *, reading: bool) -> None: ...

    def answered(self) -> None: ...


async def test_a_body_part_that_fills_the_connection_delays_the_next_part() -> None:
    line = _Line()
    exchange = Exchange(line, {"method": "GET", "http_version": "1.1", "path": "/"}, keeps=True, continues=False)
    await exchange.send({"type": "http.response.start", "status": 200, "headers": []})
    part = {"type": "http.response.body", "body": b"x" * 1000, "more_body": True}
    sending = asyncio.create_task(exchange.send(part))
    await asyncio.sleep(0)
    assert b"x" * 1000 in b"".join(line.written)
    assert not sending.done()
    line.room.set()
    await sending
    line.room.clear()
    last = {"type": "http.response.body", "body": b"y" * 1000, "more_body": False}
    await exchange.send(last)  # nothing comes behind it that could wait
    assert exchange.complete
