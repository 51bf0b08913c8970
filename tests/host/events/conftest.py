"""A room with one agent over every kind of store. A test can release each commit separately."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.failing_store import FailurePlan, failing
from tests.simulation.invariants import message_problems

from bollard.host.agents.policies import AgentPolicy, BudgetPolicy, ConcurrencyPolicy
from bollard.host.events.acceptance import Accepted
from bollard.host.log.records import data_of
from bollard.host.store.store import Store
from bollard.protocol import JsonObject
from bollard.wire import WorkerRun

PATIENCE_S = 120.0


class Turnstile:
    """A store whose commits wait, each for its own permit, while the turnstile is locked."""

    def __init__(self, store: Store) -> None:
        self.plan = FailurePlan(on_call=self._on_call)
        self.store = failing(store, self.plan)
        self._locked = False
        self.broken = False
        """Whether commits fail."""
        self.refused = 0
        self.waiting = False
        """Whether a commit waits for its permit."""
        self._permits = threading.Semaphore(0)
        self._arrivals = threading.Semaphore(0)

    def _on_call(self, call: str) -> None:
        if call != "write.begin":
            return
        if self._locked:
            self.waiting = True
            self._arrivals.release()
            assert self._permits.acquire(timeout=PATIENCE_S)
            self.waiting = False
        if self.broken:
            self.refused += 1
            raise RuntimeError("refused on purpose")

    def lock(self) -> None:
        self._locked = True

    def unlock(self) -> None:
        self._locked = False
        self._permits.release(1000)

    async def arrival(self) -> None:
        """Until a commit waits."""
        assert await asyncio.to_thread(self._arrivals.acquire, timeout=PATIENCE_S)

    def let(self) -> None:
        """One commit passes."""
        self._permits.release()


class Room:
    """One conversation of one agent, with a worker whose runs the test plays."""

    def __init__(self, stage: Any, turnstile: Turnstile) -> None:
        self.stage = stage
        self.turnstile = turnstile
        self.store: Store = stage.store
        self.worker: Any = stage.pool.slots[0].worker
        self._numbers = 0

    def agent(self, mode: str = "steer", *, runs_at_once: int | None = None, **concurrency: Any) -> None:
        policy = AgentPolicy(
            concurrency=ConcurrencyPolicy(mode=mode, **concurrency),  # type: ignore[arg-type]
            budget=BudgetPolicy(runs_at_once=runs_at_once),
        )
        self.stage.agent(capabilities=frozenset({"steering"}), policy=policy)

    def event(self, text: str, actor: str | None = "ann", **more: Any) -> Any:
        self._numbers += 1
        fields = {"source_id": f"{self.stage.engine.incarnation}-{self._numbers}", **more}
        if actor is not None:
            fields |= {"actor_type": "user", "actor_id": actor}
        return self.stage.event(text, **fields)

    async def accept(self, event: Any) -> Accepted:
        async with asyncio.timeout(PATIENCE_S):
            return await self.stage.intake.accept(event, "parrot")

    async def say(self, text: str, actor: str | None = "ann", **more: Any) -> Accepted:
        return await self.accept(self.event(text, actor, **more))

    def saying(self, text: str, actor: str | None = "ann", **more: Any) -> "asyncio.Task[Accepted]":
        """A client that waits for the answer."""
        return asyncio.create_task(self.say(text, actor, **more))

    async def begin(self, text: str = "begin", actor: str | None = "ann") -> WorkerRun:
        """A message that gets a run; the run at its worker."""
        accepted = await self.say(text, actor)
        assert not accepted.steered
        run = await self.run_of(accepted)
        live = self.stage.dispatcher.live[run.run_id]
        live.flush()  # its beginning is on disk before anything else happens
        await self.until(lambda: not live.uncommitted() and not self.stage.journal.waiting)
        return run

    async def run_of(self, accepted: Accepted) -> WorkerRun:
        await self.worker.until(lambda: any(run.run_id == accepted.run_id for run in self.worker.runs))
        return next(run for run in self.worker.runs if run.run_id == accepted.run_id)

    async def nth_run(self, number: int) -> WorkerRun:
        """The worker's n-th run, counted from 1."""
        await self.worker.until(lambda: len(self.worker.runs) >= number)
        return self.worker.runs[number - 1]

    async def pull(self, run: WorkerRun) -> list[str]:
        """The texts that the runner gets."""
        async with asyncio.timeout(PATIENCE_S):
            found: Any = await run.call("steering.pull", {"mode": "all"})
        return [item["input"]["text"] for item in found["items"]]

    async def answer(self, run: WorkerRun) -> None:
        """A message and the end, on disk."""
        await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
        await self.worker.complete(run)
        await self.stage.ended(run.run_id)

    async def give_up(self, run: WorkerRun, code: str = "cancelled") -> None:
        """The runner heeds its cancellation."""
        await run.emit("run.failed", {"code": code, "error": "stopped", "retryable": False})
        self.worker.end.finish_run(run)

    async def last_word(self, run: WorkerRun) -> None:
        """The terminal result is at the host; `run/start` is not answered."""
        await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
        await run.emit("run.completed", {"finish_reason": "end"})
        await self.until(lambda: self.stage.dispatcher.live[run.run_id].state.terminal is not None)

    async def answer_all(self, after: int = 0) -> list[str]:
        """Answer everything that reaches the worker after its first runs, until nothing is left; returns their texts,
        in order."""
        texts: list[str] = []
        while after < len(self.worker.runs) or self._something_is_open():
            run = await self.nth_run(after + 1)
            request: Any = run.request
            texts.append(request["context"]["input"]["text"])
            await self.answer(run)
            after += 1
        return texts

    def _something_is_open(self) -> bool:
        """A run that ends leaves a message waiting, which then has a run: in this order none slips through."""
        store = self.stage.store
        looks = (store.unfinished_runs, lambda *_: store.pending_events(0, 1), store.unfinished_runs)
        return any(look("", 1) for look in looks)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until something that another turn of the loop does is done."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 -- the condition has no notification
                await asyncio.sleep(0)

    async def die(self) -> None:
        """The host starts nothing more and has nothing left to write: its memory is that of a dead host."""
        self.stage.dispatcher.closing = True
        live = self.stage.dispatcher.live.values()
        await self.until(lambda: not self.stage.journal.waiting and not any(run.uncommitted() for run in live))

    def row(self, accepted: Accepted) -> Any:
        row = self.store.event("default", accepted.event_id)
        assert row is not None
        return row

    def steering(self, run_id: str) -> list[tuple[str, JsonObject]]:
        """The records of a run about its steering messages, in order."""
        rows = self.stage.records(run_id)
        return [(row.type, data_of(row)) for row in rows if row.type.startswith("steering.")]

    def check(self) -> None:
        """Every message is in one place."""
        assert message_problems(self.store) == []


Rooms = Callable[..., Awaitable[Room]]


@pytest.fixture
async def rooms(stages: Any) -> Any:
    """`await rooms(store)`: a room over a store, in mode steer unless another is named."""
    turnstiles: list[Turnstile] = []

    async def open_room(store: Store, mode: str = "steer", *, incarnation: str = "i1", **more: Any) -> Room:
        concurrency = {name: more.pop(name) for name in ("steer_from",) if name in more}
        turnstile = Turnstile(store)
        turnstiles.append(turnstile)
        room = Room(await stages(turnstile.store, incarnation=incarnation, **more), turnstile)
        room.agent(mode, **concurrency)
        return room

    yield open_room
    for turnstile in turnstiles:
        turnstile.unlock()
