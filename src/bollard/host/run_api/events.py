"""`events.get` and `events.page`: the events in the reach of a run. Without a conversation, only its own event."""

import asyncio
from typing import Final

import msgspec

from bollard.host.run_api.pages import Cursors, filled
from bollard.host.run_api.reach import FindArtifact, FlowTracker, reaches
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.keys import place_of
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.protocol import AgentEventRecord, EventPage, EventsGet, EventsPage, RawRef

_PAGE: Final = "events.page"


class _Raw(msgspec.Struct):
    artifact_id: str


class _Received(msgspec.Struct):
    """The part of `event.received` that is used here."""

    raw: _Raw | None = None


_received: Final = msgspec.json.Decoder(_Received).decode


class Events:
    """Reads events for runs. The full payload of a platform is an artifact."""

    def __init__(self, store: Store, cursors: Cursors, find_artifact: FindArtifact) -> None:
        self._store = store
        self._cursors = cursors
        self._find_artifact = find_artifact

    async def get(self, run: LiveRun, params: EventsGet) -> AgentEventRecord:
        found = await asyncio.to_thread(self._get, run, params.event_id)
        if found is None:
            raise ApiRefused("not_found", "this run has no such event")
        row, item = found
        run.take_in(row.flow)
        return item

    def _get(self, run: LiveRun, event_id: str) -> tuple[EventRow, AgentEventRecord] | None:
        row = self._store.event(run.facts.workspace, event_id)
        if row is None or not (row.event_id == run.facts.event_id or reaches(run, row)):
            return None
        return row, self._item(run, row)

    async def page(self, run: LiveRun, params: EventsPage) -> EventPage:
        """Items are oldest first. The next page has older ones."""
        before = self._cursors.open(_PAGE, run.facts.run_id, _place(run), params.before, "before")
        flow = FlowTracker()
        page = await asyncio.to_thread(self._page, run, before, params.limit, flow)
        run.take_in(flow.bits)
        return page

    def _page(self, run: LiveRun, before: int | None, limit: int, flow: FlowTracker) -> EventPage:
        def item_of(row: EventRow) -> AgentEventRecord:
            flow.by(row)
            return self._item(run, row)

        newest_first, has_more = filled(self._rows(run, before, limit + 1), item_of, limit)
        next_cursor = newest_first[-1].cursor if has_more else None
        return EventPage(items=tuple(reversed(newest_first)), next_cursor=next_cursor, has_more=has_more)

    def _rows(self, run: LiveRun, before: int | None, limit: int) -> list[EventRow]:
        facts = run.facts
        if facts.conversation:
            return self._store.events_in(facts.workspace, facts.bot, facts.conversation, facts.thread, before, limit)
        own = self._store.event(facts.workspace, facts.event_id)
        return [own] if own is not None and (before is None or own.record_id < before) else []

    def _cursor(self, run: LiveRun, record_id: int) -> str:
        return self._cursors.seal(_PAGE, run.facts.run_id, _place(run), record_id)

    def _item(self, run: LiveRun, row: EventRow) -> AgentEventRecord:
        return AgentEventRecord(
            event_id=row.event_id,
            event_type=row.type,
            event_time=None if row.event_ms is None else row.event_ms / 1000,
            source=row.source,
            bot_id=row.bot,
            workspace_id=row.workspace,
            conversation_id=row.conversation,
            thread_id=row.thread,
            actor_type=row.actor_type,
            actor_id=row.actor_id,
            actor_name=row.actor_name,
            subject_type=row.subject_type,
            subject_id=row.subject_id,
            input_summary=row.summary,
            raw_ref=self._raw_ref(run, row),
            seq=row.record_id,
            cursor=self._cursor(run, row.record_id),
            created_at=row.created_ms / 1000,
        )

    def _raw_ref(self, run: LiveRun, row: EventRow) -> RawRef | None:
        """The full payload, if the run may read it. Only the record of the event refers to it."""
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.id != row.record_id or record.data is None:
            return None
        raw = _received(record.data).raw
        found = None if raw is None else self._find_artifact(run, raw.artifact_id)
        if found is None:
            return None
        return RawRef(artifact_id=found.artifact_id, mime_type=found.mime_type, size_bytes=found.size_bytes)


def _place(run: LiveRun) -> str:
    facts = run.facts
    return place_of(facts.workspace, facts.bot, facts.conversation, facts.thread)
