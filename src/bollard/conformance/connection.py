"""The kit's end of one worker connection: sends any frame, waits for any condition, records everything.

Frames are raw instead of through `HostEnd`: the kit must send frames that no host sends, and see frames that a host
tolerates.
"""

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from bollard.conformance.errors import CaseFailed, WorkerGone
from bollard.conformance.judge import Judge, ObservedRun
from bollard.conformance.limits import ANSWER_S, QUIET_S, QUOTE_CHARACTERS
from bollard.protocol import ChannelLimits, JsonObject, Shape, first_problem
from bollard.wire import FrameError, Transport, decode
from bollard.wire.envelope import CallId, ErrorResponse, Response, encode_notification, encode_request, read_envelope

S = TypeVar("S", bound=Shape)
T = TypeVar("T")


def shorten(value: object) -> str:
    """Return a value as a short text for a message."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= QUOTE_CHARACTERS else f"{text[:QUOTE_CHARACTERS]}…"


def require_error(answer: Response | ErrorResponse, what: str) -> ErrorResponse:
    """Require that the worker refused a request."""
    if isinstance(answer, Response):
        raise CaseFailed(f"{what} to be refused", f"the worker answered {shorten(answer.result)}")
    return answer


def read_answer(answer: Response | ErrorResponse, shape: type[S], method: str) -> S:
    """Require a valid answer to a request."""
    if isinstance(answer, ErrorResponse):
        raise CaseFailed(f"an answer to {method}", f"it was refused: {answer.message} ({answer.code})")
    try:
        return shape.from_wire(answer.result)
    except ValidationError as error:
        raise CaseFailed(f"a valid answer to {method}", ": ".join(first_problem(error))) from error


class WorkerConnection:
    """A worker connection whose every frame is checked."""

    def __init__(self, transport: Transport, limits: ChannelLimits) -> None:
        self.transport = transport
        self.limits = limits
        self.judge = Judge(window_results=limits.window_results, window_bytes=limits.window_bytes)
        self.closed: str | None = None
        self._next_id = 0
        self._answers: dict[CallId, Response | ErrorResponse] = {}
        self._asked: set[CallId] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._checked = 0

    # --- callbacks of the transport (Receiver) ---

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
        envelope = read_envelope(decode(frame))
        if isinstance(envelope, Response | ErrorResponse):
            self._answered(envelope)
            return
        self.judge.take(envelope)
        if envelope.method == "run/result":
            run = self.judge.runs.get(str(envelope.params.get("run_id")))
            if run is not None and run.credit_at_once:
                self.credit(run, len(run.results))

    def _answered(self, answer: Response | ErrorResponse) -> None:
        if answer.id is None:
            return  # the worker may report an unreadable frame
        if answer.id not in self._asked:
            self.judge.violations.append(f"an answer came to the id {answer.id!r}, which is not open")
            return
        self._asked.discard(answer.id)
        self._answers[answer.id] = answer
        started = next((run for run in self.judge.runs.values() if run.start_id == answer.id), None)
        if started is not None:
            self.judge.answered(started, answer)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- sending ---

    def send_raw(self, frame: bytes) -> None:
        """Send any bytes as one frame."""
        self.transport.send(frame)

    def note(self, method: str, params: JsonObject) -> None:
        self.send_raw(encode_notification(method, params))

    def ask(self, method: str, params: JsonObject) -> CallId:
        """Send a request without waiting, and return its id."""
        self._next_id += 1
        self._asked.add(self._next_id)
        self.send_raw(encode_request(self._next_id, method, params))
        return self._next_id

    def allow_answer(self, call_id: CallId) -> None:
        """Accept, but do not require, a response to a raw frame with this id."""
        self._asked.add(call_id)

    async def request(self, method: str, params: JsonObject, *, within: float = ANSWER_S) -> Response | ErrorResponse:
        """Send a request and wait for its response."""
        return await self.answer_to(self.ask(method, params), method, within=within)

    async def answer_to(self, call_id: CallId, what: str, *, within: float = ANSWER_S) -> Response | ErrorResponse:
        return await self.until(lambda: self._answers.get(call_id), f"an answer to {what}", within=within)

    async def ping(self, *, within: float = ANSWER_S) -> None:
        """Require an answer to a ping. All earlier frames of the worker have arrived after that."""
        answer = await self.request("ping", {}, within=within)
        if isinstance(answer, ErrorResponse):
            raise CaseFailed("an answer to ping", f"the worker refused it: {answer.message}")

    def credit(self, run: ObservedRun, sequence: int) -> None:
        run.committed = max(run.committed, sequence)
        self.note("run/credit", {"run_id": run.run_id, "sequence": sequence})

    # --- waiting ---

    async def until(self, condition: Callable[[], T | None], what: str, *, within: float = ANSWER_S) -> T:
        """Wait until the condition returns a true value. Raises `CaseFailed` with the expectation."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            found = condition()
            if found:
                return found
            self.raise_violations()
            if self.closed is not None:
                raise WorkerGone(what, self.describe_end())
            if not await self._changed(end - loop.time()):
                raise CaseFailed(what, f"nothing of it came within {within:g} s")

    async def never(self, condition: Callable[[], object], what: str, *, for_s: float = QUIET_S) -> None:
        """Require the condition to stay false for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + for_s
        while True:
            if came := condition():
                shown = "" if came is True else f": {shorten(came)}"
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

    def describe_end(self) -> str:
        """Describe why the connection is closed."""
        return f"the worker closed its connection ({self.closed})"

    def raise_violations(self) -> None:
        """Raise `CaseFailed` for the first new violation."""
        fresh = self.judge.violations[self._checked :]
        self._checked = len(self.judge.violations)
        if fresh:
            more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
            raise CaseFailed("only frames that the protocol allows", f"{fresh[0]}{more}")
