"""Raises host events for the bindings that filter for them, so that the end of one run can start another agent.

The id of a host event follows from its record, so a crash neither loses nor doubles it. An event names the agents that
led to it. An agent that would be started by its own chain, or by a chain that is too long, is refused; the event is
stored with the reason.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from bollard.host.agents.routing import BindingRegistry
from bollard.host.delivery.retry import wait_before
from bollard.host.errors import Draining, HostError, StorageFull, StorageUnavailable
from bollard.host.events.acceptance import EventRejection
from bollard.host.events.intake import Intake
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.limits import EVENT_HOPS, FEED_RETRY_S
from bollard.host.log.records import data_of
from bollard.host.runs.event import APPROVALS_SOURCE, HOST_SOURCE, NewEvent
from bollard.host.scope import Scope
from bollard.host.store.rows import KeptChange, RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, limits

_log = structlog.get_logger("bollard.feed")
_ANSWER: Final = frozenset({"answer", "answer_cut"})


def chain_problem(chain: Sequence[str], agent_id: str) -> EventRejection | None:
    """Why an event of this chain of agents may not start this agent. Pure."""
    if agent_id in chain:
        return EventRejection(
            code="event_loop",
            message=f"agent {agent_id} would be started by the end of its own chain: {' → '.join(chain)}",
            hint="filter the binding by data.agent_id, so that it leaves out this chain",
        )
    if len(chain) > EVENT_HOPS:
        return EventRejection(
            code="event_hops",
            message=f"a chain of events has started {len(chain)} agents; {EVENT_HOPS} are allowed",
            hint="let fewer agents start each other, or call them as tools",
        )
    return None


class BoundEvents:
    """Raises the host events that bindings filter for. Implements `Consumer`."""

    name = "bindings"

    def __init__(
        self,
        *,
        intake: Intake,
        bindings: BindingRegistry,
        store: Store,
        is_open: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`is_open` says whether a workspace is open."""
        self._intake = intake
        self._bindings = bindings
        self._store = store
        self._is_open = is_open

    def selection(self, workspace: str) -> Selection | None:
        types = self._bindings.table(workspace).host_events
        return Selection(types=types) if types and self._is_open(workspace) else None

    async def take(self, workspace: str, events: Sequence[FeedEvent]) -> Sequence[KeptChange]:
        for event in events:
            await self._raise(workspace, event)
        return ()

    def taken(self, workspace: str) -> None:
        """A no-op: the events are on disk already."""

    async def _raise(self, workspace: str, event: FeedEvent) -> None:
        chain = await asyncio.to_thread(self._chain, event)
        binding = self._bindings.table(workspace).find(_raised(event, chain))
        if binding is None:
            return
        if (problem := chain_problem(chain, binding.agent_id)) is not None:
            await self._until_stored(event, chain, problem)
            return
        attempts = 0
        while True:
            try:
                await self._intake.accept(_raised(event, chain), keep=True)
            except (Draining, StorageFull, StorageUnavailable) as error:
                _log.warning("a host event could not be raised yet", event_id=event.id, problem=error.message)
                await asyncio.sleep(FEED_RETRY_S)
            except HostError as error:  # the agent or its queue refuses it now
                attempts += 1
                if (wait_s := wait_before(attempts, None)) is None:
                    reason = EventRejection(code="agent_refused", message=error.message, hint=error.hint)
                    await self._until_stored(event, chain, reason)
                    return
                await asyncio.sleep(wait_s)
            else:
                return

    async def _until_stored(self, event: FeedEvent, chain: Sequence[str], reason: EventRejection) -> None:
        """Store the refused event without the answer: readers that may not see the run can see the event."""
        raised = _raised(event, chain, without=_ANSWER)
        while True:
            try:
                await self._intake.deduplication.drop(raised, reason)
            except HostError as error:
                _log.warning("a refused event could not be stored yet", event_id=event.id, problem=error.message)
                await asyncio.sleep(FEED_RETRY_S)
            else:
                return

    def _chain(self, event: FeedEvent) -> tuple[str, ...]:
        """The agents whose runs led to this event, the first one first. Blocks."""
        row, agents = None if event.run_id is None else self._store.run(event.run_id), list[str]()
        for _ in range(limits.CHILD_RUN_DEPTH + EVENT_HOPS):
            if row is None:
                break
            agents.append(row.agent_id)
            if row.parent_run_id is not None:
                row = self._store.run(row.parent_run_id)
                continue
            row, earlier = self._cause(row)
            agents.extend(reversed(earlier))
        return tuple(reversed(agents))

    def _cause(self, row: RunRow) -> tuple[RunRow | None, list[str]]:
        """The run whose approved call started this run, and the chain of the host event that started it."""
        started = self._store.event(row.workspace, row.event_id)
        if started is None or started.source not in (HOST_SOURCE, APPROVALS_SOURCE):
            return None, []
        record = next(iter(self._store.records(started.record_id - 1, 1)), None)
        data = {} if record is None else data_of(record).get("data")
        found: JsonObject = data if isinstance(data, dict) else {}
        if started.source == APPROVALS_SOURCE:
            return self._store.run(str(found.get("run_id"))), []
        chain = found.get("chain")
        return None, [str(agent_id) for agent_id in chain] if isinstance(chain, list) else []


def _raised(event: FeedEvent, chain: Sequence[str], without: frozenset[str] = frozenset()) -> NewEvent:
    data = {name: value for name, value in event.data.items() if name not in without}
    return NewEvent(
        source=HOST_SOURCE,
        source_id=event.id,
        event_type=event.type,
        trigger="system",
        scope=Scope(
            workspace=event.workspace,
            bot=event.bot,
            conversation=event.conversation,
            thread=event.thread,
            actor_type=None if event.actor is None else event.actor.type,
            actor_id=None if event.actor is None else event.actor.id,
        ),
        surface="system",
        event_ms=event.time_ms,
        data={**data, "hops": len(chain), "chain": [*chain]},
        carries=event.flow,
        known=True,
    )
