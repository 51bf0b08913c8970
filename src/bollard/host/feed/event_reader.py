"""Reads the events of a workspace from the log, in order. Every reader gets the same events from the same records."""

from collections.abc import Callable
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.limits import FEED_ANSWER_CHARACTERS, FEED_PAGE
from bollard.host.log.projection import UNPROJECTABLE
from bollard.host.log.records import RunFacts, data_of, flow_in
from bollard.host.runs.event import HOST_SOURCE
from bollard.host.runs.outcome import read_outcome
from bollard.host.scope import Actor
from bollard.host.store.queries import RecordQuery
from bollard.host.store.rows import RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_FAILURES: Final = frozenset({"failed", "timeout"})
_APPROVAL: Final = ("approval_id", "run_id", "call_id", "agent_id", "capability", "name", "risk")
"""The fields of a requested approval in its event. The arguments of the call are not among them."""
_ARTIFACT: Final = ("artifact_id", "artifact_type", "mime_type", "name", "size_bytes", "sha256")
_ACCEPTED: Final = ("text", "data", "subject_type", "subject_id", "source_event_type", "reason")


class FeedPage(msgspec.Struct, frozen=True):
    """Events, and the position after which the next page starts. It may be further than the last event."""

    events: list[FeedEvent]
    read_to: int
    more: bool = False
    """Whether records after the page exist already."""
    deleted: tuple[int, int] | None = None
    """The first and the last record whose data retention has deleted."""


class EventReader:
    """Reads pages of events. Its methods block."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._makers: dict[str, Callable[[RecordRow, JsonObject], FeedEvent | None]] = {
            "event.received": self._accepted,
            "run.ended": self._ended,
            "approval.requested": self._requested,
            "artifact.created": self._created,
            "channel.status_changed": self._changed,
        }

    def newest(self) -> int:
        """The position of the newest record."""
        return self._store.last_record()

    def page(self, workspace: str, after: int, selection: Selection, limit: int = FEED_PAGE) -> FeedPage:
        """The next events after a position. A page without events can have others after it."""
        newest = self._store.last_record()
        rows = self._store.records_among(
            RecordQuery(
                workspace=workspace, above=after, below=newest + 1, limit=limit, forward=True, types=selection.records
            )
        )
        events = [event for row in rows if (event := self.event(row, selection)) is not None]
        more, deleted = len(rows) == limit, [row.id for row in rows if row.data is None]
        return FeedPage(
            events, rows[-1].id if more else max(after, newest), more, (deleted[0], deleted[-1]) if deleted else None
        )

    def at(self, workspace: str, position: int) -> FeedEvent | None:
        """The event of one record. `None` if retention has deleted its data."""
        row = next(iter(self._store.records(position - 1, 1)), None)
        return None if row is None or row.id != position or row.workspace != workspace else self.event(row)

    def event(self, row: RecordRow, selection: Selection | None = None) -> FeedEvent | None:
        """The event that a record makes, if it makes one and the selection matches it."""
        try:
            data = data_of(row)
            found = self._makers[row.type](row, data) if data else None
        except UNPROJECTABLE:  # one damaged record must not hold up all later events
            return None
        if found is None or (selection is not None and not selection.matches(found)):
            return None
        return self._with_answer(found) if row.type == "run.ended" else found

    # --- one maker for each type of record ---

    def _accepted(self, row: RecordRow, data: JsonObject) -> FeedEvent | None:
        if data["source"] == HOST_SOURCE:
            return None  # its own record makes it already
        texts = cast("dict[str, str | None]", data)
        run = self._run(texts.get("run_id"))
        shown: JsonObject = {"event_id": data["event_id"], "id": data["source_id"]}
        shown |= {name: data[name] for name in _ACCEPTED if name in data}
        event = FeedEvent(
            position=row.id,
            id=str(data["event_id"]),
            type=str(data["event_type"]),
            source=str(data["source"]),
            time_ms=row.created_ms,
            workspace=row.workspace,
            run_id=texts.get("run_id"),
            agent_id=None if run is None else run.agent_id,
            bot=texts.get("bot"),
            conversation=texts.get("conversation"),
            thread=texts.get("thread"),
            flow=flow_in(data),
            data=shown,
        )
        actor_type = texts.get("actor_type")
        return event if actor_type is None else replace(event, actor=Actor(actor_type, texts.get("actor_id")))

    def _ended(self, row: RecordRow, data: JsonObject) -> FeedEvent | None:
        if data.get("redispatch") is True:
            return None  # its event gets another run
        kind = "run.completed" if data["status"] == "completed" else "run.failed"
        if kind == "run.failed" and data["status"] not in _FAILURES:
            return None
        shown: JsonObject = {"status": data["status"]}
        if data.get("code") is not None:
            shown["reason"] = data["code"]
        return self._of_run(row, row.run_id, kind, str(row.run_id), shown)

    def _requested(self, row: RecordRow, data: JsonObject) -> FeedEvent | None:
        run_id = row.run_id or str(data.get("run_id"))
        shown = {name: data[name] for name in _APPROVAL if name in data}
        if isinstance(expires_ms := data.get("expires_ms"), int):
            shown["expires_at"] = expires_ms / 1000
        return self._of_run(row, run_id, row.type, str(data["approval_id"]), shown)

    def _created(self, row: RecordRow, data: JsonObject) -> FeedEvent | None:
        shown = {name: data[name] for name in _ARTIFACT if data.get(name) is not None}
        return self._of_run(row, row.run_id, row.type, str(data["artifact_id"]), shown)

    def _changed(self, row: RecordRow, data: JsonObject) -> FeedEvent | None:
        return self._of_run(row, None, row.type, f"{data['channel_id']}-{row.id}", data)

    def _of_run(
        self, row: RecordRow, run_id: str | None, kind: str, subject: str, data: dict[str, JsonValue]
    ) -> FeedEvent:
        """An event about a thing of a run, or of no run. The thing and the verb are its id."""
        event = FeedEvent(
            position=row.id,
            id=f"{subject}-{kind.partition('.')[2]}".replace(".", "_"),
            type=kind,
            source=HOST_SOURCE,
            time_ms=row.created_ms,
            workspace=row.workspace,
            flow=flow_in(data_of(row)),
            data=data,
        )
        run = self._run(run_id)
        if run is None:
            return event
        named: JsonObject = {"run_id": run.run_id, "agent_id": run.agent_id, "event_id": run.event_id}
        if run.conversation is not None:
            named["conversation"] = run.conversation
        if run.parent_run_id is not None:
            named["parent_run_id"] = run.parent_run_id
        return replace(
            event,
            run_id=run.run_id,
            agent_id=run.agent_id,
            bot=run.bot,
            conversation=run.conversation,
            thread=run.thread,
            actor=_facts(run.facts).actor,
            flow=event.flow | _facts(run.facts).flow,
            data={**named, **data},
        )

    def _with_answer(self, event: FeedEvent) -> FeedEvent:
        """The event of an ended run with its last message, and the flow of everything that the run has read."""
        outcome = read_outcome(self._store, event.run_id or "")
        event = replace(event, flow=event.flow | outcome.flow)
        answer = outcome.answer
        if answer is None:
            return event
        data = {**event.data, "answer": answer[:FEED_ANSWER_CHARACTERS]}
        if len(answer) > FEED_ANSWER_CHARACTERS:
            data["answer_cut"] = True
        return replace(event, data=data)

    def _run(self, run_id: str | None) -> RunRow | None:
        return None if run_id is None else self._store.run(run_id)
