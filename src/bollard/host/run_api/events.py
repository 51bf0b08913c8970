"""`events.*`: the events of a conversation for its runs, and the facts of the agent's own runs there. A run without a
conversation has its own event and its own facts.

A fact is the end of a tool call, the state of a delivery, the failure of a run, or a step of steering. It has names,
ids and codes, never the content of a call or of a message, so reading it adds nothing to the data flow of a run.
"""

import asyncio
from typing import Any, Final

import msgspec

from bollard.host.limits import FACT_RUNS
from bollard.host.run_api.pages import Cursors, filled
from bollard.host.run_api.reach import FindArtifact, FlowTracker, reaches
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.runs.event import HOST_SOURCE
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.keys import place_of
from bollard.host.store.queries import FactQuery
from bollard.host.store.rows import EventRow, RecordRow
from bollard.host.store.store import Store
from bollard.protocol import AgentEventRecord, EventPage, EventsGet, EventsPage, JsonObject, RawRef

_PAGE: Final = "events.page"


_FACT: Final = "fact_"
"""The prefix of the id of a fact; the number of its record follows."""
_DIGITS: Final = 19
"""Digits of the number of a record."""
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _Raw(msgspec.Struct):
    artifact_id: str


class _Received(msgspec.Struct):
    """The part of `event.received` that is used here."""

    raw: _Raw | None = None


_received: Final = msgspec.json.Decoder(_Received).decode


class Events:
    """Reads events and facts for runs. The full payload of a platform is an artifact."""

    def __init__(self, store: Store, cursors: Cursors, find_artifact: FindArtifact) -> None:
        self._store = store
        self._cursors = cursors
        self._find_artifact = find_artifact

    async def get(self, run: LiveRun, params: EventsGet) -> AgentEventRecord:
        flow = FlowTracker()
        item = await asyncio.to_thread(self._get, run, params.event_id, flow)
        if item is None:
            raise ApiRefused("not_found", "this run has no such event")
        run.take_in(flow.bits)
        return item

    def _get(self, run: LiveRun, event_id: str, flow: FlowTracker) -> AgentEventRecord | None:
        if (record_id := _record_of(event_id)) is not None:
            newest = self._facts(run, record_id + 1, 1)
            return self._fact(run, newest[0]) if newest and newest[0].id == record_id else None
        row = self._store.event(run.facts.workspace, event_id)
        if row is None or not (row.event_id == run.facts.event_id or reaches(run, row)):
            return None
        flow.by(row)
        return self._item(run, row)

    async def page(self, run: LiveRun, params: EventsPage) -> EventPage:
        """Items are oldest first. The next page has older ones."""
        before = self._cursors.open(_PAGE, run.facts.run_id, _place(run), params.before, "before")
        flow = FlowTracker()
        page = await asyncio.to_thread(self._page, run, before, params.limit, flow)
        run.take_in(flow.bits)
        return page

    def _page(self, run: LiveRun, before: int | None, limit: int, flow: FlowTracker) -> EventPage:
        def item_of(row: EventRow | RecordRow) -> AgentEventRecord:
            if isinstance(row, RecordRow):
                return self._fact(run, row)
            flow.by(row)
            return self._item(run, row)

        rows = [*self._rows(run, before, limit + 1), *self._facts(run, before, limit + 1)]
        rows.sort(key=_position, reverse=True)
        newest_first, has_more = filled(rows[: limit + 1], item_of, limit)
        next_cursor = newest_first[-1].cursor if has_more else None
        return EventPage(items=tuple(reversed(newest_first)), next_cursor=next_cursor, has_more=has_more)

    def _rows(self, run: LiveRun, before: int | None, limit: int) -> list[EventRow]:
        facts = run.facts
        if facts.conversation:
            return self._store.events_in(facts.workspace, facts.bot, facts.conversation, facts.thread, before, limit)
        own = self._store.event(facts.workspace, facts.event_id)
        return [own] if own is not None and (before is None or own.record_id < before) else []

    # --- facts ---

    def _facts(self, run: LiveRun, before: int | None, limit: int) -> list[RecordRow]:
        """The newest facts of the agent's runs in the place of this run. Without a conversation, a run has its own."""
        facts = run.facts
        if not facts.conversation:
            return self._store.facts_of_run(facts.run_id, before, limit)
        query = FactQuery(
            workspace=facts.workspace,
            agent=facts.agent_id,
            bot=facts.bot,
            conversation=facts.conversation,
            thread=facts.thread,
            before=before,
            runs=FACT_RUNS,
            limit=limit,
        )
        return self._store.facts(query)

    def _fact(self, run: LiveRun, row: RecordRow) -> AgentEventRecord:
        event_type, metadata = self._said(row)
        facts = run.facts
        return AgentEventRecord(
            event_id=f"{_FACT}{row.id}",
            event_type=event_type,
            source=HOST_SOURCE,
            bot_id=facts.bot,
            workspace_id=facts.workspace,
            conversation_id=facts.conversation,
            thread_id=facts.thread,
            seq=row.id,
            cursor=self._cursor(run, row.id),
            created_at=row.created_ms / 1000,
            metadata={"run_id": row.run_id, **metadata},
        )

    def _said(self, row: RecordRow) -> tuple[str, JsonObject]:
        """The type of a fact, and its names and codes. Retention may have deleted them."""
        data: dict[str, Any] = {} if row.data is None else _object(row.data)
        match row.type.partition(".")[0]:
            case "action":
                name = str(data.get("capability", "")).rpartition("/")[2]
                return row.type, _known(tool_name=name, call_id=data.get("call_id"), code=data.get("code"))
            case "steering":
                return row.type, _known(event_id=data.get("event_id"))
            case "run":
                return "run.failed", _known(status=data.get("status"), code=data.get("code"))
            case _:
                shown = self._store.delivery(row.workspace, f"{row.run_id}.{row.seq}")
                if shown is None:
                    return "delivery.unknown", {}
                return f"delivery.{shown.status}", _known(delivery_id=shown.delivery_id, channel_id=shown.channel)

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
            metadata=self._steering_mark(row),
        )

    def _steering_mark(self, row: EventRow) -> JsonObject:
        """How an active run claimed the message, as §9 of the protocol defines it."""
        if row.steering is None or row.run_id is None:
            return {}
        claiming = self._store.run(row.run_id)
        return {
            "steering": {
                "status": row.steering,
                "trigger_behavior": "absorbed_into_active_run",
                "claimed_by_run_id": row.run_id,
                "claimed_runner_id": None if claiming is None else claiming.runner_id,
                "claimed_at": row.created_ms / 1000,
            }
        }

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


def _position(row: EventRow | RecordRow) -> int:
    return row.id if isinstance(row, RecordRow) else row.record_id


def _record_of(event_id: str) -> int | None:
    """The record of a fact; `None` for the id of an event."""
    number = event_id.removeprefix(_FACT)
    is_fact = event_id.startswith(_FACT) and number.isascii() and number.isdigit() and len(number) < _DIGITS
    return int(number) if is_fact else None


def _known(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value}
