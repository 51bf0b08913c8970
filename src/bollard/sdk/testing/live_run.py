"""An active run in the in-memory host: its outlet, its caller, and the handle for the test."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final, Protocol

from bollard.protocol import TERMINAL_TYPES, AgentRunResult, FailureCode, JsonObject, JsonValue, LogLevel, limits
from bollard.sdk.calls import ApiCaller
from bollard.sdk.context import RunContext
from bollard.sdk.declaration import RunnerDeclaration
from bollard.sdk.errors import InvalidResult, ResultTooLarge, describe_error
from bollard.sdk.run_driver import RunnerObject, drive
from bollard.sdk.testing.clock import Clock
from bollard.sdk.testing.errors import ResultNeverCame
from bollard.sdk.testing.ledger import LogEntry, RunLedger, RunOutcome
from bollard.sdk.testing.recording import Recording, record


class Host(Protocol):
    """The part of the host that a live run uses."""

    clock: Clock

    async def answer(self, run_id: str, action: str, params: JsonObject) -> JsonValue: ...
    def answer_stream(self, run_id: str, action: str, params: JsonObject) -> AsyncGenerator[JsonValue, None]: ...
    def take(self, result: AgentRunResult) -> None: ...
    def end(self, run_id: str, cancel_reason: str | None = None) -> RunOutcome: ...
    async def instance_of(self, declaration: RunnerDeclaration) -> RunnerObject: ...


class HostCaller:
    """Sends the calls of one run to its host."""

    def __init__(self, host: Host, run_id: str) -> None:
        self._host = host
        self._run_id = run_id

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        return await self._host.answer(self._run_id, action, params)

    def stream(self, action: str, params: JsonObject) -> AsyncGenerator[JsonValue, None]:
        return self._host.answer_stream(self._run_id, action, params)


class _Outlet:
    """Numbers results and passes them to the host, with the checks of a worker."""

    def __init__(self, host: Host, run_id: str, recording: Recording | None) -> None:
        self._host = host
        self._run_id = run_id
        self._recording = recording
        self._sequence = 0
        self.changed: Final = asyncio.Event()

    def offer_text(self, text: str) -> bool:
        del text
        return False  # every result goes through `emit`, which checks and records it

    async def emit(self, kind: str, data: JsonObject) -> None:
        try:
            text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidResult(kind, "data", f"is not JSON: {error}") from error
        if size > limits.RESULT_BYTES:
            raise ResultTooLarge(kind, size, limits.RESULT_BYTES)
        if kind not in TERMINAL_TYPES:
            await asyncio.sleep(0)  # where a worker may wait for credit
        self._sequence += 1
        result = AgentRunResult(run_id=self._run_id, type=kind, data=json.loads(text), sequence=self._sequence)
        if self._recording is not None:
            self._recording.result(result)
        self._host.take(result)
        self.changed.set()


class LiveRun:
    """A run that a test watches, steers and cancels."""

    def __init__(
        self,
        host: Host,
        declaration: RunnerDeclaration,
        ledger: RunLedger,
        caller: ApiCaller,
        recording: Recording | None = None,
        record_to: Path | str | None = None,
    ) -> None:
        self._host = host
        self._declaration = declaration
        self._ledger = ledger
        self._recording = recording
        self._record_to = record_to
        self._caller = caller if recording is None else record(caller, recording)
        self._outlet = _Outlet(host, ledger.context.run_id, recording)
        self._seen: dict[str, int] = {}
        self._reason: FailureCode | None = None
        self._outcome: RunOutcome | None = None
        self._task = asyncio.get_running_loop().create_task(self._execute(), name=self.run_id)
        self._abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timeout_ms = ledger.context.runtime.timeout_ms
        if timeout_ms is not None:
            give_up = host.clock.call_later(timeout_ms / 1000, lambda: self.cancel("runner.timeout"))
            self._task.add_done_callback(lambda _: give_up())
        self._task.add_done_callback(lambda _: self._outlet.changed.set())

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._ledger.context.run_id

    @property
    def results(self) -> tuple[AgentRunResult, ...]:
        """The results so far."""
        return tuple(self._ledger.results)

    async def result(self, kind: str) -> AgentRunResult:
        """Wait for the next result of this type."""
        while True:
            found = [result for result in self._ledger.results if result.type == kind]
            seen = self._seen.get(kind, 0)
            if len(found) > seen:
                self._seen[kind] = seen + 1
                return found[seen]
            if self._task.done() or self._abandoned.done():
                raise ResultNeverCame(kind, self._ledger.verdict(self._reason)[0])
            self._outlet.changed.clear()
            await self._outlet.changed.wait()

    def steer(self, text: str) -> None:
        """Send a message into the run, for `api.steering.pull`."""
        if not self._ledger.grant.steering:
            raise ValueError(self._ledger.grant.why_not_steered)
        self._ledger.steering.add(text)

    def cancel(self, reason: FailureCode = "cancelled") -> None:
        """Cancel the run; the first reason counts. A runner that does not end within the grace is abandoned."""
        if self._reason is not None or self._task.done() or self._ledger.terminal is not None:
            return
        self._reason = reason
        self._task.cancel()
        give_up = self._host.clock.call_later(limits.CANCEL_GRACE_S, self._abandon)
        self._task.add_done_callback(lambda _: give_up())

    async def outcome(self) -> RunOutcome:
        """Wait for the end of the run and return its outcome."""
        if self._outcome is None:
            await asyncio.wait({self._task, self._abandoned}, return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
            self._outcome = self._host.end(self.run_id, self._reason)
            if self._recording is not None and self._record_to is not None:
                self._recording.save(self._record_to)
        return self._outcome

    def _abandon(self) -> None:
        if not self._abandoned.done():
            self._ledger.closed = True  # later results are refused
            self._abandoned.set_result(None)
            self._outlet.changed.set()

    def _log(self, level: LogLevel, message: str, fields: JsonObject) -> None:
        self._ledger.logs.append(LogEntry(level, message, fields))

    async def _execute(self) -> None:
        try:
            config: Any = self._declaration.read_config(self._ledger.context.config)
            runner = await self._host.instance_of(self._declaration)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- as a worker: the run fails, not the host
            code = self._reason or "runner.error"
            await self._outlet.emit("run.failed", {"code": code, "error": describe_error(error), "retryable": False})
            return
        ctx: RunContext[Any] = RunContext(
            self._ledger.context, self._caller, config, self._host.clock.monotonic, self._log
        )
        await drive(
            runner,
            ctx,
            self._outlet,
            interrupt=self._declaration.capabilities.interrupt,
            cancel_reason=lambda: self._reason,
        )
