"""The kit's end of one channel: send anything, wait for anything, record everything. Knows no process and no script.

Frames are written and read raw, not through `HostEnd`, because the kit must send what no host sends and see what a
host would forgive.
"""

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

from bollard.conformance.errors import CaseFailed, WorkerGone
from bollard.conformance.judge import Judge, RunBook
from bollard.conformance.limits import ANSWER_S, BRIEF_CHARACTERS, QUIET_S
from bollard.protocol import ChannelLimits, JsonObject
from bollard.wire import FrameError, Transport, decode
from bollard.wire.envelope import Answer, CallId, Failure, call_frame, note_frame, open_envelope

__all__ = ["Line", "brief"]

T = TypeVar("T")


def brief(value: object) -> str:
    """A value as a short text for a sentence."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= BRIEF_CHARACTERS else f"{text[:BRIEF_CHARACTERS]}…"


class Line:
    """A channel whose every frame is judged."""

    def __init__(self, transport: Transport, limits: ChannelLimits) -> None:
        self.transport = transport
        self.limits = limits
        self.judge = Judge(window_results=limits.window_results, window_bytes=limits.window_bytes)
        self.closed: str | None = None
        self._next_id = 0
        self._answers: dict[CallId, Answer | Failure] = {}
        self._asked: set[CallId] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._judged = 0

    # --- what the transport tells (Receiver) ---

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        for frame in frames:
            try:
                self._receive(frame)
            except FrameError as fault:
                self.judge.violations.append(f"a frame of the worker cannot be accepted ({fault})")
        self._wake()

    def connection_lost(self, reason: str) -> None:
        self.closed = reason
        self._wake()

    def _receive(self, frame: bytes | FrameError) -> None:
        if isinstance(frame, FrameError):
            raise frame
        envelope = open_envelope(decode(frame))
        if isinstance(envelope, Answer | Failure):
            self._answered(envelope)
            return
        self.judge.take(envelope)
        if envelope.method == "run/result":
            book = self.judge.runs.get(str(envelope.params.get("run_id")))
            if book is not None and book.credit_at_once:
                self.credit(book, len(book.results))

    def _answered(self, answer: Answer | Failure) -> None:
        if answer.id is None:
            return  # the worker could not read something of ours, and may say so
        if answer.id not in self._asked:
            self.judge.violations.append(f"an answer came to the id {answer.id!r}, which is not open")
            return
        self._asked.discard(answer.id)
        self._answers[answer.id] = answer
        started = next((book for book in self.judge.runs.values() if book.start_id == answer.id), None)
        if started is not None:
            self.judge.answered(started, answer)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- sending ---

    def send_raw(self, frame: bytes) -> None:
        """Any bytes, as one line."""
        self.transport.send(frame)

    def note(self, method: str, params: JsonObject) -> None:
        self.send_raw(note_frame(method, params))

    def ask(self, method: str, params: JsonObject) -> CallId:
        """Send a request and do not wait."""
        self._next_id += 1
        self._asked.add(self._next_id)
        self.send_raw(call_frame(self._next_id, method, params))
        return self._next_id

    def allow_answer(self, call_id: CallId) -> None:
        """A raw frame with this id may be answered, and need not be."""
        self._asked.add(call_id)

    async def request(self, method: str, params: JsonObject, *, within: float = ANSWER_S) -> Answer | Failure:
        """Send a request and wait for its answer, good or bad."""
        return await self.answer_to(self.ask(method, params), method, within=within)

    async def answer_to(self, call_id: CallId, what: str, *, within: float = ANSWER_S) -> Answer | Failure:
        return await self.until(lambda: self._answers.get(call_id), f"an answer to {what}", within=within)

    async def ping(self, *, within: float = ANSWER_S) -> None:
        """The worker must answer; everything it sent before is here afterwards."""
        answer = await self.request("ping", {}, within=within)
        if isinstance(answer, Failure):
            raise CaseFailed("an answer to ping", f"the worker refused it: {answer.message}")

    def credit(self, book: RunBook, sequence: int) -> None:
        book.committed = max(book.committed, sequence)
        self.note("run/credit", {"run_id": book.run_id, "sequence": sequence})

    # --- waiting ---

    async def until(self, condition: Callable[[], T | None], what: str, *, within: float = ANSWER_S) -> T:
        """Wait until the condition gives something; fails with what was expected."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            found = condition()
            if found:
                return found
            self.raise_violations()
            if self.closed is not None:
                raise WorkerGone(what, self.how_it_went())
            if not await self._changed(end - loop.time()):
                raise CaseFailed(what, f"nothing of it came within {within:g} s")

    async def never(self, condition: Callable[[], object], what: str, *, for_s: float = QUIET_S) -> None:
        """The condition must stay false for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + for_s
        while True:
            if came := condition():
                shown = "" if came is True else f": {brief(came)}"
                raise CaseFailed(what, f"it came all the same{shown}")
            if self.closed is not None or not await self._changed(end - loop.time()):
                return

    async def _changed(self, seconds: float) -> bool:
        if seconds <= 0:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True

    def how_it_went(self) -> str:
        """Why the channel is closed."""
        return f"the worker closed its channel ({self.closed})"

    def raise_violations(self) -> None:
        """Fail for the first thing since the last time that no worker may send."""
        fresh = self.judge.violations[self._judged :]
        self._judged = len(self.judge.violations)
        if fresh:
            more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
            raise CaseFailed("only frames that the protocol allows", f"{fresh[0]}{more}")
