"""Time-outs: slow requests and slow readers."""

import socket
import threading
import time
from typing import Any

import pytest

from bollard.host.http.server.connection_table import ConnectionTimeouts, Deadlines
from bollard.host.limits import UNSENT_BYTES
from bollard.host.runs.hub import ReaderMemory

pytestmark = pytest.mark.full


PATIENCE_S = 120.0


def test_waits_expire_in_the_order_of_their_start() -> None:
    waits: Deadlines[str] = Deadlines(10.0)
    waits.begin("first", 100.0)
    waits.begin("second", 103.0)
    waits.begin("first", 104.0)  # goes on waiting from 100
    assert waits.oldest() == "first"
    assert waits.pop_expired(109.9) == []
    assert waits.pop_expired(110.0) == ["first"]
    assert waits.pop_expired(200.0) == ["second"]
    assert len(waits) == 0
    waits.begin("third", 200.0)
    waits.end("third")
    waits.end("nobody")
    assert waits.pop_expired(1000.0) == []
    assert waits.oldest() is None


def test_a_trickling_head_is_answered_with_408(hasty: Any) -> None:
    wire = hasty.wire()
    wire.send(b"GET / HTTP/1.1\r\nHost: loc")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("connection")) == (408, "request_timeout", ["close"])
    assert wire.ended()
    assert hasty.app.seen == []


def test_a_steadily_trickling_head_still_exceeds_its_deadline(hasty: Any) -> None:
    wire, late = hasty.wire(), threading.Event()

    def trickle() -> None:
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 10_000:
            try:
                wire.send(bytes([byte]))
            except OSError:
                break
            if late.wait(0.02):
                break

    feeder = threading.Thread(target=trickle)
    feeder.start()
    answer = wire.answer()
    late.set()
    feeder.join()
    assert answer is not None
    assert answer.status == 408


def test_a_connection_without_a_request_is_closed_silently(hasty: Any) -> None:
    wire = hasty.wire()
    assert wire.answer() is None
    assert wire.received == b""


def test_a_trickling_body_gets_408_and_the_app_a_disconnect(hasty: Any) -> None:
    wire = hasty.wire()
    wire.send(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code) == (408, "request_timeout")
    assert wire.ended()
    assert hasty.app.gone.wait(PATIENCE_S)


def test_a_body_at_the_minimum_rate_is_accepted(start: Any) -> None:
    server = start(ConnectionTimeouts(head_s=5, body_window_s=2, idle_s=5, drain_s=5, linger_s=1))
    wire, pause = server.wire(), threading.Event()
    wire.send(b"POST /steady HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10240\r\n\r\n")
    for _ in range(10):
        wire.send(b"x" * 1024)
        pause.wait(0.5)  # ten times 0.5 s: more than two windows
    answer = wire.answer()
    assert answer is not None
    assert answer.json["body"] == 10_240


def test_a_second_head_has_its_own_deadline(hasty: Any) -> None:
    wire = hasty.wire()
    assert wire.get("/first").status == 200
    wire.send(b"GET /second HTTP/1.1\r\nHo")
    answer = wire.answer()
    assert answer is not None
    assert answer.status == 408


def test_an_idle_connection_is_closed_at_its_deadline(hasty: Any) -> None:
    wire = hasty.wire()
    assert wire.get("/first").status == 200
    begun = time.monotonic()
    assert wire.ended()
    assert time.monotonic() - begun >= 0.5
    assert wire.received == b""


def test_a_silent_stream_stays_open(hasty: Any) -> None:
    """Longer than every deadline of this server."""
    wire = hasty.wire()
    assert wire.get("/stream").status == 200
    assert not hasty.app.gone.wait(2.0)
    table = hasty.http.table
    assert all(len(waits) == 0 for waits in (table.heads, table.bodies, table.idle, table.readers, table.leaving))
    wire.close()
    assert hasty.app.gone.wait(PATIENCE_S)


def test_a_reader_that_does_not_read_is_cut(hasty: Any) -> None:
    wire = hasty.wire(buffer=4096)
    wire.send(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert hasty.app.gone.wait(PATIENCE_S)
    hasty.until(lambda: hasty.http.table.cut_readers == 1)
    assert wire.ended()  # data in transit can still be read


def test_of_readers_that_buffer_too_much_the_longest_stuck_one_is_cut_first(start: Any) -> None:
    memory = ReaderMemory(limit=300 * 1024)
    server = start(memory=memory)
    table, wires = server.http.table, list[Any]()
    while not table.cut_readers:
        wires.append(server.wire(buffer=4096))
        wires[-1].send(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.until(lambda: len(table.readers) + table.cut_readers == len(wires))
        assert memory.held <= memory.limit + 256 * 1024
    assert len(wires) > 1
    server.until(lambda: server.open == len(wires) - table.cut_readers)
    assert not memory.is_full
    assert wires[0].ended()
    for wire in wires:
        wire.close()
    server.until(lambda: server.open == 0)
    assert memory.held == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no such limit")
def test_the_kernel_buffers_little_unsent_data(start: Any) -> None:
    """Connections inherit it from their listener."""
    server = start()
    assert server.listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES


def test_a_reader_that_does_not_read_does_not_keep_a_closed_connection(start: Any) -> None:
    server = start(ConnectionTimeouts(head_s=5, body_window_s=5, idle_s=5, drain_s=0.5, linger_s=0.2))
    wire = server.wire(buffer=4096)
    wire.send(b"GET /flood HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert server.app.gone.wait(PATIENCE_S)
    server.until(lambda: server.open == 0)


def test_a_refused_client_that_keeps_sending_reads_its_refusal_and_is_cut(hasty: Any) -> None:
    wire = hasty.wire()
    wire.send(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert answer.status == 400
    begun = time.monotonic()
    pause = threading.Event()
    try:
        while time.monotonic() - begun < PATIENCE_S:
            wire.send(b"x" * 100)
            pause.wait(0.02)
    except OSError:
        pass
    else:
        pytest.fail("nobody hung up")
    hasty.until(lambda: hasty.open == 0)
