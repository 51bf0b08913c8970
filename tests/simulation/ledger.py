"""Invariants of a store in which every run has been recovered. Reports problems as sentences; changes nothing.

Used by the simulator on a store in memory and by the chaos tests on the files of a killed host.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import merge

from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.chain import chained, signed_head
from bollard.host.log.records import data_of
from bollard.host.runs.hub import StreamRecord, delta_records_from_row, stream_record_from_row
from bollard.host.store.rows import HeadRow, RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import TERMINAL_STATUSES
from bollard.trust import BadSignature, ChainedRecord, verify_chain, verify_head
from bollard.trust.keys import VerifyKey


def all_records(store: Store) -> Iterator[RecordRow]:
    """The whole log, in order."""
    after = 0
    while rows := store.records(after, REPLAY_PAGE):
        yield from rows
        after = rows[-1].id


def ledger_of(store: Store, run_id: str) -> list[StreamRecord]:
    """All records and deltas of a run as a reader must get them."""
    rows: list[RecordRow] = []
    while page := store.records_of_run(run_id, rows[-1].seq or 0 if rows else 0, REPLAY_PAGE):
        rows.extend(page)
    records = [stream_record_from_row(row) for row in rows]
    deltas = [record for row in store.deltas_of_run(run_id, 0) for record in delta_records_from_row(row, 0)]
    return list(merge(records, deltas, key=lambda record: record.seq))


def run_problems(store: Store, *, ages: bool = False) -> list[str]:
    """Each run has one end, which is its last record, and numbers without hole or duplicate; unless it `ages`, then
    deltas may be missing."""
    rows: dict[str, list[RecordRow]] = defaultdict(list)
    for row in all_records(store):
        if row.run_id is not None:
            rows[row.run_id].append(row)
    problems: list[str] = []
    for run_id, records in rows.items():
        problems.extend(f"{run_id}: {problem}" for problem in _problems_of(store, store.run(run_id), records, ages))
    return problems


def _problems_of(store: Store, run: RunRow | None, records: Sequence[RecordRow], ages: bool) -> Iterator[str]:
    if run is None:
        yield "it has records and no row"
        return
    ledger = ledger_of(store, run.run_id)
    numbers = [record.seq for record in ledger]
    wanted = sorted(set(numbers)) if ages else list(range(1, len(numbers) + 1))
    if numbers != wanted:
        yield f"its numbers are not 1 to n: {numbers}"
    epochs = [record.epoch for record in ledger]
    if epochs != sorted(epochs):
        yield f"an old owner wrote after a new one: {epochs}"
    if run.status not in TERMINAL_STATUSES:
        yield f"it is {run.status} and nobody owns it"
        return
    ends = [row for row in records if row.type == "run.ended"]
    if len(ends) != 1 or ledger[-1].type != "run.ended":
        yield f"it has {len(ends)} ends and its last record is {ledger[-1].type}"
        return
    told = data_of(ends[0])
    if (told.get("status"), told.get("code")) != (run.status, run.reason):
        yield f"its row says {run.status} ({run.reason}), its last record says {told}"
    if run.last_seq != numbers[-1] or run.epoch != epochs[-1]:
        yield f"its row stands at {run.epoch}.{run.last_seq}, its ledger at {epochs[-1]}.{numbers[-1]}"


def chain_problems(store: Store, key: VerifyKey) -> list[str]:
    """Every chain verifies from its beginning, against every signed head of it."""
    chains: dict[tuple[str, str], list[ChainedRecord]] = defaultdict(list)
    for row in all_records(store):
        chains[row.workspace, row.chain].append(chained(row))
    heads: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    problems: list[str] = []
    for workspace in {workspace for workspace, _ in chains}:
        for row in store.heads(workspace):
            heads[workspace, row.chain][row.position] = row.hash
            problems.extend(_head_problems(row, key))
    for (workspace, chain), records in chains.items():
        fault = verify_chain(workspace, chain, records, heads=heads[workspace, chain]).fault
        if fault is not None:
            problems.append(f"chain {chain} is {fault.kind} at {fault.position}: {fault.detail}")
    return problems


def _head_problems(row: HeadRow, key: VerifyKey) -> Iterator[str]:
    try:
        verify_head(signed_head(row), key)
    except BadSignature:
        yield f"the head of {row.chain} at {row.position} is not signed by this host"
