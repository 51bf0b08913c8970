"""One worker process under test and the kit's end of its channel: send anything, wait for anything, record everything.

Frames are written and read raw, not through `HostEnd`, because the kit must send what no host sends and see what a
host would forgive.
"""

import asyncio
import json
import os
import shlex
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from bollard.conformance.errors import CaseFailed, WorkerDidNotStart, WorkerGone
from bollard.conformance.judge import CallSeen, Judge, RunBook
from bollard.conformance.limits import ANSWER_S, EXIT_BUSY_S, OUTPUT_LINES, QUIET_S, START_S
from bollard.conformance.script import run_request
from bollard.protocol import API_ERROR_RPC_CODE, ChannelLimits, JsonObject, JsonValue
from bollard.protocol.limits import PROTOCOL_VERSION
from bollard.wire import FrameError, WorkerProcess, decode, spawn_worker, worker_environment
from bollard.wire.envelope import (
    Answer,
    CallId,
    Failure,
    answer_frame,
    call_frame,
    failure_frame,
    note_frame,
    open_envelope,
)

__all__ = ["Run", "Session", "brief", "open_session"]

T = TypeVar("T")
_BRIEF_CHARACTERS = 300


def brief(value: object) -> str:
    """A value as a short text for a sentence."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _BRIEF_CHARACTERS else f"{text[:_BRIEF_CHARACTERS]}…"


class Session:
    """The kit's end of one channel."""

    def __init__(self, process: WorkerProcess, limits: ChannelLimits, output: Sequence[tuple[str, str]]) -> None:
        self.process = process
        self.limits = limits
        self.output = output
        """Lines of stdout and stderr, newest last."""
        self.judge = Judge(window_results=limits.window_results, window_bytes=limits.window_bytes)
        self.introduction: JsonObject = {}
        self.closed: str | None = None
        self.frames = 0
        self._next_id = 0
        self._next_run = 0
        self._answers: dict[CallId, Answer | Failure] = {}
        self._asked: set[CallId] = set()
        self._starts: dict[CallId, RunBook] = {}
        self._credited_at_once: set[str] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._judged = 0

    # --- what the transport tells (Receiver) ---

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        for frame in frames:
            self.frames += 1
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
        if envelope.method == "run/result" and envelope.params.get("run_id") in self._credited_at_once:
            run = self.judge.runs[str(envelope.params["run_id"])]
            self.credit(run, len(run.results))

    def _answered(self, answer: Answer | Failure) -> None:
        if answer.id is None:
            return  # the worker could not read something of ours, and may say so
        if answer.id not in self._asked:
            self.judge.violations.append(f"an answer came to the id {answer.id!r}, which is not open")
            return
        self._asked.discard(answer.id)
        self._answers[answer.id] = answer
        if answer.id in self._starts:
            self.judge.answered(self._starts.pop(answer.id), answer)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- sending ---

    def send_raw(self, frame: bytes) -> None:
        """Any bytes, as one line."""
        self.process.transport.send(frame)

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

    # --- runs ---

    def new_run_id(self) -> str:
        self._next_run += 1
        return f"run-{self._next_run}"

    def start(
        self,
        script: Iterable[JsonObject],
        *,
        runner: str = "scripted",
        credit: bool = True,
        run_id: str | None = None,
        context: JsonObject | None = None,
    ) -> "Run":
        """Start a run. With `credit` every result is committed as it comes."""
        book = RunBook(run_id=run_id or self.new_run_id())
        self.judge.runs[book.run_id] = book
        if credit:
            self._credited_at_once.add(book.run_id)
        request = run_request(book.run_id, [*script], runner=runner, context=context)
        self._starts[self.ask("run/start", request)] = book
        return Run(self, book)

    def credit(self, book: RunBook, sequence: int) -> None:
        book.committed = max(book.committed, sequence)
        self.note("run/credit", {"run_id": book.run_id, "sequence": sequence})

    # --- calls of the worker ---

    async def next_call(self, action: str, *, within: float = ANSWER_S) -> CallSeen:
        """The oldest call or stream of this action that was not answered yet."""

        def find() -> CallSeen | None:
            of_action = (seen for seen in self.judge.calls if seen.action == action)
            return next((seen for seen in of_action if self.judge.is_open(seen)), None)

        return await self.until(find, f"a call of {action}", within=within)

    def reply(self, call: CallSeen, result: JsonValue) -> None:
        call.answered = True
        self.send_raw(answer_frame(call.id, result))

    def refuse(self, call: CallSeen, error: JsonValue, *, code: int = API_ERROR_RPC_CODE) -> None:
        """Answer with an error whose `data` is `error`."""
        call.answered = True
        self.send_raw(failure_frame(call.id, code, "refused by the conformance kit", error))

    def chunk(self, call: CallSeen, text: str) -> None:
        """The next chunk of a stream."""
        call.chunks_sent += 1
        data: JsonObject = {"role": "assistant", "content": text}
        self.note("api/chunk", {"stream_id": call.stream_id, "index": call.chunks_sent, "data": data})

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
                raise WorkerGone(what, f"the worker closed its channel ({self.closed}){self._last_words()}")
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

    async def exited(self, what: str, *, within: float = EXIT_BUSY_S) -> int:
        """The worker's process must end by itself."""
        try:
            return await asyncio.wait_for(self.process.wait(), within)
        except TimeoutError:
            raise CaseFailed(what, f"the process is still there after {within:g} s") from None

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

    def raise_violations(self) -> None:
        """Fail for the first thing since the last time that no worker may send."""
        fresh = self.judge.violations[self._judged :]
        self._judged = len(self.judge.violations)
        if fresh:
            more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
            raise CaseFailed("only frames that the protocol allows", f"{fresh[0]}{more}")

    def _last_words(self) -> str:
        lines = [line for pipe, line in self.output if pipe == "stderr"]
        return f"; its last words: {brief(lines[-1])}" if lines else ""


class Run:
    """One run of the scripted runner."""

    def __init__(self, session: Session, book: RunBook) -> None:
        self._session = session
        self.book = book

    @property
    def id(self) -> str:
        return self.book.run_id

    @property
    def count(self) -> int:
        return len(self.book.results)

    @property
    def texts(self) -> list[str]:
        """The contents of the deltas so far."""
        found: list[str] = []
        for result in self.book.results:
            if result["type"] == "message.delta":
                chunk = cast("dict[str, dict[str, str]]", result["data"])["chunk"]
                found.append(chunk.get("content", ""))
        return found

    def credit(self, sequence: int) -> None:
        self._session.credit(self.book, sequence)

    def cancel(self, reason: str = "cancelled") -> None:
        self.book.cancelled = True
        self._session.note("run/cancel", {"run_id": self.id, "reason": reason})

    async def has(self, count: int, *, within: float = ANSWER_S) -> None:
        """Wait for that many results."""
        await self._session.until(lambda: self.count >= count, f"{count} results of {self.id}", within=within)

    async def answered(self, *, within: float = ANSWER_S) -> Answer | Failure:
        """The answer to `run/start`."""
        return await self._session.until(
            lambda: self.book.answer, f"an answer to run/start of {self.id}", within=within
        )

    async def ended(self, *, within: float = ANSWER_S) -> JsonObject:
        """The terminal result, once `run/start` was answered."""
        answer = await self.answered(within=within)
        if isinstance(answer, Failure):
            raise CaseFailed(f"{self.id} to run", f"run/start was refused: {answer.message} ({answer.code})")
        if self.book.terminal is None:
            raise CaseFailed("a terminal result", f"run/start was answered after {self.count} results without one")
        return self.book.terminal

    async def fails_with(self, *codes: str, within: float = ANSWER_S) -> JsonObject:
        """The run must end as `run.failed` with one of the codes."""
        terminal = await self.ended(within=within)
        data = cast("JsonObject", terminal["data"])
        if terminal["type"] != "run.failed" or data.get("code") not in codes:
            raise CaseFailed(f"run.failed with {' or '.join(codes)}", f"the run ended with {brief(terminal)}")
        return data

    async def completes(self, *, within: float = ANSWER_S) -> JsonObject:
        """The run must end as `run.completed`."""
        terminal = await self.ended(within=within)
        if terminal["type"] != "run.completed":
            raise CaseFailed("run.completed", f"the run ended with {brief(terminal)}")
        return cast("JsonObject", terminal["data"])

    async def said(self, *, within: float = ANSWER_S) -> JsonObject:
        """The first delta as the JSON object that a step emits."""
        await self._session.until(lambda: self.texts, f"what a step of {self.id} emits", within=within)
        try:
            value: object = json.loads(self.texts[0])
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise CaseFailed("a delta that is a JSON object", f"its content is {brief(self.texts[0])}")
        return cast("JsonObject", value)


@asynccontextmanager
async def open_session(
    command: Sequence[str],
    *,
    limits: ChannelLimits | None = None,
    initialize: bool = True,
    inherited: Mapping[str, str] | None = None,
) -> AsyncGenerator[Session]:
    """Start a worker; when the block is left its whole process group is gone."""
    output: deque[tuple[str, str]] = deque(maxlen=OUTPUT_LINES)
    environment = worker_environment(os.environ if inherited is None else inherited)
    try:
        process = await spawn_worker(
            command, environment=environment, output=lambda pipe, line: output.append((pipe, line))
        )
    except OSError as error:
        raise WorkerDidNotStart(shlex.join(command), f"{error.strerror or error}", "") from error
    session = Session(process, limits or ChannelLimits(), output)
    try:
        process.transport.start(session)
        if initialize:
            await _introduce(session, command, output)
        yield session
    finally:
        await process.kill()


async def _introduce(session: Session, command: Sequence[str], output: Iterable[tuple[str, str]]) -> None:
    params: JsonObject = {
        "protocol": PROTOCOL_VERSION,
        "host_version": "conformance",
        "limits": session.limits.to_wire(),
    }
    try:
        answer = await session.request("initialize", params, within=START_S)
    except CaseFailed as error:
        how = "it closed its channel" if isinstance(error, WorkerGone) else f"it was silent for {START_S:g} s"
        await session.process.kill()  # so that what it wrote is read to its end
        said = " | ".join(line for _, line in list(output)[-5:])
        raise WorkerDidNotStart(shlex.join(command), f"{how} instead of answering initialize", brief(said)) from error
    if isinstance(answer, Failure):
        raise WorkerDidNotStart(shlex.join(command), f"it refused initialize: {answer.message}", "")
    session.introduction = answer.result if isinstance(answer.result, dict) else {}
