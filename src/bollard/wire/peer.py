"""One end of a JSON-RPC 2.0 connection: sends and receives requests and notifications. Knows no protocol method.

A `PeerListener` receives callbacks in order of arrival, so that the hot path needs no task and no queue.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from bollard.protocol import JsonObject, JsonValue, limits
from bollard.wire.envelope import (
    INTERNAL_ERROR,
    CallId,
    ErrorResponse,
    Notification,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    read_envelope,
)
from bollard.wire.errors import CallTimeout, ChannelClosed, FrameError, PayloadTooLarge, RemoteError, WireError
from bollard.wire.limits import SMALL_FRAME_BYTES
from bollard.wire.outbox import HeldResponses
from bollard.wire.strict_json import decode
from bollard.wire.transport import Transport

_ABANDONED: Final = "the call was abandoned"


class IncomingCall:
    """A request of the peer, to be answered once. Later answers, and answers on a closed connection, are dropped."""

    __slots__ = ("_peer", "answered", "id", "method", "on_sent", "params")

    def __init__(self, peer: "Peer", call: Request) -> None:
        self._peer = peer
        self.id = call.id
        self.method = call.method
        self.params = call.params
        self.answered = False
        self.on_sent: Callable[[], None] | None = None
        """Called when the response was handed to the transport. A congested peer delays that."""

    def answer(self, result: JsonValue) -> None:
        if self.answered:
            return
        try:
            frame = encode_response(self.id, result)
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
            frame = encode_error(self.id, code, message, data)
        except FrameError:
            frame = b""
        if not frame or len(frame) > self._peer.frame_bytes:
            frame = encode_error(self.id, code, "the error's own sentence cannot be sent in a frame")
        self._settle(frame)

    def _settle(self, frame: bytes) -> None:
        self.answered = True
        self._peer.settle(self.id, frame, self.on_sent)


class PeerListener(Protocol):
    """Callbacks for incoming messages. They must not block and must not raise."""

    def quick(self, frame: bytes) -> bool:
        """Handle a frame before it is decoded. False leaves it to the general path."""
        ...

    def called(self, call: IncomingCall) -> None: ...

    def noted(self, note: Notification, size: int) -> None:
        """Handle a notification; `size` is the size of its frame in bytes."""
        ...

    def faulted(self, fault: FrameError) -> None:
        """Handle an unacceptable frame."""
        ...

    def batch_ended(self) -> None:
        """All frames that arrived together were handled."""
        ...

    def closed(self, reason: str) -> None: ...


class OutgoingCall:
    """A request to the peer that a caller waits for. It can be abandoned once, before or after its response."""

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
            raise  # answered, or the connection closed
        except BaseException:
            self.leave()
            raise
        if self._left:
            raise ChannelClosed(_ABANDONED)
        return result

    def leave(self) -> None:
        """Abandon the call. The peer is notified even if the response has arrived, because it counts it as read."""
        if self._left:
            return
        self._left = True
        if not self._answer.done():
            self._answer.set_exception(ChannelClosed(_ABANDONED))
        self._peer.leave(self.id, self._given_up)


class _ResponseCallback:
    """Has the interface of a future, but calls back at once instead of in a later turn of the loop."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[JsonValue | WireError], None]) -> None:
        self._callback = callback

    def done(self) -> bool:
        return False  # it leaves the table when it is called

    def set_result(self, result: JsonValue) -> None:
        self._callback(result)

    def set_exception(self, error: WireError) -> None:
        self._callback(error)


class Peer:
    """Sends requests and notifications, matches responses, and passes everything else to its listener."""

    def __init__(self, transport: Transport, listener: PeerListener, *, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self.transport = transport
        self.frame_bytes = frame_bytes
        """The largest frame to send. The peer may state a smaller limit than ours."""
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._next_id = 0
        self.answered_through = 0
        """The newest request that the peer has answered. The peer reads in order, so it has read all earlier ones."""
        self._waiting: dict[CallId, asyncio.Future[JsonValue] | _ResponseCallback] = {}
        self._given_up: set[CallId] = set()
        self._unanswered: set[CallId] = set()
        self._held = HeldResponses(transport)
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
        """Send a request and wait for its result. `given_up` gets the id if the waiter is cancelled or times out."""
        answer: asyncio.Future[JsonValue] = self._loop.create_future()
        outgoing = self._open_call(method, params, answer, given_up)
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, self._expire, answer, method, timeout_s)
        try:
            return await outgoing.answer()
        finally:
            if timer is not None:
                timer.cancel()

    def open_call(self, method: str, params: JsonObject, given_up: Callable[[CallId], None]) -> OutgoingCall:
        """Send a request that the caller may abandon without being cancelled."""
        return self._open_call(method, params, self._loop.create_future(), given_up)

    def _open_call(
        self,
        method: str,
        params: JsonObject,
        answer: asyncio.Future[JsonValue],
        given_up: Callable[[CallId], None] | None,
    ) -> OutgoingCall:
        outgoing = OutgoingCall(self, answer, given_up)
        outgoing.id = self._send_call(method, params, answer)
        return outgoing

    def leave(self, call_id: CallId, given_up: Callable[[CallId], None] | None) -> None:
        """Forget a call that `OutgoingCall` abandons."""
        if self._closed is not None:
            return
        if self._waiting.pop(call_id, None) is not None:
            self._given_up.add(call_id)
        if given_up is not None:
            given_up(call_id)

    def ask(self, method: str, params: JsonObject, callback: "Callable[[JsonValue | WireError], None]") -> int:
        """Send a request without waiting and return its id. `callback` gets the response in order of arrival."""
        return self._send_call(method, params, _ResponseCallback(callback))

    def _send_call(
        self, method: str, params: JsonObject, waiter: "asyncio.Future[JsonValue] | _ResponseCallback"
    ) -> int:
        if self._closed is not None:
            raise ChannelClosed(self._closed)
        self._next_id += 1
        frame = encode_request(self._next_id, method, params)
        if len(frame) > self.frame_bytes:
            raise PayloadTooLarge(method, len(frame), self.frame_bytes)
        if len(self._waiting) + len(self._given_up) >= limits.CHANNEL_REQUESTS_IN_FLIGHT:
            raise RemoteError(INTERNAL_ERROR, f"{limits.CHANNEL_REQUESTS_IN_FLIGHT} calls are unanswered already")
        self._waiting[self._next_id] = waiter
        self.transport.send(frame)
        return self._next_id

    @staticmethod
    def _expire(answer: asyncio.Future[JsonValue], method: str, seconds: float) -> None:
        if not answer.done():
            answer.set_exception(CallTimeout(method, seconds))

    def note(self, method: str, params: JsonObject) -> None:
        self.transport.send(encode_notification(method, params))

    def settle(self, call_id: CallId, frame: bytes, on_sent: Callable[[], None] | None) -> None:
        """Send the response of an `IncomingCall`. A large response waits for room."""
        if call_id not in self._unanswered:
            return
        if len(frame) > SMALL_FRAME_BYTES and (self.transport.congested or self._held):
            self._held.put(frame, lambda: self._finish_response(call_id, on_sent))
            return
        self.transport.send(frame)
        self._finish_response(call_id, on_sent)

    def _finish_response(self, call_id: CallId, on_sent: Callable[[], None] | None) -> None:
        self._unanswered.discard(call_id)
        if on_sent is not None:
            on_sent()

    @property
    def held_bytes(self) -> int:
        """Bytes of responses that wait for a congested peer."""
        return self._held.bytes

    def close(self, reason: str) -> None:
        """Stop receiving, send the queued frames, and close."""
        self._closing = True
        self._held.send_some()
        self.transport.close(reason)

    # --- receiving ---

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        listener = self._listener
        for frame in frames:
            if self._closing or self._closed is not None:
                return
            if isinstance(frame, FrameError):
                listener.faulted(frame)
            elif not listener.quick(frame):
                self._receive(frame)
        listener.batch_ended()
        self.transport.flush()

    def _receive(self, frame: bytes) -> None:
        try:
            envelope = read_envelope(decode(frame, frame_bytes=self._receive_bytes))
        except FrameError as fault:
            self._listener.faulted(fault)
            return
        match envelope:
            case Notification():
                self._listener.noted(envelope, len(frame))
            case Request():
                self._called(envelope)
            case Response():
                self._answered(envelope.id, envelope)
            case ErrorResponse():
                self._answered(envelope.id, envelope)

    def _called(self, call: Request) -> None:
        if call.id in self._unanswered:
            self._listener.faulted(FrameError("envelope", "the id of an unanswered call was used again"))
            return
        if len(self._unanswered) >= limits.CHANNEL_REQUESTS_IN_FLIGHT:
            self._listener.faulted(
                FrameError("envelope", f"more than {limits.CHANNEL_REQUESTS_IN_FLIGHT} unanswered calls")
            )
            return
        self._unanswered.add(call.id)
        self._listener.called(IncomingCall(self, call))

    def _answered(self, call_id: CallId | None, envelope: Response | ErrorResponse) -> None:
        if call_id is None:
            return  # the peer could not read one of our frames; no call matches
        if isinstance(call_id, int) and self.answered_through < call_id <= self._next_id:
            self.answered_through = call_id
        waiter = self._waiting.pop(call_id, None)
        if waiter is None:
            if call_id in self._given_up:
                self._given_up.discard(call_id)
            else:
                self._listener.faulted(FrameError("envelope", "an answer to no call", "forged_answer"))
            return
        if waiter.done():
            return
        if isinstance(envelope, Response):
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
        self._listener.closed(reason)
