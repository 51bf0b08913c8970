"""API calls and streams of a run, on the host's side. Permissions are checked by the run API, not here."""

import asyncio
from collections.abc import Callable

from bollard.protocol import API_ERROR_RPC_CODE, RANGED_READS, AgentAPIError, JsonObject, JsonValue, limits
from bollard.wire.envelope import encode_notification, encode_response
from bollard.wire.errors import ChannelClosed, PayloadTooLarge
from bollard.wire.flow_control import ReadQueue, Window
from bollard.wire.limits import HELD_RESPONSE_BYTES
from bollard.wire.peer import IncomingCall, Peer
from bollard.wire.strict_json import encode


def send_api_error(call: IncomingCall, error: AgentAPIError) -> None:
    """Answer a call with an API error."""
    call.fail(API_ERROR_RPC_CODE, error.message, error.to_wire())


class RunCall:
    """One `api/call` or `api/stream`. It is answered once; a stream sends chunks before that, within its credit."""

    def __init__(
        self,
        peer: Peer,
        incoming: IncomingCall,
        *,
        run_id: str,
        action: str,
        params: JsonObject,
        stream_id: str | None,
        settled: Callable[["RunCall"], None],
        reads: ReadQueue,
    ) -> None:
        self.run_id = run_id
        self.action = action
        self.params = params
        self.stream_id = stream_id
        self.given_up = False
        """Whether the worker cancelled the call, or its run or connection ended. The answer will be dropped."""
        self.on_given_up: Callable[[], object] | None = None
        """Called when the call is given up. Set by the code that works on the call."""
        self.on_unread: Callable[[], object] | None = None
        """Called when the worker gave the call up without reading the answer. Set by the code that answered it."""
        self._peer = peer
        self._incoming = incoming
        self._settled = settled
        self._reads = reads
        self._window = Window(limit_count=limits.STREAM_WINDOW_CHUNKS, limit_bytes=limits.STREAM_WINDOW_BYTES)
        self._credit_came: asyncio.Future[None] | None = None

    @property
    def id(self) -> int | str:
        return self._incoming.id

    @property
    def streamed(self) -> bool:
        return self.stream_id is not None

    def begin(self, handle: Callable[["RunCall"], None]) -> None:
        """Hand the call to `handle`: at once, or for a ranged read when the read queue has room."""
        if self.action not in RANGED_READS:
            handle(self)
            return

        def begin() -> None:
            self._incoming.on_sent = self._reads.leave
            handle(self)

        self._reads.enter(self, begin)

    def answer(self, result: JsonValue) -> None:
        """Send the result of a call, or end a stream. Dropped if the call was given up or answered before."""
        if self._incoming.answered:
            return
        if (error := self.unfit(result)) is not None:
            self.refuse(error)
            return
        self._incoming.answer(result)
        self._settle()

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """Return the error to send instead of this answer if it is too large, otherwise `None`."""
        size, limit = len(encode(result)), limits.CALL_BYTES
        if self.action in RANGED_READS:  # the rest of a frame
            limit = self._peer.frame_bytes - len(encode_response(self.id, None))
        if size > limit:
            message = f"the answer is {size} bytes of JSON, the limit is {limit}"
            return AgentAPIError(code="payload_too_large", message=message)
        if size + self._peer.held_bytes > HELD_RESPONSE_BYTES:
            message = f"more than {HELD_RESPONSE_BYTES} bytes of answers wait for the worker to read them"
            return AgentAPIError(code="rate_limited", message=message)
        return None

    def refuse(self, error: AgentAPIError) -> None:
        if self._incoming.answered:
            return
        send_api_error(self._incoming, error)
        self._settle()

    def _settle(self) -> None:
        # Once per call: from here on the worker may reuse the id and the stream_id.
        self._wake()
        self._reads.forget(self)
        self._settled(self)

    async def chunk(self, data: JsonValue) -> None:
        """Send one chunk of a stream, after waiting for credit and for room on the transport.

        Raises `ChannelClosed` if the stream was given up or its run has ended.
        """
        index = self._window.last + 1
        frame = encode_notification("api/chunk", {"stream_id": self.stream_id, "index": index, "data": data})
        if len(frame) > self._peer.frame_bytes:
            raise PayloadTooLarge(f"a chunk of {self.action}", len(frame), self._peer.frame_bytes)
        while not self._incoming.answered:
            if not self._window.fits(len(frame)):
                self._credit_came = asyncio.get_running_loop().create_future()
                await self._credit_came
            elif self._peer.transport.congested:
                await self._peer.transport.drain()
            else:
                break
        if self._incoming.answered:
            raise ChannelClosed("the stream was given up")
        self._window.take(index, len(frame))
        self._peer.transport.send(frame)

    def credited(self, index: int) -> bool:
        """Credit the chunks through `index`. Returns False if the credit is invalid."""
        if not self._window.credit(index):
            return False
        self._wake()
        return True

    def give_up(self) -> None:
        """Cancel the call; its answer is dropped."""
        if self._incoming.answered:
            return
        self.given_up = True
        send_api_error(self._incoming, AgentAPIError(code="cancelled", message="the call was given up"))
        self._settle()
        if self.on_given_up is not None:
            self.on_given_up()

    def _wake(self) -> None:
        if self._credit_came is not None and not self._credit_came.done():
            self._credit_came.set_result(None)
