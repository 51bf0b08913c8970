"""One run on a worker: results to the stage and the renderer, calls to the stage, its deadline, its one end."""

import asyncio
import time
from dataclasses import dataclass
from typing import Literal

from bollard.cli.limits import END_MARGIN_S
from bollard.cli.render import ApiDone, Renderer, RunEnded
from bollard.cli.stage import Stage
from bollard.protocol import AgentAPIError, AgentRunRequest, AgentRunResult, limits
from bollard.sdk import AgentAPIException, ApiCaller
from bollard.sdk.testing import Recording, RunLedger, RunOutcome, record
from bollard.sdk.testing.live import HostCaller
from bollard.wire import ChannelClosed, Delta, HostRun, PayloadTooLarge, RunCall, RunEnd, Strike, WorkerResult

__all__ = ["Turn", "TurnEnd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a run ended, and what it left behind."""

    outcome: RunOutcome
    shown: RunEnded
    worker_is_gone: bool
    abandoned: bool
    """The runner ignored its cancellation: its worker is not to be used any more."""

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def dropped(self) -> tuple[str, ...]:
        """Lines that were typed for the run and that it did not take."""
        return tuple(line for line, status in self.outcome.steering if status == "dropped")


class Turn:
    """A run under way; a `RunSink`."""

    def __init__(
        self, stage: Stage, ledger: RunLedger, renderer: Renderer, recording: Recording | None, *, timeout_s: float
    ) -> None:
        self.ledger = ledger
        self.run: HostRun | None = None
        self.reason: str | None = None
        """Why the run was cancelled; its status follows it, whatever the runner says last."""
        self._stage = stage
        self._renderer = renderer
        self._recording = recording
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._done: asyncio.Future[RunEnd] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        caller: ApiCaller = HostCaller(stage.host, ledger.context.run_id)
        self._caller = caller if recording is None else record(caller, recording)

    @property
    def request(self) -> AgentRunRequest:
        """What the worker is sent."""
        runner = self._stage.runner
        return AgentRunRequest(runner_id=runner.id, runner_name=runner.name, context=self.ledger.context)

    def started(self, run: HostRun) -> None:
        """The clock runs from here."""
        self.run = run
        self._timer = self._loop.call_later(self._timeout_s, self.cancel, "runner.timeout")

    def cancel(self, reason: str) -> None:
        """Ask the run to stop; when it does not within its grace, it has ended all the same."""
        if self.reason is not None or self.run is None or self._done.done():
            return
        self.reason = reason
        self.run.cancel(reason)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(limits.CANCEL_GRACE_S + END_MARGIN_S, self._give_up)

    def _give_up(self) -> None:
        if not self._done.done():
            self._done.set_result(RunEnd(how="refused", reason="the worker does not answer"))

    def steer(self, text: str) -> None:
        """A message for the run that is under way; raises `ValueError` when it can take no more."""
        self.ledger.steering.add(text)

    def commit(self) -> None:
        """Everything that arrived is kept in memory: the worker may send as much again."""
        if self.run is not None and not self._done.done():
            self.run.credit(self.run.last_sequence)

    async def finish(self) -> TurnEnd:
        """Wait for the end and say how the run ended."""
        end = await self._done
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        reason = self.reason
        if reason is None and end.how == "lost" and self.ledger.terminal is None:
            reason = "runner.crashed"
        outcome = self._stage.end(self.ledger, reason)
        # Cancelled, and it said nothing more: it was abandoned, and may still be at work in there.
        abandoned = self.reason is not None and self.ledger.terminal is None
        return TurnEnd(
            outcome=outcome,
            worker_is_gone=end.how == "lost",
            abandoned=abandoned,
            shown=RunEnded(
                run_id=outcome.run_id,
                status=outcome.status,
                code=outcome.code,
                error=outcome.error or end.reason,
                results=len(outcome.results),
                seconds=time.monotonic() - self._began,
            ),
        )

    # --- what the channel tells (RunSink) ---

    def delta(self, delta: Delta, size: int) -> None:
        del size
        self._take(AgentRunResult.from_wire(delta.to_wire()))

    def result(self, result: WorkerResult) -> None:
        self._take(
            AgentRunResult(
                run_id=result.run_id,
                type=result.type,
                data=result.data,
                sequence=result.sequence,
                timestamp=result.timestamp,
            )
        )

    def _take(self, result: AgentRunResult) -> None:
        refused = len(self.ledger.rejected)
        self._stage.host.take(result)
        if self._recording is not None:
            self._recording.result(result)
        self._renderer.result(result)
        for rejected in self.ledger.rejected[refused:]:
            self._renderer.rejected(rejected.record, rejected.reason)

    def gap(self, first: int, last: int) -> None:
        """The ledger notices by itself when the next result comes."""

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self._renderer.rejected("result.rejected", f"result {sequence}: {why}")

    def called(self, call: RunCall) -> None:
        task = self._loop.create_task(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def give_up() -> None:
            task.cancel()

        call.on_given_up = give_up

    def crowded(self, call: RunCall, times: int) -> None:
        many = f"{times} × {call.action}"
        self._renderer.rejected("api.denied", f"{many}: {limits.CALLS_IN_FLIGHT} calls are unanswered already")

    def struck(self, strike: Strike) -> None:
        self._renderer.rejected(f"strike {strike.count}", f"{strike.fault}: {strike.detail}")
        if strike.ends == "run" and self.reason is None:  # the channel has sent the cancellation
            self.reason = "runner.protocol"
            self._wait_for_end()

    def ended(self, end: RunEnd) -> None:
        if not self._done.done():
            self._done.set_result(end)

    # --- the run API ---

    async def _answer(self, call: RunCall) -> None:
        began = time.monotonic()
        refusal: AgentAPIError | None = None
        try:
            if call.streamed:
                async for chunk in self._caller.stream(call.action, call.params):
                    await call.chunk(chunk)
                call.answer({})
            else:
                call.answer(await self._caller.call(call.action, call.params))
        except AgentAPIException as error:
            refusal = error.error
        except PayloadTooLarge as error:
            refusal = AgentAPIError(code="payload_too_large", message=str(error))
        except ChannelClosed:
            return  # nobody waits for it any more
        if refusal is not None:
            call.refuse(refusal)
        self._renderer.called(
            ApiDone(
                action=call.action,
                params=call.params,
                error=None if refusal is None else f"{refusal.code}: {refusal.message}",
                seconds=time.monotonic() - began,
            )
        )
