"""The helper's side: frames, the socket to the host, and the end of the helper when its host ends.

Imports only the standard library, because the journal process loads it.
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
"""Holds the pid of the host."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Blocked while a helper loads, so that a signal to all processes of a host does not end it."""
READ_BYTES: Final = 1 << 16
"""Bytes of one read; small enough that the allocator does not map new memory each time."""
FRAME_BYTES: Final = (1 << 32) - 1
"""The largest frame that a length can announce."""
_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_Heard = TypeVar("_Heard")
_Kind = TypeVar("_Kind")


class HostGone(BaseException):
    """The host closed the socket. Not an `Exception`, so that no handler of errors catches it."""


def framed(body: bytes) -> bytes:
    """Return a frame: the length of the body, then the body."""
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Splits received bytes into the bodies of frames."""

    def __init__(self, frame_bytes: int = FRAME_BYTES) -> None:
        self._frame_bytes = frame_bytes
        self._rest = bytearray()
        self._wanted = 0
        """Size of `_rest` at which its first frame is complete."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies of the frames that `data` completes. Raises `ValueError` if a frame is too large."""
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
        """Store the beginning of a frame. Checks its size here, because a frame that is too large is never complete."""
        if wanted > self._frame_bytes + _LENGTH.size:
            raise ValueError(f"a frame of {wanted} bytes; {self._frame_bytes} are the most")
        self._rest += beginning
        self._wanted = wanted


def deny_inspection() -> None:
    """Deny other processes of this user the memory, the environment and the descriptors of this process; the kernel
    writes no core file of it either. The host and its helpers call this first. A program that this process starts does
    not inherit it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def host_socket() -> socket.socket:
    """Return the socket to the host. Its descriptor is the first argument of the command."""
    match sys.argv[1:]:
        case [descriptor, *_] if descriptor.isdecimal():
            connection = socket.socket(fileno=int(descriptor))
            connection.set_inheritable(False)
            return connection
        case _:
            raise SystemExit("the host starts this process itself")


def live_with_host() -> None:
    """Tie this process to its host: ignore signals that stop a host, because the host decides when to stop, and let the
    kernel kill this process when the host exits. Other systems notice the closed socket. Raises `HostGone`."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != os.environ.get(HOST_PID_VARIABLE):
        raise HostGone


class HostLink(Generic[_Heard]):
    """The blocking connection to the host: one thread receives, every thread may send."""

    def __init__(
        self, connection: socket.socket, decode: Callable[[bytes], _Heard], frame_bytes: int = FRAME_BYTES
    ) -> None:
        self._connection = connection
        self._decode = decode
        self._frames = FrameReader(frame_bytes)
        self._held: list[_Heard] = []
        """Messages that arrived while `expect` waited for another one."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._saying = threading.Lock()

    def hear(self, timeout_s: float | None = None) -> list[_Heard]:
        """Return the messages that arrive within the time; empty if there are none. Raises `HostGone`."""
        if self._held:
            held, self._held = self._held, []
            return held
        return self._receive(timeout_s)

    def expect(self, kind: type[_Kind]) -> _Kind:
        """Wait for a message of this kind; `hear` returns the others later. Raises `HostGone`."""
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
