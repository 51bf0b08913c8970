"""What the sender of an event is told, and what it would be told."""

import asyncio

import msgspec

from bollard.host.agents.admission import Admission
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import Refused
from bollard.host.agents.routing import AgentDirectory, Resolution
from bollard.host.clock import Clock
from bollard.host.errors import (
    BudgetExceeded,
    Forbidden,
    HostError,
    NotFound,
    Overloaded,
    StorageFull,
    WorkerUnavailable,
)
from bollard.host.grants.grant import Grant
from bollard.host.limits import WORKER_START_S
from bollard.host.log.entries import Duplicate, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, data_of, encode_data
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import Subscription
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue


class EventRejection(msgspec.Struct, frozen=True, kw_only=True):
    """Why an event led to no run, for good. It is on disk with its event: whoever sends it again is told the same."""

    code: str
    message: str
    hint: str = ""

    def to_wire(self) -> JsonObject:
        return {"code": self.code, "message": self.message, "hint": self.hint}


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An event is on disk. `first` is false when it was accepted before."""

    event_id: str
    run_id: str | None
    """The run that it has, or that it was given to."""
    first: bool
    steered: bool = False
    """Whether it went into a run that was active already."""
    place: tuple[int, int] | None = None
    """Where in that run it stands, as epoch and number."""
    subscription: Subscription | None = None
    """A reader that misses nothing, where one was asked for and the run is new."""
    reason: EventRejection | None = None
    """Why there is no run and will be none."""


def first_outcome(row: EventRow, reason: EventRejection | None = None) -> Accepted:
    """The same event again gets the answer it got first."""
    steered = row.dispatch == "steering"
    return Accepted(event_id=row.event_id, run_id=row.run_id, first=False, steered=steered, reason=reason)


def not_taken(store: Store, row: EventRow) -> EventRejection | None:
    """Why an event has no run and will have none; nothing where it has one, or may get one. Blocks."""
    if row.dispatch != "dropped" or row.run_id is not None:
        return None
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    reason = None if record is None else data_of(record).get("reason")
    if not isinstance(reason, dict):
        return _later(None if record is None else data_of(record).get("agent_id"))
    return EventRejection(**{name: str(reason.get(name, "")) for name in ("code", "message", "hint")})


def _later(agent_id: JsonValue) -> EventRejection:
    """Of an event that waited for a run of this agent and got none, or whose record retention dropped."""
    if not isinstance(agent_id, str):
        return EventRejection(code="not_taken", message="nobody took this event; why is not kept any more")
    message = f"it waited for a run of agent {agent_id!r} and got none"
    return EventRejection(code="not_taken", message=message, hint="`bollard audit show --type event.dropped` says why")


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of an event. The rest is absent where no agent was found."""

    resolution: Resolution
    decision: Admission | None = None
    refused: HostError | None = None
    """Why it would not be taken whatever is decided about it; asking costs no turn of a rate."""
    grant: Grant | None = None


def error_of(refused: Refused) -> HostError:
    """A closed gate as the sender is told."""
    kinds: dict[str, type[HostError]] = {
        "unauthorized": Forbidden,
        "rate_limited": Overloaded,
        "budget_exceeded": BudgetExceeded,
    }
    error = kinds[refused.code](refused.sentence, hint=refused.hint)
    if refused.retry_after_s is not None:
        error.details["retry_after_s"] = round(refused.retry_after_s, 3)
    return error


# Events that are on disk: what their senders are told when they send them again, and those that nobody takes.


class EventDeduplication:
    """One per host."""

    def __init__(self, journal: Journal, store: Store, clock: Clock, maker: RunMaker) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._maker = maker

    async def find(self, event: NewEvent, workspace: str) -> Accepted | None:
        """An event that was accepted before gets its first outcome, also from a host that takes nothing new."""
        outcome = await self._journal.commit(Entry(dedupe=(workspace, event.source, event.source_id)))
        return await self.told(outcome.first) if isinstance(outcome, Duplicate) else None

    async def attached(self, workspace: str, source: str, source_id: str) -> dict[str, JsonObject]:
        """What is attached to an event that was accepted before, by the ids of the artifacts."""
        outcome = await self._journal.commit(Entry(dedupe=(workspace, source, source_id)))
        if not isinstance(outcome, Duplicate):
            return {}
        return await asyncio.to_thread(self._attached, outcome.first)

    def _attached(self, row: EventRow) -> dict[str, JsonObject]:
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.data is None:
            return {}  # retention dropped what it said
        _, event = NewEvent.from_record(record.data)
        return {str(each["artifact_id"]): each for each in event.attachments}

    async def told(self, row: EventRow) -> Accepted:
        """What the sender of this event was told first."""
        if row.dispatch != "dropped":
            return first_outcome(row)
        return first_outcome(row, await asyncio.to_thread(not_taken, self._store, row))

    async def drop(self, event: NewEvent, workspace: str, reason: EventRejection) -> Accepted:
        """Keep an event that leads to no run, with the reason. The same again is told the same."""
        if self._journal.full:
            if (known := await self.find(event, workspace)) is not None:
                return known
            raise StorageFull("the disk is full, so nothing new is taken", hint="free space in the data directory")
        event_id = f"evt_{self._maker.new_id()}"
        data = event.record(event_id, None, dropped=reason.to_wire())
        record = NewRecord(workspace=workspace, type="event.received", data=data, created_ms=self._clock.now_ms())
        entry = Entry(records=[record], dedupe=(workspace, event.source, event.source_id), size=len(data))
        outcome = await self._journal.commit(entry)
        if isinstance(outcome, Duplicate):
            return await self.told(outcome.first)
        return Accepted(event_id=event_id, run_id=None, first=True, reason=reason)

    async def give_up(self, workspace: str, event_id: str, agent_id: str) -> None:
        """A message that waited for a run gets none, because its agent is gone; unless somebody gave it one."""
        data = encode_data({"event_id": event_id, "reason": "no_agent", "agent_id": agent_id})
        record = NewRecord(workspace=workspace, type="event.dropped", data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], adopt=(workspace, event_id), size=len(data)))


# Whose an event is: the agent that it names, or the one that a binding gives it to; and what its sender is told where
# nobody gets it, for now or for good.


class NoRoute(msgspec.Struct, frozen=True):
    """Nobody gets the event: why, for programs, and what its sender is told."""

    code: str
    error: NotFound


class AgentResolver:
    """One per host."""

    def __init__(self, directory: AgentDirectory, known: EventDeduplication) -> None:
        self._agents = directory.agents
        self._bindings = directory.bindings
        self._starting = directory.starting
        self._known = known

    async def find(self, event: NewEvent, workspace: str, agent_id: str | None) -> tuple[Agent, str] | NoRoute:
        """The agent, and the id of the binding."""
        if agent_id is None:
            binding = self._bindings.table(workspace).find(event)
            if binding is None:
                hint = "`bollard resolve` says why, binding by binding"
                return NoRoute("no_binding", NotFound("no binding takes this event", hint=hint))
            binding_id, wanted = binding.binding_id, binding.agent_id
        else:
            binding_id, wanted = f"direct:{agent_id}", agent_id
        agent = self._agents.get(wanted, workspace)
        if agent is None:
            agent = await self._agents.wait_for(wanted, WORKER_START_S, workspace=workspace, hopeful=self._starting)
        if agent is None:
            name = wanted[:64]
            error = NotFound(f"there is no agent {name!r}", hint="`bollard agents` lists them", agent=name)
            return NoRoute("no_agent", error)
        return agent, binding_id

    async def turn_away(self, event: NewEvent, workspace: str, error: HostError, code: str, *, keep: bool) -> Accepted:
        """An event that gets no run now. Whatever became of it before has not changed.

        With `keep` it will not get one later either, and is kept with the reason; otherwise raises `error`.
        """
        if keep and code == "no_agent":
            name = str(error.details.get("agent"))
            if self.expected(workspace, name):
                keep, hint = False, "start its plugin, and send the event again"
                error = WorkerUnavailable(f"the runner of agent {name!r} is not there", hint=hint, agent=name)
        if keep:
            reason = EventRejection(code=code, message=error.message, hint=error.hint)
            return await self._known.drop(event, workspace, reason)
        if (known := await self._known.find(event, workspace)) is not None:
            return known
        raise error

    def expected(self, workspace: str, agent_id: str) -> bool:
        """Whether an agent that is not there may be there in a while."""
        return self._starting() or self._agents.saved_one(agent_id, workspace) is not None
