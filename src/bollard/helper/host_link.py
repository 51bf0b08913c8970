"""The helper's side: frames, the socket to the host, and the end with the host.

Stands on the standard library alone: the journal process loads it.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

HOST_PID_VARIABLE: Final = "BOLLARD_HOST_PID"
"""Tells a helper which process started it."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Blocked in a helper until it has loaded, so that a signal to all processes of a host does not end it meanwhile."""
READ_BYTES: Final = 1 << 16
"""Small enough that the memory for it is not mapped anew for each read."""
FRAME_BYTES: Final = (1 << 32) - 1
"""The largest frame that a length can announce."""
_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1
_Heard = TypeVar("_Heard")
_Kind = TypeVar("_Kind")


class HostGone(BaseException):
    """The other end of the socket is closed. Not an `Exception`: no handler of a helper's work may survive it."""


def framed(body: bytes) -> bytes:
    """The body with its length in front."""
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts what arrives into the bodies of whole frames."""

    def __init__(self, frame_bytes: int = FRAME_BYTES) -> None:
        self._frame_bytes = frame_bytes
        self._rest = bytearray()
        self._wanted = 0
        """Bytes that `_rest` must have before a frame can be complete."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. Raises `ValueError` for a frame that is too large."""
        if self._rest:
            self._rest += data  # grows in place: a large frame is copied once, however small its pieces are
            if len(self._rest) < self._wanted:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        bodies: list[bytes] = []
        start, end = 0, len(data)
        while start < end:
            after = start + _LENGTH.size
            if after <= end:
                (size,) = _LENGTH.unpack_from(data, start)
                after += size
            if after > end:
                self._hold(data[start:], after - start)
                break
            bodies.append(data[start + _LENGTH.size : after])
            start = after
        return bodies

    def _hold(self, beginning: bytes, wanted: int) -> None:
        """Keep the beginning of a frame. One that is too large never arrives as a whole, so it is noticed here."""
        if wanted > self._frame_bytes + _LENGTH.size:
            raise ValueError(f"a frame of {wanted} bytes; {self._frame_bytes} are the most")
        self._rest += beginning
        self._wanted = wanted


def host_socket() -> socket.socket:
    """The socket to the host. The command that starts a helper ends with its descriptor."""
    match sys.argv[1:]:
        case [descriptor] if descriptor.isdecimal():
            connection = socket.socket(fileno=int(descriptor))
            connection.set_inheritable(False)
            return connection
        case _:
            raise SystemExit("the host starts this process itself")


def live_with_host() -> None:
    """Tie this process to its host: signals that stop a host are ignored, because the host says when to stop, and the
    kernel ends this process with its host, where it can; elsewhere the closed socket does. Raises `HostGone`."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != os.environ.get(HOST_PID_VARIABLE):
        raise HostGone


class HostLink(Generic[_Heard]):
    """The socket to the host for a helper that waits on it: one thread hears, every thread may say something."""

    def __init__(
        self, connection: socket.socket, decode: Callable[[bytes], _Heard], frame_bytes: int = FRAME_BYTES
    ) -> None:
        self._connection = connection
        self._decode = decode
        self._frames = FrameReader(frame_bytes)
        self._held: list[_Heard] = []
        """Messages that arrived while another one was expected."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._saying = threading.Lock()

    def hear(self, timeout_s: float | None = None) -> list[_Heard]:
        """The messages that arrive within the time, perhaps none. Raises `HostGone`."""
        if self._held:
            held, self._held = self._held, []
            return held
        return self._receive(timeout_s)

    def expect(self, kind: type[_Kind]) -> _Kind:
        """Wait for a message of this kind; others are heard later. Raises `HostGone`."""
        while True:
            arrived = self._receive(None)
            for message in arrived:
                if isinstance(message, kind):
                    self._held += [other for other in arrived if other is not message]
                    return message
            self._held += arrived

    def say(self, body: bytes) -> None:
        """Send one message. Raises `HostGone`."""
        try:
            with self._saying:
                self._connection.sendall(framed(body))
        except OSError:
            raise HostGone from None

    def _receive(self, timeout_s: float | None) -> list[_Heard]:
        if not self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            return []
        try:
            data = self._connection.recv(READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise HostGone
        return [self._decode(body) for body in self._frames.feed(data)]
