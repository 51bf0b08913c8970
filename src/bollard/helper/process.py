"""The host's side: one helper process, the frames both ways, requests and their answers, and its end.

The part of the host that uses a helper decides when to start it, and what its loss means.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from bollard.helper.host_link import FRAME_BYTES, HOST_PID_VARIABLE, READ_BYTES, STOP_SIGNALS, FrameReader, framed
from bollard.wire.limits import WRITE_HIGH_WATER_BYTES
from bollard.wire.process import ChildProcess, LineCallback

_Heard = TypeVar("_Heard")


class HelperEnded(Exception):
    """The helper process has ended. It may have carried out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """The limits of a link. A caller that bounds its requests itself needs none."""

    frame_bytes: int = FRAME_BYTES
    """Size of a received frame."""
    unsent_bytes: int = sys.maxsize
    """Unsent bytes above which the connection is cut."""
    stall_s: float | None = None
    """Time in which a congested peer must read a byte; otherwise the connection is cut."""


NO_LIMITS: Final = LinkLimits()
_READS_AT_ONCE: Final = 16
"""Reads of `READ_BYTES` in one turn of the loop."""


class FrameLink(Generic[_Heard]):
    """Messages over one end of a socket pair, on the event loop.

    `send` never waits: the link buffers what the socket does not take. `heard` is called for each message. `lost` is
    called once, when the peer is gone, sends an invalid frame or is cut off; no message follows.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        decode: Callable[[bytes], _Heard],
        heard: Callable[[_Heard], None],
        lost: Callable[[], None],
        limits: LinkLimits = NO_LIMITS,
    ) -> None:
        self._connection = connection
        self._decode = decode
        self._heard = heard
        self._lost = lost
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(limits.frame_bytes)
        # Allocated early: a host without memory must still notice that its helper is gone.
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._unsent = bytearray()
        self._taken_bytes = 0
        self._stall: asyncio.TimerHandle | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.closed = False
        connection.setblocking(False)
        self._loop.add_reader(connection.fileno(), self._readable)

    def send(self, body: bytes) -> None:
        """Send one message. Dropped if the peer is gone."""
        if self.closed:
            return
        data = framed(body)
        sent = 0
        if not self._unsent:
            try:
                sent = self._connection.send(data)
            except BlockingIOError:
                pass
            except OSError:
                return  # the peer is gone; the reader notices after it has read the rest
            if sent == len(data):
                return
            self._loop.add_writer(self._connection.fileno(), self._writable)
        self._keep(memoryview(data)[sent:])

    async def drain(self) -> None:
        """Wait until the peer is no longer congested, or gone."""
        await self._has_room.wait()

    def lose(self) -> None:
        """Close the link, drop unsent bytes, and call `lost`. Idempotent."""
        if self.closed:
            return
        self.closed = True
        try:
            self._lost()  # first: where memory is short, the rest may fail
        finally:
            self._loop.remove_reader(self._connection.fileno())
            self._loop.remove_writer(self._connection.fileno())
            self._connection.close()
            self._unsent.clear()
            self._find_room()

    def _readable(self) -> None:
        """Read until the socket is empty. uvloop stops watching a socket with a pending error after one call, so a
        reader that stops early would miss the end of a killed peer."""
        for _ in range(_READS_AT_ONCE):
            if self.closed or not self._read():
                return
        self._loop.call_soon(self._readable)  # so that a talkative peer does not starve the loop

    def _read(self) -> bool:
        """Read once. Returns whether there may be more."""
        try:
            size = self._connection.recv_into(self._buffer)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        if not size:
            self.lose()
            return False
        try:
            bodies = self._frames.feed(bytes(self._buffer[:size]))
        except ValueError:
            self.lose()
            return False
        for body in bodies:
            try:
                message = self._decode(body)
            except msgspec.MsgspecError:
                self.lose()
                return False
            self._heard(message)
        return True

    def _keep(self, data: memoryview) -> None:
        self._unsent += data
        if len(self._unsent) > self._limits.unsent_bytes:
            self._cut()
        elif len(self._unsent) > WRITE_HIGH_WATER_BYTES and self._has_room.is_set():
            self._has_room.clear()
            self._watch_stall()

    def _writable(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            sent = len(self._unsent)  # the peer is gone, and the reader notices
        self._taken_bytes += sent
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._connection.fileno())
        if len(self._unsent) <= WRITE_HIGH_WATER_BYTES:
            self._find_room()

    def _find_room(self) -> None:
        self._has_room.set()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _watch_stall(self) -> None:
        if self._limits.stall_s is not None:
            self._stall = self._loop.call_later(self._limits.stall_s, self._look_at_stall, self._taken_bytes)

    def _look_at_stall(self, taken_before: int) -> None:
        if self._taken_bytes == taken_before:
            self._cut()
        else:
            self._watch_stall()

    def _cut(self) -> None:
        """End the stream for the reader, so that `lost` is never called inside `send`."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class HelperProcess(Generic[_Heard]):
    """A running helper process: `python -m MODULE` with one end of a socket pair.

    `heard` gets each message. `lost` is called once if the process ends or its connection is lost without `stop`; then
    pending requests fail, and everything that the process started is killed.
    """

    def __init__(
        self,
        module: str,
        *,
        environment: Mapping[str, str],
        decode: Callable[[bytes], _Heard],
        heard: Callable[["HelperProcess[_Heard]", _Heard], None],
        lost: Callable[["HelperProcess[_Heard]"], None],
        limits: LinkLimits = NO_LIMITS,
        output: LineCallback | None = None,
        own_session: bool = True,
        arguments: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """Start the process. Without `output` it writes to the host's stdout and stderr. Without `own_session`,
        processes that it started outlive it. It inherits `descriptors`, and gets `arguments` after the number of its
        socket. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                with _blocked_signals():
                    self._child = ChildProcess(
                        (sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments),
                        environment={**environment, HOST_PID_VARIABLE: str(os.getpid())},
                        descriptors=(theirs.fileno(), *descriptors),
                        output=output,
                        own_session=own_session,
                    )
            except BaseException:
                ours.close()
                raise
        self._lost = lost
        self._link = FrameLink(ours, decode=decode, heard=partial(heard, self), lost=self._lose, limits=limits)
        self.send: Final = self._link.send
        """Send one message. Dropped if the process is gone."""
        self._answers: dict[int, asyncio.Future[_Heard | None]] = {}
        self._is_stopping = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def has_requests(self) -> bool:
        """Whether a request is pending."""
        return bool(self._answers)

    async def request(self, number: int, body: bytes) -> _Heard:
        """Send a request and wait until `settle` gets its answer. Raises `HelperEnded`."""
        if self._link.closed:
            raise HelperEnded
        answer: asyncio.Future[_Heard | None] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self._link.send(body)
            result = await answer
        finally:
            del self._answers[number]
        if result is None:
            raise HelperEnded
        return result

    def settle(self, number: int, answer: _Heard) -> None:
        """Resolve a pending request."""
        waiting = self._answers.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def kill(self) -> None:
        """Kill the process and everything that it started. `lost` is called later."""
        self._child.kill()

    async def stop(self, grace_s: float, farewell: bytes | None = None) -> None:
        """Stop the process: send `farewell` or close the socket, wait, then kill what is left. `lost` is not called."""
        self._is_stopping = True
        if farewell is None:
            self._link.lose()
        else:
            self._link.send(farewell)
        await asyncio.wait([self._child.exited], timeout=grace_s)
        await self.end()

    async def end(self) -> None:
        """Kill the process and wait for its end."""
        self.kill()
        await asyncio.wait([self._child.exited])
        self._link.lose()
        await self._child.close()

    def _lose(self) -> None:
        try:
            if not self._is_stopping:
                self._lost(self)
        finally:
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_result(None)
            if not self._is_stopping:
                self._closing = asyncio.create_task(self.end())


@contextlib.contextmanager
def _blocked_signals() -> Generator[None]:
    """Block the stop signals. A process that is started meanwhile inherits the mask until it has loaded; the host gets
    its own signals afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
