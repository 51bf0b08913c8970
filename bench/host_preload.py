"""Fills a store with runs that have ended, as a host would have left them: records, chain, projections and deltas.

It goes through the host's own chaining, projection and store, in large commits, and starts no host.
"""

from collections.abc import Sequence
from pathlib import Path

from bollard.host.clock import SystemClock
from bollard.host.log.chain import Chains
from bollard.host.log.projection import Projector
from bollard.host.log.records import NewRecord, RunFacts, encode_data
from bollard.host.runs.event import NewEvent
from bollard.host.runs.ids import IdMaker
from bollard.host.scope import Scope
from bollard.host.store.delta_spans import pack
from bollard.host.store.rows import Change, DeltaRow
from bollard.host.store.selection import choose_store
from bollard.host.store.store import Store
from bollard.trust import canonical_json, sha256_of
from bollard.trust.keys import load_or_make_signing_key

__all__ = ["RECORDS_PER_RUN", "preload"]

RECORDS_PER_RUN = 7
RUNS_PER_COMMIT = 2_000
RUNS_PER_CONVERSATION = 20
RUN_TAKES_MS = 10
DELTA = b'{"chunk":{"role":"assistant","content":"tok-%06d "}}'


class _Past:
    """Makes one run after the other, in a past that ends now."""

    def __init__(self, runs: int) -> None:
        self._ids = IdMaker()
        self._now_ms = SystemClock().now_ms() - runs * RUN_TAKES_MS
        self._count = 0

    def next(self) -> tuple[list[NewRecord], DeltaRow]:
        self._now_ms += RUN_TAKES_MS
        stamp = self._ids.next(self._now_ms)
        conversation = f"past-{self._count // RUNS_PER_CONVERSATION}"
        self._count += 1
        event = NewEvent(
            source="api",
            source_id=stamp,
            event_type="message.received",
            text=f"question {self._count} about something",
            scope=Scope(workspace="default", conversation=conversation),
            data={"deltas": 10},
        )
        grant = canonical_json({"run_id": f"run_{stamp}", "apis": ["host.info"], "limits": {"deadline_s": 300}})
        facts = RunFacts(
            run_id=f"run_{stamp}",
            workspace="default",
            event_id=f"evt_{stamp}",
            agent_id="benchecho",
            binding_id="direct:benchecho",
            runner_id="plugin:local/benchecho/default",
            grant_sha256=sha256_of(grant),
            conversation=conversation,
            on_message=True,
        )
        message = {"message": {"role": "assistant", "content": f"FINAL-ANSWER {self._count}"}}
        bodies = [
            ("run.created", encode_data(facts), 1),
            ("grant.issued", grant, 2),
            ("run.started", b"{}", 3),
            ("message.completed", encode_data(message), 14),
            ("run.completed", encode_data({"finish_reason": "end"}), 15),
            ("run.ended", encode_data({"status": "completed"}), 16),
        ]
        received = NewRecord(
            workspace="default",
            type="event.received",
            data=event.record(facts.event_id, facts.run_id),
            created_ms=self._now_ms,
        )
        return [received, *(self._record(facts.run_id, *body) for body in bodies)], self._deltas(facts.run_id)

    def _record(self, run_id: str, kind: str, data: bytes, seq: int) -> NewRecord:
        return NewRecord(
            workspace="default", type=kind, data=data, created_ms=self._now_ms, run_id=run_id, seq=seq, epoch=1
        )

    def _deltas(self, run_id: str) -> DeltaRow:
        payloads = [DELTA % index for index in range(10)]
        return DeltaRow(
            run_id=run_id,
            epoch=1,
            first_seq=4,
            last_seq=13,
            created_ms=self._now_ms,
            spans=pack((4 + index, len(payload)) for index, payload in enumerate(payloads)),
            body=b"".join(payloads),
        )


def preload(data: Path, runs: int, database: str = "") -> None:
    """Add so many ended runs to the store in this data directory, or database. No host may use it meanwhile."""
    data.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    key = load_or_make_signing_key(data / "keys" / "heads.ed25519")
    chains = Chains(f"bench{clock.now_ms():011x}", key, clock, every_records=1_000, every_s=60)
    store = choose_store(database, data, clock)
    store.open()
    try:
        past = _Past(runs)
        for start in range(0, runs, RUNS_PER_COMMIT):
            made = [past.next() for _ in range(min(RUNS_PER_COMMIT, runs - start))]
            records = [record for some, _ in made for record in some]
            _write(store, chains, records, [row for _, row in made], last=start + len(made) == runs)
    finally:
        store.close()


def _write(
    store: Store, chains: Chains, records: Sequence[NewRecord], deltas: Sequence[DeltaRow], *, last: bool
) -> None:
    projector = Projector()
    with store.write() as transaction:
        rows = chains.chain(records, transaction.next_record_ids(len(records)))
        changes: list[Change] = [change for row in rows for change in projector.feed(row)]
        transaction.add_records(rows)
        transaction.add_deltas(deltas)
        transaction.apply(changes)
        for head in chains.due_heads(closing=last):
            transaction.add_head(head)
