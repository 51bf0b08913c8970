"""A worker under test: its connection, its process, its runs and its calls."""

import asyncio
import os
import shlex
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from bollard.conformance.connection import WorkerConnection, shorten
from bollard.conformance.errors import CaseFailed, WorkerDidNotStart, WorkerGone
from bollard.conformance.judge import ObservedCall, ObservedRun
from bollard.conformance.limits import ANSWER_S, EXIT_BUSY_S, OUTPUT_LINES, START_S
from bollard.conformance.scripted_run import ScriptedRun, run_request
from bollard.protocol import API_ERROR_RPC_CODE, ChannelLimits, JsonObject, JsonValue
from bollard.protocol.limits import PROTOCOL_VERSION
from bollard.wire import WorkerProcess, spawn_worker, worker_environment
from bollard.wire.envelope import ErrorResponse, encode_error, encode_response


class Session(WorkerConnection):
    """The connection to one worker process."""

    def __init__(self, process: WorkerProcess, limits: ChannelLimits, output: Sequence[tuple[str, str]]) -> None:
        super().__init__(process.transport, limits)
        self.process = process
        self.output = output
        """Lines of stdout and stderr, newest last."""
        self.introduction: JsonObject = {}
        self._next_run = 0

    # --- runs ---

    def _new_run_id(self) -> str:
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
    ) -> ScriptedRun:
        """Start a run. With `credit` every result is credited on arrival."""
        run = ObservedRun(run_id=run_id or self._new_run_id(), credit_at_once=credit)
        self.judge.runs[run.run_id] = run
        run.start_id = self.ask("run/start", run_request(run.run_id, [*script], runner=runner, context=context))
        return ScriptedRun(self, run)

    # --- calls of the worker ---

    async def next_call(self, action: str, *, within: float = ANSWER_S) -> ObservedCall:
        """Wait for the oldest unanswered call or stream of this action."""

        def find() -> ObservedCall | None:
            of_action = (seen for seen in self.judge.calls if seen.action == action)
            return next((seen for seen in of_action if self.judge.is_open(seen)), None)

        return await self.until(find, f"a call of {action}", within=within)

    def reply(self, call: ObservedCall, result: JsonValue) -> None:
        call.answered = True
        self.send_raw(encode_response(call.id, result))

    def refuse(self, call: ObservedCall, error: JsonValue, *, code: int = API_ERROR_RPC_CODE) -> None:
        """Answer with an error whose `data` is `error`."""
        call.answered = True
        self.send_raw(encode_error(call.id, code, "refused by the conformance kit", error))

    def chunk(self, call: ObservedCall, text: str) -> None:
        """Send the next chunk of a stream."""
        call.chunks_sent += 1
        data: JsonObject = {"role": "assistant", "content": text}
        self.note("api/chunk", {"stream_id": call.stream_id, "index": call.chunks_sent, "data": data})

    # --- its end ---

    def describe_end(self) -> str:
        """Describe why the connection is closed, with the last line of stderr."""
        lines = [line for pipe, line in self.output if pipe == "stderr"]
        return super().describe_end() + (f"; its last words: {shorten(lines[-1])}" if lines else "")

    async def exited(self, what: str, *, within: float = EXIT_BUSY_S) -> int:
        """Require the worker's process to exit, and return its code."""
        try:
            return await asyncio.wait_for(self.process.wait(), within)
        except TimeoutError:
            raise CaseFailed(what, f"the process is still there after {within:g} s") from None


@asynccontextmanager
async def open_session(
    command: Sequence[str],
    *,
    limits: ChannelLimits | None = None,
    initialize: bool = True,
    inherited: Mapping[str, str] | None = None,
) -> AsyncGenerator[Session]:
    """Start and initialize a worker. Its process group is killed at the end of the block."""
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
            await _initialize(session, command, output)
        yield session
    finally:
        await process.kill()


async def _initialize(session: Session, command: Sequence[str], output: Iterable[tuple[str, str]]) -> None:
    params: JsonObject = {
        "protocol": PROTOCOL_VERSION,
        "host_version": "conformance",
        "limits": session.limits.to_wire(),
    }
    try:
        answer = await session.request("initialize", params, within=START_S)
    except CaseFailed as error:
        how = "it closed its connection" if isinstance(error, WorkerGone) else f"it was silent for {START_S:g} s"
        await session.process.kill()  # so that its output is read to the end
        tail = " | ".join(line for _, line in list(output)[-5:])
        raise WorkerDidNotStart(shlex.join(command), f"{how} instead of answering initialize", shorten(tail)) from error
    if isinstance(answer, ErrorResponse):
        raise WorkerDidNotStart(shlex.join(command), f"it refused initialize: {answer.message}", "")
    session.introduction = answer.result if isinstance(answer.result, dict) else {}
