"""Those who talk to a simulated host: they send, follow, stop, revoke and go away in the middle of it, as dice say."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import msgspec
from tests.new_events import new_event
from tests.simulation.history import View
from tests.simulation.incarnation import Incarnation
from tests.simulation.world import SentEvent

from bollard.host.errors import HostError
from bollard.host.events.acceptance import Accepted
from bollard.host.log.retention import Retention, purge
from bollard.host.runs.external import ExternalResult
from bollard.host.runs.stream import parse_place

_SOURCE: Final = "sim"
_PURGED: Final = ("api.denied", "retention.purged")
"""Types of records whose data no projection needs."""


class Clients:
    """Of one incarnation."""

    def __init__(self, host: Incarnation) -> None:
        self._host = host
        self._world = host.world
        self._dice = host.dice
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Until every client is done."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def busy(self) -> None:
        """Sends events, new and known ones, and does something to some of the runs that they become."""
        dice, world = self._dice, self._world
        talked_to = world.talked_to(dice)
        while True:
            await asyncio.sleep(dice.choice([0.0, 0.02, 0.2, 0.5]))
            again = bool(world.events) and dice.random() < 0.15
            event = dice.choice(list(world.events.values())) if again else world.new_event(dice, talked_to)
            patience_s = dice.uniform(0, 0.03) if dice.random() < 0.1 else None
            accepted = await self._deliver(event, patience_s, first=not again)
            if accepted is None or accepted.run_id is None:
                continue
            world.witness.counts["known again" if not accepted.first else "accepted"] += 1
            if event.external and accepted.first and not accepted.steered:
                self.begin(self._execute(accepted.run_id))
            if dice.random() < 0.3:
                view = world.histories[event.workspace].view(accepted.run_id)
                self.begin(self.follow(view, dice.uniform(0.0, 3.0)))
            await self._meddle(accepted.run_id)

    async def crowd(self) -> None:
        """A client sends one run more than it may hold, nearly at once, while its runner pulls and abandons pulls."""
        first, *others = self._world.crowd(self._dice)
        accepted = await self._deliver(first)
        if accepted is not None and accepted.run_id is not None:
            live, store = self._host.core.dispatcher.live, self._world.store
            while accepted.run_id not in live and store.unfinished_runs("", 1):  # noqa: ASYNC110 -- no notification
                await asyncio.sleep(0.1)
            found = await asyncio.gather(*(self._deliver_soon(event) for event in others))
            full = {each.steered for each in found if each is not None} == {True, False}
            self._world.witness.counts["full queue"] += full

    async def _deliver_soon(self, event: SentEvent) -> Accepted | None:
        await asyncio.sleep(self._dice.choice([0.0, 0.0, 0.1, 0.3]))
        return await self._deliver(event)

    async def stop_left(self) -> None:
        """A client stops a run that waited in an earlier life, perhaps before its agent is there."""
        await asyncio.sleep(self._dice.uniform(0.0, 0.3))
        left = [row.run_id for row in self._world.store.unfinished_runs("", 1000) if row.run_id in self._world.queued]
        if left:
            with contextlib.suppress(HostError):
                self._world.witness.counts["stopped in the queue"] += await self._host.core.dispatcher.cancel(
                    self._dice.choice(left), "cancelled"
                )

    async def _meddle(self, run_id: str) -> None:
        """Stop a run, or take something from it."""
        chance = self._dice.random()
        with contextlib.suppress(HostError):
            if chance < 0.08:
                await self._host.core.dispatcher.cancel(run_id, "cancelled")
            elif chance < 0.14:
                everything = self._dice.random() < 0.3
                taken = ["state.runner", "steering.pull", "agents.call"]
                operations = () if everything else ("state.runner" if chance < 0.11 else "steering.pull",)
                await self._host.control.revoke(run_id, operations=operations, everything=everything, by="operator")
                self._world.witness.revoked(run_id, taken if everything else operations)

    async def _deliver(
        self, event: SentEvent, patience_s: float | None = None, *, first: bool = False
    ) -> Accepted | None:
        """Send it; nothing when it was refused, or when the client did not wait for the answer."""
        sent = new_event(
            workspace=event.workspace,
            source=_SOURCE,
            source_id=event.source_id,
            event_type=event.kind,
            text="go",
            conversation=event.conversation or None,
            actor_type="user" if event.actor else None,
            actor_id=event.actor or None,
            data=msgspec.to_builtins(event.plan),
        )
        try:
            async with asyncio.timeout(patience_s):
                accepted = await self._host.core.intake.accept(
                    sent, event.agent_id, external=event.external, fresh=first
                )
        except TimeoutError:
            self._world.witness.counts["client gone"] += 1
            return None
        except HostError as error:
            self._world.witness.counts[f"refused {error.code}"] += 1
            return None
        self._world.histories[event.workspace].took(
            _SOURCE, event.source_id, event_id=accepted.event_id, run_id=accepted.run_id, steered=accepted.steered
        )
        return accepted

    async def deliver_again(self, event: SentEvent) -> None:
        """Insist, then read the run that it became, if it has become one."""
        while (accepted := await self._deliver(event)) is None:  # noqa: ASYNC110 -- a client that tries again
            await asyncio.sleep(0.5)
        if accepted.run_id is not None:
            await self.follow(self._world.histories[event.workspace].view(accepted.run_id))

    async def _execute(self, run_id: str) -> None:
        """A program outside that executes the run, or forgets it."""
        with contextlib.suppress(HostError):
            while (run := self._host.core.dispatcher.live.get(run_id)) is None:
                await asyncio.sleep(0.5)
                if self._dice.random() < 0.05:
                    return
            delta: dict[str, Any] = {"chunk": {"role": "assistant", "content": "out"}}
            result = ExternalResult(sequence=1, type="message.delta", data=delta, size_bytes=60)
            await self._host.external.append(run, [result])
            if self._dice.random() < 0.7:
                await self._host.external.finalize(run, "run.completed", {"finish_reason": "end"})
                self._world.witness.counts["external run"] += 1

    async def follow(self, view: View, drops_after_s: float | None = None) -> None:
        """Read a run to its end, resuming whenever the connection drops."""
        while not view.ended:
            try:
                async with asyncio.timeout(drops_after_s):
                    await self._read(view)
            except TimeoutError:
                drops_after_s = None if self._dice.random() < 0.5 else self._dice.uniform(0.0, 3.0)
            except HostError:
                await asyncio.sleep(0.2)

    async def _read(self, view: View) -> None:
        place = parse_place(view.place) if view.place else None
        async with contextlib.aclosing(self._host.core.reader.read(view.run_id, place)) as batches:
            async for batch in batches:
                for record in batch:
                    view.see(record)

    async def fill_disk(self) -> None:
        """Now and then nothing can be written for a while."""
        dice, plan = self._dice, self._world.plan
        while True:
            await asyncio.sleep(dice.uniform(0.3, 3.0))
            self._world.witness.counts["disk full"] += 1
            for _ in range(dice.randint(1, 6)):
                plan.fail_at = len(plan.calls) + 1
                await asyncio.sleep(0.3)
            plan.fail_at = None

    async def keep_house(self) -> None:
        """Retention, as often as it can be."""
        while True:
            await asyncio.sleep(self._dice.uniform(0.2, 2.0))
            kept = Retention(days=tuple((kind, 0.0) for kind in _PURGED))
            with contextlib.suppress(HostError):
                if await purge(self._host.journal, self._host.clock, kept, "default"):
                    self._world.witness.counts["purge"] += 1
