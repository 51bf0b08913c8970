"""Events that are on disk: what their senders are told when they send them again, and those that nobody takes."""

import asyncio

from bollard.host.clock import Clock
from bollard.host.errors import StorageFull
from bollard.host.intake.accepted import Accepted, NotTaken, first_outcome, not_taken
from bollard.host.log.entries import Duplicate, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.event import NewEvent
from bollard.host.store.boundary import Store
from bollard.host.store.rows import EventRow
from bollard.protocol import JsonObject

__all__ = ["KnownEvents"]


class KnownEvents:
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

    async def drop(self, event: NewEvent, workspace: str, reason: NotTaken) -> Accepted:
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
