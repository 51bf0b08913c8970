"""WebSockets on the server: message size, connection limits, and readers that stall."""

import os
import struct
from typing import Any

from bollard.host.limits import SOCKET_MESSAGE_BYTES

PATIENCE_S = 120.0
_HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _frame(payload: bytes, opcode: int = 1) -> bytes:
    mask = os.urandom(4)
    size = len(payload)
    length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BQ", 0xFF, size)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return bytes([0x80 | opcode]) + length + mask + masked


def _open(server: Any, buffer: int | None = None) -> Any:
    wire = server.wire(buffer=buffer)
    wire.send(_HANDSHAKE)
    answer = wire.answer()
    assert answer is not None
    assert answer.status == 101
    return wire


def test_a_websocket_answers_and_outlives_every_deadline_of_a_request(hasty: Any) -> None:
    wire = _open(hasty)
    assert not hasty.app.gone.wait(1.5)
    wire.send(_frame(b"hello"))
    while b"hello" not in wire.received:
        assert wire._more()
    wire.send(_frame(struct.pack("!H", 1000), opcode=8))
    assert wire.ended()
    assert hasty.app.gone.wait(PATIENCE_S)
    hasty.until(lambda: hasty.open == 0)


def test_a_message_that_is_too_large_ends_its_websocket(server: Any) -> None:
    wire = _open(server)
    wire.send(b"\x81\xff" + struct.pack("!Q", SOCKET_MESSAGE_BYTES + 1) + b"mask")
    assert wire.ended()
    assert struct.pack("!H", 1009) in wire.received
    server.until(lambda: server.open == 0)


def test_a_reader_that_does_not_read_is_cut(hasty: Any) -> None:
    wire = _open(hasty, buffer=4096)
    wire.send(_frame(b"flood"))
    assert hasty.app.gone.wait(PATIENCE_S)
    hasty.until(lambda: hasty.http.table.cut_readers == 1)
    hasty.until(lambda: hasty.open == 0)


def test_data_before_the_handshake_response_is_refused(server: Any) -> None:
    wire = server.wire()
    wire.send(_HANDSHAKE + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code) == (400, "malformed_request")
    assert wire.ended()
    assert server.app.seen == []


def test_a_handshake_with_another_method_is_a_plain_request(server: Any) -> None:
    wire = server.wire()
    wire.send(_HANDSHAKE.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\nhi"))
    answer = wire.answer()
    assert answer is not None
    assert (answer.json["method"], answer.json["body"]) == ("POST", 2)


def test_a_broken_handshake_is_refused_and_closed(server: Any) -> None:
    wire = server.wire()
    wire.send(_HANDSHAKE.replace(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b""))
    answer = wire.answer()
    assert answer is not None
    assert answer.status == 400
    assert wire.ended()
    server.until(lambda: server.open == 0)
