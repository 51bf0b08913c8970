"""Random bytes in random pieces: each connection gets a response or is closed, and the next client is served."""

import random
import re
from typing import Any

import pytest

_GOOD = [
    b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /early HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi",
    b"HEAD /a HTTP/1.0\r\nHost: localhost\r\nExpect: 100-continue\r\n\r\n",
]
_PIECES = [
    b"\r\n",
    b"\n",
    b"\r",
    b":",
    b" ",
    b"\0",
    b"\xff",
    b"0",
    b"HTTP/1.1",
    b"Host: x\r\n",
    b"chunked",
    b"\x81\x85",
]

_EXPECTED = {b"100", b"101", b"200", b"400", b"403", b"408", b"417", b"421", b"426", b"431"}


def _mutated(dice: random.Random) -> bytes:
    data = bytearray(b"".join(dice.choice(_GOOD) for _ in range(dice.randint(1, 3))))
    for _ in range(dice.randint(0, 6)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(4):
            case 0:
                data[at:at] = dice.choice(_PIECES)
            case 1:
                del data[at : at + dice.randint(1, 8)]
            case 2:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case _:
                data[at:at] = data[: dice.randrange(40)]
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_random_input_is_refused_or_closed_and_breaks_nothing(server: Any, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        wire, data = server.wire(), _mutated(dice)
        try:
            while data:
                size = dice.randint(1, len(data))
                wire.send(data[:size])
                data = data[size:]
            wire.socket.shutdown(1)
        except OSError:
            pass  # it was hung up on before all had left
        assert wire.ended()
        assert set(re.findall(rb"HTTP/1\.1 (\d+) ", wire.received)) <= _EXPECTED, wire.received
        wire.close()
    assert server.wire().get("/good").status == 200
    server.until(lambda: server.open <= 1)
    assert server.problems == []
