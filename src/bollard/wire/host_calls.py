"""API calls and streams of a run, as the host answers them. Decides nothing about rights: that is the run API's job."""

import asyncio
from collections.abc import Callable

from bollard.protocol import API_ERROR_RPC_CODE, RANGED_READS, AgentAPIError, JsonObject, JsonValue, limits
from bollard.wire.credit import Window
from bollard.wire.envelope import answer_frame, note_frame
from bollard.wire.errors import ChannelClosed, PayloadTooLarge
from bollard.wire.limits import ANSWERS_HELD_BYTES
from bollard.wire.peer import Incoming, Peer
from bollard.wire.read_room import ReadRoom
from bollard.wire.strict_json import encode

__all__ = ["RunCall", "refuse"]


def refuse(call: Incoming, error: AgentAPIError) -> None:
    """Answer a call with an API error."""
    call.fail(API_ERROR_RPC_CODE, error.message, error.to_wire())


class RunCall:
    """One `api/call` or `api/stream`: answered once; a stream sends chunks before that, as its credit allows."""

    def __init__(
        self,
        peer: Peer,
        incoming: Incoming,
        *,
        run_id: str,
        action: str,
        params: JsonObject,
        stream_id: str | None,
        settled: Callable[["RunCall"], None],
        reads: ReadRoom,
    ) -> None:
        self.run_id = run_id
        self.action = action
        self.params = params
        self.stream_id = stream_id
        self.given_up = False
        """Whether the worker cancelled it, or its run or channel is gone: the answer will be dropped."""
        self.on_given_up: Callable[[], object] | None = None
        """Set by whoever works on the call, to be told that nobody waits for it any more."""
        self.on_unread: Callable[[], object] | None = None
        """Set by whoever answered it, to be told that the worker gave it up and has not got the answer."""
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

    def begin(self, told: Callable[["RunCall"], None]) -> None:
        """Tell whoever answers it: at once, unless so many large answers are being made that this one must wait."""
        if self.action not in RANGED_READS:
            told(self)
            return

        def begin() -> None:
            self._incoming.on_left = self._reads.leave
            told(self)

        self._reads.enter(self, begin)

    def answer(self, result: JsonValue) -> None:
        """The result of a call, or the end of a stream. Dropped when it was given up or answered already."""
        if self._incoming.answered:
            return
        if (error := self.unfit(result)) is not None:
            self.refuse(error)
            return
        self._incoming.answer(result)
        self._settle()

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """Why the caller could not be given this answer, if so."""
        size, limit = len(encode(result)), limits.CALL_BYTES
        if self.action in RANGED_READS:  # what is left of a frame
            limit = self._peer.frame_bytes - len(answer_frame(self.id, None))
        if size > limit:
            message = f"the answer is {size} bytes of JSON, the limit is {limit}"
            return AgentAPIError(code="payload_too_large", message=message)
        if size + self._peer.held_bytes > ANSWERS_HELD_BYTES:
            message = f"more than {ANSWERS_HELD_BYTES} bytes of answers wait for the worker to read them"
            return AgentAPIError(code="rate_limited", message=message)
        return None

    def refuse(self, error: AgentAPIError) -> None:
        if self._incoming.answered:
            return
        refuse(self._incoming, error)
        self._settle()

    def _settle(self) -> None:
        # Once per call: the worker may use its id and its stream_id again from here on.
        self._wake()
        self._reads.forget(self)
        self._settled(self)

    async def chunk(self, data: JsonValue) -> None:
        """Send one chunk of a stream; waits for credit and for a worker that is behind. Raises `ChannelClosed` when
        nobody listens any more."""
        index = self._window.last + 1
        frame = note_frame("api/chunk", {"stream_id": self.stream_id, "index": index, "data": data})
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
        """The worker took chunks through `index`; False for a credit that makes no sense."""
        if not self._window.credit(index):
            return False
        self._wake()
        return True

    def give_up(self) -> None:
        """Nobody waits for this call any more."""
        if self._incoming.answered:
            return
        self.given_up = True
        refuse(self._incoming, AgentAPIError(code="cancelled", message="the call was given up"))
        self._settle()
        if self.on_given_up is not None:
            self.on_given_up()

    def _wake(self) -> None:
        if self._credit_came is not None and not self._credit_came.done():
            self._credit_came.set_result(None)
