"""One end of a JSON-RPC 2.0 channel: frames in, calls and notes out. Knows no method of the protocol.

A `Service` is told what arrives, by plain callbacks in the order of arrival, so that the hot path needs no task and no
queue. Whoever wants a task for a call makes one.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from bollard.protocol import JsonObject, JsonValue, limits
from bollard.wire.envelope import (
    INTERNAL_ERROR,
    Answer,
    Call,
    CallId,
    Failure,
    Note,
    answer_frame,
    call_frame,
    failure_frame,
    note_frame,
    open_envelope,
)
from bollard.wire.errors import CallTimeout, ChannelClosed, FrameError, PayloadTooLarge, RemoteError, WireError
from bollard.wire.held_answers import HeldAnswers
from bollard.wire.limits import AT_ONCE_BYTES
from bollard.wire.strict_json import decode
from bollard.wire.transport import Transport

__all__ = ["Incoming", "Outgoing", "Peer", "Service"]

_LEFT: Final = "nobody waits for this call any more"


class Incoming:
    """A call of the other side, to be answered once. Answers after the first, or on a dead channel, are dropped."""

    __slots__ = ("_peer", "answered", "id", "method", "on_left", "params")

    def __init__(self, peer: "Peer", call: Call) -> None:
        self._peer = peer
        self.id = call.id
        self.method = call.method
        self.params = call.params
        self.answered = False
        self.on_left: Callable[[], None] | None = None
        """Told when the answer is on the transport: at once, unless the other side is behind with its reading."""

    def answer(self, result: JsonValue) -> None:
        if self.answered:
            return
        try:
            frame = answer_frame(self.id, result)
        except FrameError as error:
            self.fail(INTERNAL_ERROR, f"the answer to {self.method[:64]} cannot be sent: {error}")
            return
        if len(frame) > self._peer.frame_bytes:
            self.fail(INTERNAL_ERROR, f"the answer to {self.method[:64]} is larger than a frame ({len(frame)} bytes)")
            return
        self._settle(frame)

    def fail(self, code: int, message: str, data: JsonValue = None) -> None:
        if self.answered:
            return
        try:
            frame = failure_frame(self.id, code, message, data)
        except FrameError:
            frame = b""
        if not frame or len(frame) > self._peer.frame_bytes:
            frame = failure_frame(self.id, code, "the error's own sentence cannot be sent in a frame")
        self._settle(frame)

    def _settle(self, frame: bytes) -> None:
        self.answered = True
        self._peer.settle(self.id, frame, self.on_left)


class Service(Protocol):
    """What one side does with what arrives. Callbacks must not block and must not raise."""

    def quick(self, frame: bytes) -> bool:
        """Take a frame before it is decoded; False leaves it to the general way."""
        ...

    def called(self, call: Incoming) -> None: ...

    def noted(self, note: Note, size: int) -> None:
        """A notification and the bytes of its frame."""
        ...

    def faulted(self, fault: FrameError) -> None:
        """A frame that could not be used."""
        ...

    def batch_ended(self) -> None:
        """Everything that arrived together has been told."""
        ...

    def closed(self, reason: str) -> None: ...


class Outgoing:
    """A call of this side that somebody waits for. Left once, whether its answer has come or not."""

    __slots__ = ("_answer", "_given_up", "_left", "_peer", "id")

    def __init__(self, peer: "Peer", answer: "asyncio.Future[JsonValue]", given_up: "Callable[[CallId], None] | None"):
        self._peer = peer
        self._answer = answer
        self._given_up = given_up
        self._left = False
        self.id: CallId = 0

    async def answer(self) -> JsonValue:
        try:
            result = await self._answer
        except (RemoteError, ChannelClosed):
            raise  # answered, or never to be
        except BaseException:
            self.leave()
            raise
        if self._left:
            raise ChannelClosed(_LEFT)
        return result

    def leave(self) -> None:
        """Nobody gets its answer. That is told also of one that has come: whoever sent it takes it for read."""
        if self._left:
            return
        self._left = True
        if not self._answer.done():
            self._answer.set_exception(ChannelClosed(_LEFT))
        self._peer.leave(self.id, self._given_up)


class _Asked:
    """Stands where a future would, and tells at once instead of in a later turn of the loop."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[JsonValue | WireError], None]) -> None:
        self._told = told

    def done(self) -> bool:
        return False  # it leaves the table when it is told

    def set_result(self, result: JsonValue) -> None:
        self._told(result)

    def set_exception(self, error: WireError) -> None:
        self._told(error)


class Peer:
    """Sends calls and notes, matches answers, and tells its service the rest."""

    def __init__(self, transport: Transport, service: Service, *, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self.transport = transport
        self.frame_bytes = frame_bytes
        """The largest frame to send; the other side may state less than this side takes."""
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._next_id = 0
        self._waiting: dict[CallId, asyncio.Future[JsonValue] | _Asked] = {}
        self._given_up: set[CallId] = set()
        self._unanswered: set[CallId] = set()
        self._held = HeldAnswers(transport)
        self._closed: str | None = None
        self._closing = False
        self._receive_bytes = frame_bytes

    def start(self) -> None:
        self.transport.start(self)

    @property
    def closed_because(self) -> str | None:
        return self._closed

    # --- sending ---

    async def call(
        self,
        method: str,
        params: JsonObject,
        *,
        timeout_s: float | None = None,
        given_up: Callable[[CallId], None] | None = None,
    ) -> JsonValue:
        """Ask and wait. `given_up` is told the call's id when the waiter is cancelled or the time is up."""
        answer: asyncio.Future[JsonValue] = self._loop.create_future()
        outgoing = self._open_call(method, params, answer, given_up)
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, self._time_is_up, answer, method, timeout_s)
        try:
            return await outgoing.answer()
        finally:
            if timer is not None:
                timer.cancel()

    def open_call(self, method: str, params: JsonObject, given_up: Callable[[CallId], None]) -> Outgoing:
        """Ask, for somebody who may leave the call without being cancelled."""
        return self._open_call(method, params, self._loop.create_future(), given_up)

    def _open_call(
        self,
        method: str,
        params: JsonObject,
        answer: asyncio.Future[JsonValue],
        given_up: Callable[[CallId], None] | None,
    ) -> Outgoing:
        outgoing = Outgoing(self, answer, given_up)
        outgoing.id = self._send_call(method, params, answer)
        return outgoing

    def leave(self, call_id: CallId, given_up: Callable[[CallId], None] | None) -> None:
        """`Outgoing` calls this."""
        if self._closed is not None:
            return
        if self._waiting.pop(call_id, None) is not None:
            self._given_up.add(call_id)
        if given_up is not None:
            given_up(call_id)

    def ask(self, method: str, params: JsonObject, told: "Callable[[JsonValue | WireError], None]") -> None:
        """Ask without waiting: `told` hears the answer in its place among whatever arrives with it."""
        self._send_call(method, params, _Asked(told))

    def _send_call(self, method: str, params: JsonObject, waiter: "asyncio.Future[JsonValue] | _Asked") -> CallId:
        if self._closed is not None:
            raise ChannelClosed(self._closed)
        self._next_id += 1
        frame = call_frame(self._next_id, method, params)
        if len(frame) > self.frame_bytes:
            raise PayloadTooLarge(method, len(frame), self.frame_bytes)
        if len(self._waiting) + len(self._given_up) >= limits.CHANNEL_REQUESTS_IN_FLIGHT:
            raise RemoteError(INTERNAL_ERROR, f"{limits.CHANNEL_REQUESTS_IN_FLIGHT} calls are unanswered already")
        self._waiting[self._next_id] = waiter
        self.transport.send(frame)
        return self._next_id

    @staticmethod
    def _time_is_up(answer: asyncio.Future[JsonValue], method: str, seconds: float) -> None:
        if not answer.done():
            answer.set_exception(CallTimeout(method, seconds))

    def note(self, method: str, params: JsonObject) -> None:
        self.transport.send(note_frame(method, params))

    def settle(self, call_id: CallId, frame: bytes, left: Callable[[], None] | None) -> None:
        """The answer to a call of the other side; `Incoming` calls this. What is not small waits for room."""
        if call_id not in self._unanswered:
            return
        if len(frame) > AT_ONCE_BYTES and (self.transport.congested or self._held):
            self._held.put(frame, lambda: self._left(call_id, left))
            return
        self.transport.send(frame)
        self._left(call_id, left)

    def _left(self, call_id: CallId, told: Callable[[], None] | None) -> None:
        self._unanswered.discard(call_id)
        if told is not None:
            told()

    @property
    def held_bytes(self) -> int:
        """Answers that wait because the other side is behind with its reading."""
        return self._held.bytes

    def close(self, reason: str) -> None:
        """Hear nothing more, send what is queued, and go."""
        self._closing = True
        self._held.send_some()
        self.transport.close(reason)

    # --- receiving ---

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        service = self._service
        for frame in frames:
            if self._closing or self._closed is not None:
                return
            if isinstance(frame, FrameError):
                service.faulted(frame)
            elif not service.quick(frame):
                self._receive(frame)
        service.batch_ended()
        self.transport.flush()

    def _receive(self, frame: bytes) -> None:
        try:
            envelope = open_envelope(decode(frame, frame_bytes=self._receive_bytes))
        except FrameError as fault:
            self._service.faulted(fault)
            return
        match envelope:
            case Note():
                self._service.noted(envelope, len(frame))
            case Call():
                self._called(envelope)
            case Answer():
                self._answered(envelope.id, envelope)
            case Failure():
                self._answered(envelope.id, envelope)

    def _called(self, call: Call) -> None:
        if call.id in self._unanswered:
            self._service.faulted(FrameError("envelope", "the id of an unanswered call was used again"))
            return
        if len(self._unanswered) >= limits.CHANNEL_REQUESTS_IN_FLIGHT:
            self._service.faulted(
                FrameError("envelope", f"more than {limits.CHANNEL_REQUESTS_IN_FLIGHT} unanswered calls")
            )
            return
        self._unanswered.add(call.id)
        self._service.called(Incoming(self, call))

    def _answered(self, call_id: CallId | None, envelope: Answer | Failure) -> None:
        if call_id is None:
            return  # The peer could not read something of ours; there is nobody to tell.
        waiter = self._waiting.pop(call_id, None)
        if waiter is None:
            if call_id in self._given_up:
                self._given_up.discard(call_id)
            else:
                self._service.faulted(FrameError("envelope", "an answer to no call"))
            return
        if waiter.done():
            return
        if isinstance(envelope, Answer):
            waiter.set_result(envelope.result)
        else:
            waiter.set_exception(RemoteError(envelope.code, envelope.message, envelope.data))

    def connection_lost(self, reason: str) -> None:
        if self._closed is not None:
            return
        self._closed = reason
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ChannelClosed(reason))
        self._service.closed(reason)
