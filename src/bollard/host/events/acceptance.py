"""The outcome of an event for its sender: accepted, known already, or rejected."""

import asyncio

import msgspec

from bollard.host.agents.admission import Admission
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import Refused
from bollard.host.agents.routing import BOT_DEFAULT, AgentDirectory, Resolution
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
from bollard.host.runs.event import NewEvent, ReplyRoute
from bollard.host.runs.hub import Subscription
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue


class EventRejection(msgspec.Struct, frozen=True, kw_only=True):
    """Why an event never gets a run. It is stored with the event, and a repeated event gets the same rejection."""

    code: str
    message: str
    hint: str = ""

    def to_wire(self) -> JsonObject:
        return {"code": self.code, "message": self.message, "hint": self.hint}


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An event is on disk. `first` is false when it was accepted before."""

    event_id: str
    run_id: str | None
    """The run of the event, or the active run that it steers."""
    first: bool
    steered: bool = False
    """Whether it steers a run that was active already."""
    place: tuple[int, int] | None = None
    """Epoch and sequence number of the message in that run."""
    subscription: Subscription | None = None
    """A reader that sees every record, if the caller requested one and the run is new."""
    reason: EventRejection | None = None
    """Why the event never gets a run."""


def read_rejection(store: Store, row: EventRow) -> EventRejection | None:
    """Why an event never gets a run. `None` if it has one or may still get one. Blocks."""
    if row.dispatch != "dropped" or row.run_id is not None:
        return None
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    reason = None if record is None else data_of(record).get("reason")
    if not isinstance(reason, dict):
        return _unrecorded_rejection(None if record is None else data_of(record).get("agent_id"))
    return EventRejection(**{name: str(reason.get(name, "")) for name in ("code", "message", "hint")})


def _unrecorded_rejection(agent_id: JsonValue) -> EventRejection:
    """For an event that was dropped while it waited for this agent, or whose record retention has deleted."""
    if not isinstance(agent_id, str):
        return EventRejection(code="not_taken", message="the event got no run, and its record was deleted by retention")
    message = f"the event waited for a run of agent {agent_id!r} and was dropped"
    return EventRejection(code="not_taken", message=message, hint="`bollard audit show --type event.dropped` says why")


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """How an event would be routed. Without an agent only `resolution` is set."""

    resolution: Resolution
    decision: Admission | None = None
    refused: HostError | None = None
    """Why the event would be refused now. A preview does not count toward rates."""
    grant: Grant | None = None


def gate_error(refused: Refused) -> HostError:
    """The error for the sender of an event that a gate refused."""
    kinds: dict[str, type[HostError]] = {
        "unauthorized": Forbidden,
        "rate_limited": Overloaded,
        "budget_exceeded": BudgetExceeded,
    }
    error = kinds[refused.code](refused.sentence, reason=refused.reason, hint=refused.hint, **refused.details)
    if refused.retry_after_s is not None:
        error.details["retry_after_s"] = round(refused.retry_after_s, 3)
    return error


def disk_full() -> StorageFull:
    hint = "free space in the data directory"
    return StorageFull("the disk is full, so no new work is accepted", reason="disk_full", hint=hint)


class EventDeduplication:
    """Finds events that are on disk already, and stores those that never get a run."""

    def __init__(self, journal: Journal, store: Store, clock: Clock, maker: RunMaker) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._maker = maker

    async def find(self, event: NewEvent) -> Accepted | None:
        """The first outcome of an event that was accepted before. Works on a draining host too."""
        outcome = await self._journal.commit(Entry(dedupe=event.key))
        return await self.first_outcome(outcome.first) if isinstance(outcome, Duplicate) else None

    async def attached(self, workspace: str, source: str, source_id: str) -> dict[str, JsonObject]:
        """The attachments of an event that was accepted before, by artifact id."""
        outcome = await self._journal.commit(Entry(dedupe=(workspace, source, source_id)))
        if not isinstance(outcome, Duplicate):
            return {}
        return await asyncio.to_thread(self._attached, outcome.first)

    def _attached(self, row: EventRow) -> dict[str, JsonObject]:
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.data is None:
            return {}  # retention deleted its data
        _, event = NewEvent.from_record(record.data, row.workspace)
        return {str(each["artifact_id"]): each for each in event.attachments}

    async def first_outcome(self, row: EventRow) -> Accepted:
        """The outcome that the sender of this event got first."""
        reason = await asyncio.to_thread(read_rejection, self._store, row) if row.dispatch == "dropped" else None
        steered = row.dispatch == "steering"
        return Accepted(event_id=row.event_id, run_id=row.run_id, first=False, steered=steered, reason=reason)

    async def drop(self, event: NewEvent, reason: EventRejection, *, reply: str | None = None) -> Accepted:
        """Store an event that never gets a run, with the reason. `reply` is the host's own answer, which enters the
        outbox in the same commit."""
        if self._journal.full:
            if (known := await self.find(event)) is not None:
                return known
            raise disk_full()
        event_id = f"evt_{self._maker.new_id()}"
        data = event.record(event_id, None, dropped=reason.to_wire())
        workspace = event.scope.workspace
        now_ms = self._clock.now_ms()
        records = [NewRecord(workspace=workspace, type="event.received", data=data, created_ms=now_ms)]
        records += event.file_records(event_id, None, now_ms)
        if reply is not None and event.reply is not None:
            queued = _queued(workspace, event_id, event.reply, reply)
            records.append(NewRecord(workspace=workspace, type="delivery.queued", data=queued, created_ms=now_ms))
        entry = Entry(records=records, dedupe=event.key, size=sum(len(record.data) for record in records))
        outcome = await self._journal.commit(entry)
        if isinstance(outcome, Duplicate):
            return await self.first_outcome(outcome.first)
        return Accepted(event_id=event_id, run_id=None, first=True, reason=reason)

    async def give_up(self, workspace: str, event_id: str, agent_id: str) -> None:
        """Drop a waiting message because its agent is gone. A no-op if it has got a run meanwhile."""
        data = encode_data({"event_id": event_id, "reason": "no_agent", "agent_id": agent_id})
        record = NewRecord(workspace=workspace, type="event.dropped", data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], adopt=(workspace, event_id), size=len(data)))


def _queued(workspace: str, event_id: str, route: ReplyRoute, text: str) -> bytes:
    """The data of a message of the host itself to a channel. The workspace in its id keeps it apart from deliveries of
    other workspaces, also after an import."""
    return encode_data(
        {
            "delivery_id": f"{workspace}/{event_id}.reply",
            "event_id": event_id,
            "channel": route.channel,
            "target": route.target,
            "max_message_size": route.max_message_size,
            "text": text,
        }
    )


class NoRoute(msgspec.Struct, frozen=True):
    """No agent gets the event. `code` is for programs; the sender gets `error`."""

    code: str
    error: NotFound


class AgentResolver:
    """Finds the agent of an event: the one it names, or the one of the binding that matches it."""

    def __init__(self, directory: AgentDirectory, deduplication: EventDeduplication) -> None:
        self._agents = directory.agents
        self._bindings = directory.bindings
        self._starting = directory.starting
        self._bot_agent = directory.bot_agent
        self._deduplication = deduplication

    async def find(self, event: NewEvent, agent_id: str | None) -> tuple[Agent, str] | NoRoute:
        """The agent, and the id of the binding."""
        workspace = event.scope.workspace
        if agent_id is None:
            binding, bot = self._bindings.table(workspace).find(event), event.scope.bot
            default = self._bot_agent(workspace, bot)
            if binding is not None:
                binding_id, agent_id = binding.binding_id, binding.agent_id
            elif default is not None:
                binding_id, agent_id = f"{BOT_DEFAULT}{bot}", default
            else:
                hint = "`bollard resolve` says why, binding by binding"
                return NoRoute("no_binding", NotFound("no binding matches this event", reason="no_binding", hint=hint))
        else:
            binding_id = f"direct:{agent_id}"
        agent = self._agents.get(agent_id, workspace)
        if agent is None:
            agent = await self._agents.wait_for(agent_id, WORKER_START_S, workspace=workspace, hopeful=self._starting)
        if agent is None:
            name, hint = agent_id[:64], "`bollard agents` lists them"
            error = NotFound(f"there is no agent {name!r}", reason="no_agent", hint=hint, agent=name)
            return NoRoute("no_agent", error)
        return agent, binding_id

    async def reject(self, event: NewEvent, error: HostError, code: str, *, keep: bool) -> Accepted:
        """Reject an event that gets no run now. An event that was accepted before gets its first outcome.

        With `keep` the rejection is final, and the event is stored with the reason. Otherwise raises `error`.
        """
        if keep and code == "no_agent":
            name = str(error.details.get("agent"))
            if self.expected(event.scope.workspace, name):
                keep, message = False, f"the runner of agent {name!r} is not running"
                hint = "start its plugin and retry"
                error = WorkerUnavailable(message, reason="runner_not_running", hint=hint, agent=name)
        if keep:
            reason = EventRejection(code=code, message=error.message, hint=error.hint)
            return await self._deduplication.drop(event, reason)
        if (known := await self._deduplication.find(event)) is not None:
            return known
        raise error

    def expected(self, workspace: str, agent_id: str) -> bool:
        """Whether an agent that is absent now may appear later: plugins are starting, or the agent is saved."""
        return self._starting() or self._agents.saved_one(agent_id, workspace) is not None
