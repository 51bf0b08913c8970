"""Workers in memory: the real connection with a scripted runner at its other end, and a pool that hands them out.

The plan of a run's event (`plans`) determines its runner: its results, its calls, its end.
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from tests.doubles.memory_transport import memory_pair
from tests.simulation.simulated_agents import CALLED
from tests.simulation.world import Plan, Witness, plan_of, plan_of_text

from bollard.host.workers.boundary import Flushable
from bollard.protocol import JsonObject, JsonValue, LogRecord, PluginIdentity, WorkerIdentity
from bollard.wire import HostEnd, HostRun, RemoteError, RunSink, Strike, ToolRequest, WireError, WorkerEnd, WorkerRun

_PLUGIN = PluginIdentity(author="sim", name="scripted", version="1")
_WORKER = WorkerIdentity(name="simulator", version="1", language="python")
_RESTART_S = 0.3
_WAY_S = 0.003
"""The longest transit time of a frame: frames of both sides may cross."""
_HASTE_S = 0.015
"""The longest time that a hasty runner waits for an answer: about a commit and its way back."""


class _Scripted:
    """The worker's side: implements `WorkerHandler`."""

    def __init__(self, dice: Random, witness: Witness) -> None:
        self._dice = dice
        self._witness = witness
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reasons: dict[str, str] = {}
        self._left: set[asyncio.Task[None]] = set()
        self.end: WorkerEnd | None = None

    def runners(self) -> list[JsonObject]:
        return []

    def tools(self) -> list[JsonObject]:
        return []

    def run_started(self, run: WorkerRun) -> None:
        self._tasks[run.run_id] = asyncio.get_running_loop().create_task(self._serve(run))

    def run_cancelled(self, run: WorkerRun, reason: str) -> None:
        self._reasons[run.run_id] = reason
        if task := self._tasks.get(run.run_id):
            task.cancel()

    def tool_called(self, request: ToolRequest) -> None:
        request.refuse("there are no tools")

    def tool_cancelled(self, call_id: str) -> None:
        """There are no tools."""

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        del grace_s
        done()

    def closed(self, reason: str) -> None:
        del reason
        for task in self._tasks.values():
            task.cancel()

    async def _serve(self, run: WorkerRun) -> None:
        context: Any = run.request["context"]
        data: Any = context["event"]["data"]
        plan = plan_of(data) if data else plan_of_text(context["input"]["text"])
        try:
            await self._play(run, plan)
        except asyncio.CancelledError:
            if plan.ending == "deaf" or run.over:
                return
            code = self._reasons.get(run.run_id, "cancelled")
            with contextlib.suppress(WireError):
                await run.emit("run.failed", {"code": code, "error": "stopped", "retryable": False})
        except WireError:
            return
        if self.end is not None and not run.over:
            self.end.finish_run(run)

    async def _play(self, run: WorkerRun, plan: Plan) -> None:
        """Everything that the plan has, in an order of the moment; the message and the end are last."""
        steps = ["delta"] * plan.deltas + ["pull"] * plan.pulls + ["call"] * plan.calls + ["state"] * plan.states
        steps += ["child"] if plan.child is not None else []
        self._dice.shuffle(steps)
        for step in steps:
            if plan.lasts_s:
                await asyncio.sleep(self._dice.uniform(0, 2 * plan.lasts_s / len(steps)))
            await self._take(step, run, plan)
        if plan.message:
            await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
        if plan.pulls and self._dice.random() < plan.hasty:
            self._leave_pull(run)
            await asyncio.sleep(self._dice.uniform(0, _HASTE_S))
        await self._finish(run, plan.ending)

    async def _take(self, step: str, run: WorkerRun, plan: Plan) -> None:
        match step:
            case "delta":
                await run.emit("message.delta", {"chunk": {"role": "assistant", "content": "so "}})
                if plan.pauses and self._dice.random() < plan.pauses:
                    await asyncio.sleep(self._dice.uniform(0, 0.05))
            case "state":
                await run.emit("state.updated", {"scope": "runner", "key": "k", "value": run.run_id})
            case "call":
                params: JsonObject = {"scope": "runner", "key": "called", "value": run.run_id}
                await self._ask(run, "state.set", "state.runner", params)
            case "child":
                wanted = msgspec.json.encode(plan.child).decode()
                await self._ask(run, "agents.call", "agents.call", {"agent_id": CALLED, "input": {"text": wanted}})
            case _:
                hasty = self._dice.random() < plan.hasty
                try:
                    async with asyncio.timeout(self._dice.uniform(0, _HASTE_S) if hasty else None):
                        await self._pull(run)
                except TimeoutError:
                    self._witness.counts["pull given up"] += 1

    async def _pull(self, run: WorkerRun) -> None:
        mode = self._dice.choice(["all", "one-at-a-time"])
        answer: Any = await self._ask(run, "steering.pull", "steering.pull", {"mode": mode})
        if answer is not None:
            self._witness.got(run.run_id, [item["event"]["event_id"] for item in answer["items"]])

    def _leave_pull(self, run: WorkerRun) -> None:
        """Begin a pull that the runner does not wait for."""

        async def pull() -> None:
            try:
                await self._pull(run)
            except WireError:
                self._witness.counts["pull left behind"] += 1

        task = asyncio.get_running_loop().create_task(pull())
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    async def _ask(self, run: WorkerRun, action: str, operation: str, params: JsonObject) -> JsonValue:
        allowed = self._witness.may(run.run_id, operation)
        try:
            answer = await run.call(action, params)
        except RemoteError as error:
            data: Any = error.data or {}
            self._witness.refused(operation, str(data.get("code")))
            return None
        self._witness.answered(run.run_id, operation, allowed=allowed)
        return answer

    async def _finish(self, run: WorkerRun, ending: str) -> None:
        match ending:
            case "completes":
                await run.emit("run.completed", {"finish_reason": "end"})
            case "fails" | "quits":
                code = "runner.error" if ending == "fails" else "cancelled"
                await run.emit("run.failed", {"code": code, "error": "as planned", "retryable": False})
            case "dies":
                if self.end is not None:
                    self.end.close("the worker died")
                raise asyncio.CancelledError
            case "hangs" | "deaf":
                await asyncio.sleep(3600)
            case _:
                pass  # it answers without a terminal result


class ScriptedSlot:
    """The host's side: implements `HostObserver`, and the interface of a worker for the dispatcher."""

    def __init__(self, dice: Random, witness: Witness, lost: Callable[["ScriptedSlot"], None]) -> None:
        loop = asyncio.get_running_loop()
        host, worker = memory_pair(later=lambda told: loop.call_later(dice.uniform(0, _WAY_S), told))
        handler = _Scripted(dice, witness)
        handler.end = WorkerEnd(worker, handler, worker=_WORKER, plugin=_PLUGIN)
        handler.end.start()
        self._end = HostEnd(host, self)
        self._lost = lost
        self._touched: dict[Flushable, None] = {}

    async def start(self) -> None:
        await self._end.initialize("simulated")

    def start_run(self, run_id: str, request: JsonObject, sink: RunSink) -> HostRun:
        return self._end.start_run_raw(run_id, request, sink)

    def touch(self, run: Flushable) -> None:
        self._touched[run] = None

    def explain_failure(self, error: str) -> str:
        return error

    def stop(self) -> None:
        self._end.close("the host stops the worker")

    def batch_ended(self) -> None:
        touched, self._touched = self._touched, {}
        for run in touched:
            run.flush()

    def logged(self, record: LogRecord) -> None:
        """Ignored."""

    def struck(self, strike: Strike) -> None:
        """The channel closes by itself at the third."""

    def closed(self, reason: str) -> None:
        del reason
        self.batch_ended()
        self._lost(self)


class ScriptedPool:
    """One worker at a time; a dead one is replaced after a moment."""

    def __init__(self, dice: Random, witness: Witness | None = None) -> None:
        self._dice = dice
        self._witness = witness or Witness()
        self._slot: ScriptedSlot | None = None
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, after_s: float = 0.05) -> None:
        task = asyncio.get_running_loop().create_task(self._start(after_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        slot = ScriptedSlot(self._dice, self._witness, self._slot_lost)
        await slot.start()
        self._slot = slot
        self._ready.set()

    def _slot_lost(self, slot: ScriptedSlot) -> None:
        if slot is self._slot:
            self._slot = None
            self._ready.clear()
            self.start(_RESTART_S)

    def pick(self) -> ScriptedSlot | None:
        return self._slot

    async def wait_ready(self, timeout_s: float) -> ScriptedSlot:
        del timeout_s
        while self._slot is None:
            await self._ready.wait()
        return self._slot

    def drain(self, slot: ScriptedSlot, run_id: str) -> None:
        """The deaf runner's worker is replaced at once: its other runs are lost with it."""
        del run_id
        slot.stop()
