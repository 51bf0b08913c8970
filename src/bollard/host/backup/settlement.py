"""The settlement of unfinished work in a restored store, before any host may use it.

The unfinished work of the copy may have been finished since, with its effects, so none of it is repeated. Its runs end
as lost, under an epoch beyond any that can have existed since. Open approvals and questions expire, and so do granted
approvals that were not used. Waiting messages are dropped, deliveries in progress become `unknown`, and sessions end.
Undelivered webhooks fail, unfinished uploads are dropped, and events from before the restore are not raised again.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import AgentRegistry
from bollard.host.audit.erasure_list import Erasure
from bollard.host.backup.erasures import apply_erasures
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.feed.followers import POSITION
from bollard.host.files.uploads import UPLOAD
from bollard.host.identity.sessions import SESSION
from bollard.host.knowledge.incoming import UploadFolder
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import Entry
from bollard.host.log.rebuild import UNSETTLED
from bollard.host.log.records import InteractionRoute, NewRecord, encode_data
from bollard.host.log.writer import Writer
from bollard.host.recovery import Recovery, facts_of
from bollard.host.store.action_rows import ApprovalRow
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import DropKept, EventRow, KeptRow, OutboxRow, RunRow
from bollard.host.store.store import Store
from bollard.host.subscriptions.delivery_rows import OPEN, read_delivery
from bollard.protocol import JsonObject
from bollard.trust.keys import SigningKey

_EPOCHS_FROM_MS: Final = 1_735_689_600_000
"""The beginning of 2025. An epoch grows by one with each owner of a run; minutes since then are always larger."""
_MINUTE_MS: Final = 60_000
_NO_DATA: Final = Path("/nonexistent")


def epoch_after(epoch: int, now_ms: int) -> int:
    """An epoch that no owner of the run can have had before now."""
    return max(epoch + 1, (now_ms - _EPOCHS_FROM_MS) // _MINUTE_MS)


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a settlement."""

    runs: int
    events: int
    deliveries: tuple[str, ...]
    """Open deliveries, whose outcome is unknown."""
    approvals: tuple["ExpiredApproval", ...]
    questions: tuple["ExpiredQuestion", ...]
    sessions: int
    erased: int = 0
    """Records of people who were erased after the copy was made; they lost their data again."""


class ExpiredApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An open approval. `status` is its former status: undecided, or granted and not used."""

    approval_id: str
    run_id: str
    name: str
    status: Literal["requested", "granted"]


class ExpiredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """An unanswered question."""

    question_id: str
    run_id: str
    question: str


class _RequestData(msgspec.Struct, frozen=True, kw_only=True):
    """The reported data of a question or of `approval.requested`."""

    name: str = ""
    question_id: str = ""
    call_id: str = ""
    question: str = ""
    interaction: InteractionRoute | None = None


_read_asked: Final = msgspec.json.Decoder(_RequestData).decode


class SettlementWriter:
    """Settles unfinished work in a store that no other process uses."""

    def __init__(self, store: Store, blobs: BlobStore, clock: Clock, *, incarnation: str, key: SigningKey) -> None:
        self._store = store
        self._clock = clock
        self._recovery = Recovery(store, clock, AgentRegistry(), incarnation)
        self._writer = Writer(store, blobs, clock, incarnation=incarnation, key=key)

    def settle(
        self,
        workspaces: list[str],
        kind: str,
        details: JsonObject,
        only: str | None = None,
        *,
        erasures: Sequence[Erasure] = (),
        data: Path = _NO_DATA,
    ) -> Settlement:
        """End unfinished work in all workspaces or in `only` one, record the reason in each, erase people again, and
        sign the heads. `data` is the data directory of the copy."""
        runs = [row for row in self._recovery.unfinished() if only in (None, row.workspace)]
        questions = [question for row in runs for question in self._end(row, kind)]
        approvals = [row for row in self._open_approvals() if only in (None, row.workspace)]
        for row in approvals:
            body: JsonObject = {"approval_id": row.approval_id, "call_id": row.call_id, "run_id": row.run_id}
            shown = _asked_in(row.body).interaction
            if shown is not None and row.status == "requested":
                body["interaction"] = msgspec.to_builtins(shown)
            self._write(Entry(records=[self._record(row.workspace, "approval.expired", {**body, "reason": kind})]))
        events = [row for row in self._pending() if only in (None, row.workspace)]
        for row in events:
            body = {"event_id": row.event_id, "reason": kind}
            self._write(Entry(records=[self._record(row.workspace, "event.dropped", body)]))
        deliveries = [row for row in self._undelivered() if only in (None, row.workspace)]
        for row in deliveries:
            body = {"delivery_id": row.delivery_id, "run_id": row.run_id, "reason": kind}
            self._write(Entry(records=[self._record(row.workspace, "delivery.unknown", body)]))
        for row in self._kept(OPEN, only):
            delivery = read_delivery(row.body)
            body = {"subscription_id": delivery.subscription_id, "webhook_id": delivery.event_id, "reason": kind}
            record = self._record(row.workspace, "webhook.failed", {**body, "type": delivery.type})
            self._write(Entry(records=[record], keeps=[delivery.drop(row.workspace)]))
        # Without a position the next start follows new events only. The content of unfinished uploads is not in a copy.
        left = (*self._kept(POSITION, only), *self._kept(UPLOAD, only))
        if left:
            self._write(Entry(keeps=[DropKept(row.kind, row.workspace, row.id) for row in left]))
        settled = Settlement(
            runs=len(runs),
            events=len(events),
            deliveries=tuple(row.delivery_id for row in deliveries),
            approvals=tuple(map(_expired, approvals)),
            questions=tuple(questions),
            sessions=self._forget() if only is None else 0,
        )
        counts = {name: len(getattr(settled, name)) for name in ("deliveries", "approvals", "questions")}
        body = {**details, "runs": settled.runs, "events": settled.events, **counts}
        for workspace in workspaces:
            self._write(Entry(records=[self._record(workspace, kind, body)]))
        erased = apply_erasures(
            erasures,
            self._store,
            self._writer,
            self._clock,
            workspaces=workspaces,
            archive=data / "archive",
            documents=UploadFolder(data),
        )
        self._writer.finish()
        with self._store.write() as transaction:
            transaction.put_meta(UNSETTLED, "")
        return replace(settled, erased=erased)

    def note(self, workspace: str, kind: str, body: JsonObject) -> None:
        """Write one record."""
        self._write(Entry(records=[self._record(workspace, kind, body)]))

    def _end(self, row: RunRow, kind: str) -> list[ExpiredQuestion]:
        """End a run; returns the questions that end with it."""
        self._writer.remember(facts_of(row))
        for fold in self._recovery.folds(row):
            self._write(fold)
        lost = self._recovery.lost_entry(row, "host.lost")
        epoch, asked = epoch_after(row.epoch, self._clock.now_ms()), self._open_questions(row.run_id)
        records = [replace(_with_reason(record, kind), epoch=epoch) for record in lost.records]
        self._write(replace(lost, records=records, lease=None))
        return [
            ExpiredQuestion(question_id=each.question_id, run_id=row.run_id, question=each.question) for each in asked
        ]

    def _open_questions(self, run_id: str) -> list[_RequestData]:
        """The open questions of a run, from its records: a question has no row."""
        asked: dict[str, _RequestData] = {}
        after = 0
        while records := self._store.records_of_run(run_id, after, REPLAY_PAGE):
            after = records[-1].seq or 0
            for record in records:
                if not record.type.startswith("question.") or record.data is None:
                    continue
                found = _asked_in(record.data)
                asked.pop(found.question_id, None)
                if record.type == "question.asked":
                    asked[found.question_id] = found
        return [*asked.values()]

    def _open_approvals(self) -> Iterator[ApprovalRow]:
        """Expire undecided approvals, and granted ones that were not used."""
        after = ""
        while rows := self._store.open_approvals(after, REPLAY_PAGE):
            after = rows[-1].approval_id
            yield from rows

    def _pending(self) -> Iterator[EventRow]:
        after = 0
        while rows := self._store.pending_events(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].record_id

    def _undelivered(self) -> Iterator[OutboxRow]:
        """End open deliveries, including those of the runs that just ended."""
        after = 0
        while rows := self._store.outbox_open(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].record_id

    def _kept(self, kind: str, only: str | None) -> list[KeptRow]:
        return self._store.all_kept(kind, only, 0)

    def _forget(self) -> int:
        rows = self._kept(SESSION, None)
        if rows:
            self._write(Entry(keeps=[DropKept(row.kind, row.workspace, row.id) for row in rows]))
        return len(rows)

    def _record(self, workspace: str, kind: str, body: JsonObject) -> NewRecord:
        return NewRecord(workspace=workspace, type=kind, data=encode_data(body), created_ms=self._clock.now_ms())

    def _write(self, entry: Entry) -> None:
        (outcome,) = self._writer.turn([entry])
        if isinstance(outcome, HostError):
            raise outcome


def _with_reason(record: NewRecord, reason: str) -> NewRecord:
    """The end of a question has the reason of the settlement."""
    if record.type != "question.expired":
        return record
    return replace(record, data=encode_data({**msgspec.json.decode(record.data), "reason": reason}))


def _asked_in(data: bytes) -> _RequestData:
    """An unreadable record must not prevent the settlement of the rest."""
    try:
        return _read_asked(data)
    except msgspec.MsgspecError:
        return _RequestData()


def _expired(row: ApprovalRow) -> ExpiredApproval:
    return ExpiredApproval(
        approval_id=row.approval_id,
        run_id=row.run_id,
        name=_asked_in(row.body).name,
        status=cast("Literal['requested', 'granted']", row.status),
    )
