"""What is done to a store that was brought back from the past, before any host may use it.

Since the copy was made, what was unfinished in it may have been finished, and its effects may have happened. So
nothing of it is done again: its runs end as lost, under an epoch that lies beyond everything that can have been since;
its waiting messages are dropped; of what was on its way to a channel it is not known whether it arrived. Who was logged
in is not any more.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import AgentBook
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.identity.sessions import SESSION
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.sinks import BlobSink
from bollard.host.log.writer import Writer
from bollard.host.recovery import Recovery, facts_of
from bollard.host.store.boundary import Store
from bollard.host.store.rows import DropKept, EventRow, OutboxRow, RunRow
from bollard.protocol import JsonObject
from bollard.trust.keys import SigningKey

__all__ = ["Settled", "Settler", "epoch_after"]

_EPOCHS_FROM_MS: Final = 1_735_689_600_000
"""The beginning of 2025. An epoch grows by one with each owner of a run; minutes since then outrun every run."""
_MINUTE_MS: Final = 60_000


def epoch_after(epoch: int, now_ms: int) -> int:
    """An epoch that no owner of the run can have had before now."""
    return max(epoch + 1, (now_ms - _EPOCHS_FROM_MS) // _MINUTE_MS)


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what was unfinished."""

    runs: int
    events: int
    deliveries: int
    """Messages that were on their way: it is not known any more whether they arrived."""
    sessions: int


class Settler:
    """Writes to a store that nobody else uses."""

    def __init__(self, store: Store, blobs: BlobSink, clock: Clock, *, incarnation: str, key: SigningKey) -> None:
        self._store = store
        self._clock = clock
        self._recovery = Recovery(store, clock, AgentBook(), incarnation)
        self._writer = Writer(store, blobs, clock, incarnation=incarnation, key=key)

    def settle(self, workspaces: list[str], kind: str, told: JsonObject, only: str | None = None) -> Settled:
        """End what is unfinished, in all workspaces or in `only` one, then say in each why; signed at the end."""
        runs = [row for row in self._recovery.unfinished() if only in (None, row.workspace)]
        for row in runs:
            self._end(row)
        events = [row for row in self._pending() if only in (None, row.workspace)]
        for row in events:
            body: JsonObject = {"event_id": row.event_id, "reason": kind}
            self._write(Entry(records=[self._record(row.workspace, "event.dropped", body)]))
        deliveries = [row for row in self._undelivered() if only in (None, row.workspace)]
        for row in deliveries:
            body = {"delivery_id": row.delivery_id, "run_id": row.run_id, "reason": kind}
            self._write(Entry(records=[self._record(row.workspace, "delivery.unknown", body)]))
        settled = Settled(
            runs=len(runs),
            events=len(events),
            deliveries=len(deliveries),
            sessions=self._forget() if only is None else 0,
        )
        body = {**told, "runs": settled.runs, "events": settled.events, "deliveries": settled.deliveries}
        for workspace in workspaces:
            self._write(Entry(records=[self._record(workspace, kind, body)]))
        self._writer.finish()
        return settled

    def note(self, workspace: str, kind: str, body: JsonObject) -> None:
        """One record that stands for itself."""
        self._write(Entry(records=[self._record(workspace, kind, body)]))

    def _end(self, row: RunRow) -> None:
        self._writer.remember(facts_of(row))
        lost = self._recovery.lost_entry(row, "host.lost")
        epoch = epoch_after(row.epoch, self._clock.now_ms())
        self._write(replace(lost, records=[replace(record, epoch=epoch) for record in lost.records], lease=None))

    def _pending(self) -> Iterator[EventRow]:
        after = 0
        while rows := self._store.pending_events(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].record_id

    def _undelivered(self) -> Iterator[OutboxRow]:
        """Also what the runs that just ended had said and not finished."""
        after = 0
        while rows := self._store.outbox_open(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].record_id

    def _forget(self) -> int:
        rows = self._store.all_kept(SESSION, None, 0)
        if rows:
            self._write(Entry(keeps=[DropKept(row.kind, row.workspace, row.id) for row in rows]))
        return len(rows)

    def _record(self, workspace: str, kind: str, body: JsonObject) -> NewRecord:
        return NewRecord(workspace=workspace, type=kind, data=encode_data(body), created_ms=self._clock.now_ms())

    def _write(self, entry: Entry) -> None:
        (fate,) = self._writer.turn([entry])
        if isinstance(fate, HostError):
            raise fate
