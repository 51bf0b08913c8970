"""A worker under test: its channel, its process, its runs and its calls."""

import asyncio
from collections.abc import Iterable, Sequence

from bollard.conformance.errors import CaseFailed
from bollard.conformance.judge import CallSeen, RunBook
from bollard.conformance.limits import ANSWER_S, EXIT_BUSY_S
from bollard.conformance.line import Line, brief
from bollard.conformance.script import run_request
from bollard.conformance.scripted_run import Run
from bollard.protocol import API_ERROR_RPC_CODE, ChannelLimits, JsonObject, JsonValue
from bollard.wire import WorkerProcess
from bollard.wire.envelope import answer_frame, failure_frame

__all__ = ["Session"]


class Session(Line):
    """The line to one worker process."""

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
    ) -> Run:
        """Start a run. With `credit` every result is committed as it comes."""
        book = RunBook(run_id=run_id or self._new_run_id(), credit_at_once=credit)
        self.judge.runs[book.run_id] = book
        book.start_id = self.ask("run/start", run_request(book.run_id, [*script], runner=runner, context=context))
        return Run(self, book)

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

    # --- its end ---

    def how_it_went(self) -> str:
        """Why the channel is closed, and the last line of stderr."""
        lines = [line for pipe, line in self.output if pipe == "stderr"]
        return super().how_it_went() + (f"; its last words: {brief(lines[-1])}" if lines else "")

    async def exited(self, what: str, *, within: float = EXIT_BUSY_S) -> int:
        """The worker's process must end by itself."""
        try:
            return await asyncio.wait_for(self.process.wait(), within)
        except TimeoutError:
            raise CaseFailed(what, f"the process is still there after {within:g} s") from None
