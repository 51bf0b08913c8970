"""One run on the worker's end of a worker connection: numbers its results, obeys credit, and sends its calls."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Final

from bollard.protocol import TERMINAL_TYPES, JsonObject, JsonValue, limits
from bollard.wire.envelope import INVALID_PARAMS, RESULT_ENVELOPE_BYTES, CallId, encode_delta_head, encode_result
from bollard.wire.errors import ChannelClosed, FrameError, PayloadTooLarge
from bollard.wire.flow_control import Window
from bollard.wire.limits import SMALL_FRAME_BYTES
from bollard.wire.peer import IncomingCall, OutgoingCall, Peer
from bollard.wire.strict_json import check_written, encode, encode_frame

_LEASING_ACTION: Final = "steering.pull"
"""The action whose answer counts as read when the run completes."""


class IncomingStream:
    """The chunks of a streamed call that wait for the runner. Taking them returns credit."""

    def __init__(self, peer: Peer, stream_id: str) -> None:
        self._peer = peer
        self._stream_id = stream_id
        self._chunks: deque[tuple[JsonValue, int]] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._ended = False
        self._taken = 0
        self._credited = 0
        self._taken_bytes = 0
        self._broken: FrameError | None = None

    def chunk(self, index: int, data: JsonValue, size: int) -> None:
        """Add a chunk from the host. A chunk out of order or beyond the window breaks the stream."""
        if self._broken is not None:
            return
        if index != self._taken + len(self._chunks) + 1:
            self._broken = FrameError("envelope", f"chunk {index} of a stream came out of order")
        elif len(self._chunks) >= limits.STREAM_WINDOW_CHUNKS:
            self._broken = FrameError("envelope", "the host sent more chunks than its credit allows")
        else:
            self._chunks.append((data, size))
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def next(self) -> tuple[bool, JsonValue]:
        """Return the next chunk, or `(False, None)` at the end. Raises the error that broke the stream."""
        while not self._chunks:
            if self._broken is not None:
                raise self._broken
            if self._ended:
                return False, None
            self._credit()
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        data, size = self._chunks.popleft()
        self._taken += 1
        self._taken_bytes += size
        if (
            self._taken - self._credited >= limits.STREAM_WINDOW_CHUNKS // 4
            or self._taken_bytes >= limits.STREAM_WINDOW_BYTES // 4
        ):
            self._credit()
        return True, data

    def _credit(self) -> None:
        if self._taken > self._credited and not self._ended:
            self._credited = self._taken
            self._taken_bytes = 0
            self._peer.note("api/credit", {"stream_id": self._stream_id, "index": self._taken})


class WorkerRun:
    """An active run: its `run/start` is not answered yet."""

    def __init__(
        self,
        peer: Peer,
        start: IncomingCall,
        run_id: str,
        *,
        window_results: int,
        window_bytes: int,
        streams: dict[str, IncomingStream],
        stream_numbers: Iterator[int],
    ) -> None:
        self.run_id = run_id
        self.request = start.params
        self.terminal_sent = False
        self._peer = peer
        self._start = start
        self._streams = streams
        self._sequence = 0
        self._stream_numbers = stream_numbers
        self._window = Window(limit_count=window_results, limit_bytes=window_bytes)
        self._window_bytes = window_bytes
        self._result_bytes = min(limits.RESULT_BYTES, peer.frame_bytes - RESULT_ENVELOPE_BYTES)
        self._turn = asyncio.Lock()
        self._credit_came: asyncio.Future[None] | None = None
        self._over: str | None = None
        self._delta_head = encode_delta_head(run_id)
        self._pulls: dict[OutgoingCall, None] = {}

    @property
    def over(self) -> bool:
        """Whether `run/start` was answered or the connection closed."""
        return self._over is not None

    def offer_text(self, text: str) -> bool:
        """Send a plain text delta if it needs no waiting. False leaves it to `emit`.

        The hot path: no coroutine, and only the text is encoded, because the rest of the frame is constant.
        """
        if self._over is not None or self._peer.transport.congested:
            return False
        try:
            frame = b'%b%b}},"sequence":%d}}' % (self._delta_head, encode(text), self._sequence + 1)
        except UnicodeEncodeError:
            return False  # `emit` reports the fault
        size = len(frame) - RESULT_ENVELOPE_BYTES
        if size > self._result_bytes or not self._window.fits(size) or self._turn.locked():
            return False
        self._sequence += 1
        self._window.take(self._sequence, size)
        self._peer.transport.send(frame)
        return True

    async def emit(self, kind: str, data: JsonObject) -> None:
        """Send one result in order, after waiting for credit and for room on the socket.

        Raises `PayloadTooLarge` or `FrameError` and sends nothing if it exceeds a limit, `ChannelClosed` if the run is
        over.
        """
        if self._over is not None:
            raise ChannelClosed(self._over)
        frame = encode_result(self.run_id, kind, data, self._sequence + 1)
        size = len(frame) - RESULT_ENVELOPE_BYTES
        if size > self._result_bytes:
            raise PayloadTooLarge(kind, size, self._result_bytes)
        check_written(frame, data)
        terminal = kind in TERMINAL_TYPES
        if not terminal and size > self._window_bytes:
            raise PayloadTooLarge(kind, size, self._window_bytes)
        if self._must_wait(size, terminal):
            # Encoded again after the wait, because other results take its number. The waiting result holds no frame.
            del frame
            await (self._wait_for_socket() if terminal else self._wait_for_credit(size - len(str(self._sequence + 1))))
            frame = encode_result(self.run_id, kind, data, self._sequence + 1)
            size = len(frame) - RESULT_ENVELOPE_BYTES
        if terminal:
            self.terminal_sent = True
            self._abandon_pulls()
        self._sequence += 1
        self._window.take(self._sequence, size)
        self._peer.transport.send(frame)

    def _must_wait(self, size: int, terminal: bool) -> bool:
        """Return whether a result must wait. The terminal result needs no credit, and a small one no room."""
        if terminal:
            return size > SMALL_FRAME_BYTES and self._peer.transport.congested
        return self._peer.transport.congested or not self._window.fits(size) or self._turn.locked()

    async def _wait_for_credit(self, size_without_number: int) -> None:
        """Wait for credit and room on the socket, in order of arrival."""
        async with self._turn:
            while True:
                self._check_open()
                if not self._window.fits(size_without_number + len(str(self._sequence + 1))):
                    self._credit_came = asyncio.get_running_loop().create_future()
                    await self._credit_came
                elif self._peer.transport.congested:
                    await self._peer.transport.drain()
                else:
                    return

    async def _wait_for_socket(self) -> None:
        await self._peer.transport.drain()
        self._check_open()

    def _check_open(self) -> None:
        if self._over is not None or self.terminal_sent:
            raise ChannelClosed(self._over or "the run has sent its last result")

    def credited(self, sequence: int) -> None:
        """Apply credit: the host committed results through `sequence`."""
        self._window.credit(sequence)
        self._wake()

    def finish(self, reason: str = "the run has ended") -> None:
        """Answer `run/start`. Nothing can be sent after that."""
        if self._over is None:
            self._over = reason
            self._start.answer({"last_sequence": self._sequence})
            self._wake()

    def refuse(self, message: str, field: str) -> None:
        """Answer `run/start` with an error. The run never started."""
        self._over = self._over or message
        self._start.fail(INVALID_PARAMS, message, {"field": field})

    def lose(self, reason: str) -> None:
        """End the run because the connection closed."""
        self._over = self._over or reason
        self._wake()

    def _wake(self) -> None:
        if self._credit_came is not None and not self._credit_came.done():
            self._credit_came.set_result(None)

    # --- the run API ---

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        """Send one API call and return its answer. A cancelled waiter sends `api/cancel`."""
        await self._check_call(action, params)
        body: JsonObject = {"run_id": self.run_id, "action": action, "params": params}
        call = self._peer.open_call("api/call", body, self._give_up)
        if action == _LEASING_ACTION:
            self._pulls[call] = None
        try:
            return await call.answer()
        finally:
            self._pulls.pop(call, None)

    def _abandon_pulls(self) -> None:
        """Abandon unread pulls before the terminal result, which acknowledges everything that was pulled."""
        for call in tuple(self._pulls):
            call.leave()

    async def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        """Send one streamed call and yield its chunks. Closing the iterator early sends `api/cancel`."""
        await self._check_call(action, params)
        stream_id = str(next(self._stream_numbers))
        incoming = self._streams[stream_id] = IncomingStream(self._peer, stream_id)
        body: JsonObject = {"run_id": self.run_id, "stream_id": stream_id, "action": action, "params": params}
        call = self._peer.open_call("api/stream", body, self._give_up)
        answer = asyncio.create_task(call.answer())
        answer.add_done_callback(lambda _: incoming.end())
        try:
            while True:
                more, chunk = await incoming.next()
                if not more:
                    break
                yield chunk
            await answer
        finally:
            del self._streams[stream_id]
            if not answer.done():
                call.leave()  # so that `api/cancel` is sent before the end of the run
                await asyncio.wait([answer])
            if not answer.cancelled():
                answer.exception()  # retrieved, so that asyncio does not warn about it

    async def _check_call(self, action: str, params: JsonObject) -> None:
        """Check that a call may be sent, and wait for room on the socket. The caller must send without awaiting."""
        size = len(encode_frame(params))
        if size > limits.CALL_BYTES:
            raise PayloadTooLarge(f"{action}'s parameters", size, limits.CALL_BYTES)
        if self._peer.transport.congested:
            await self._peer.transport.drain()
        if self._over is not None:
            raise ChannelClosed(self._over)

    def _give_up(self, call_id: CallId) -> None:
        if self._over is None:
            self._peer.note("api/cancel", {"run_id": self.run_id, "id": call_id})
