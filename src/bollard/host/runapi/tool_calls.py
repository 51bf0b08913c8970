"""`tools.call`: what a runner asks to be done goes to the executor, in the name of its run."""

from collections.abc import Generator
from contextlib import contextmanager

from bollard.host.actions.call import Call, Outcome
from bollard.host.actions.executor import Executor
from bollard.host.actions.ledgers import LiveLedger
from bollard.host.capabilities.sources import Progress
from bollard.host.runapi.names import check_key
from bollard.host.runapi.refusal import ApiRefused, protocol_code
from bollard.host.runs.live import LiveRun
from bollard.protocol import JsonObject, ToolResult, ToolsCall

__all__ = ["ToolCalls"]


class ToolCalls:
    """One per host."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: set[str] = set()
        self._heard: dict[tuple[str, str], Progress] = {}
        """Who hears how far a call is, by its run and its id."""

    async def call(self, run: LiveRun, params: ToolsCall) -> ToolResult:
        check_key(params.call_id or "", "call_id")
        call = Call(name=params.name, arguments=params.parameters, call_id=params.call_id)
        return ToolResult.from_wire((await self.carry_out(run, call)).result())

    async def carry_out(self, run: LiveRun, call: Call) -> Outcome:
        """The outcome of a call that was done. Raises `ApiRefused` for one that was not, or that nobody knows of."""
        self._watch(run)
        progress = self._heard.get((run.facts.run_id, call.call_id or ""))
        outcome = await self._executor.execute(run.session, call, LiveLedger(run), progress=progress)
        if outcome.status != "completed":
            raise refused(outcome)
        return outcome

    @contextmanager
    def heard(self, run: LiveRun, call_id: str, progress: Progress) -> Generator[None]:
        """Meanwhile, how far this call of the run is, is told here."""
        key = (run.facts.run_id, call_id)
        self._heard[key] = progress
        try:
            yield
        finally:
            self._heard.pop(key, None)

    def _watch(self, run: LiveRun) -> None:
        """What the executor knows of a run is forgotten with it."""
        run_id = run.facts.run_id
        if run_id not in self._known:
            self._known.add(run_id)
            run.done.add_done_callback(lambda _: self._forget(run_id))

    def _forget(self, run_id: str) -> None:
        self._known.discard(run_id)
        self._executor.forget(run_id)


def refused(outcome: Outcome) -> ApiRefused:
    """An outcome that is no answer, as a runner gets it."""
    details: JsonObject = {"call_id": outcome.call_id}
    return ApiRefused(
        protocol_code(outcome.code or ""), outcome.message or "", retryable=outcome.retryable, details=details
    )
