"""Makes every projection anew from the log. The result equals what the journal made as it wrote.

Until when a lease was renewed last is in no record. Only runs that have not ended have a lease, so these few times are
carried over from the rows that the rebuild replaces. What has expired by now does not come back. What is kept beside
the log is no projection, and stays as it is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bollard.host.errors import LogBroken, StorageUnavailable, StoreMismatch
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.chain import chained
from bollard.host.log.projection import UNPROJECTABLE, Projector
from bollard.host.log.tail import go_on_behind
from bollard.host.store.rows import POLICY_KINDS, PolicyKind, PolicyRow, PutPolicy, RecordRow
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction
from bollard.trust import HeadSigner, sha256_of, verify_chain

_PAGE = 2000
"""Records that are read and projected at once."""
_Lease = tuple[str, int]
"""Its owner, and until when."""


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What a rebuild went through."""

    records: int
    skipped: int
    """Records whose data was edited and cannot be read any more."""


def rebuild(store: Store, progress: Callable[[int], None] = lambda _: None) -> Rebuilt:
    """Replay the whole log in one commit. Nothing else may write meanwhile."""
    projector = Projector()
    count = after = skipped = 0
    now_ms = store.now_ms()
    leases = _leases(store)
    with store.write() as transaction:
        transaction.clear_projections()
        while rows := store.records(after, _PAGE):
            skipped += project(projector, rows, transaction)
            after = rows[-1].id
            count += len(rows)
            progress(count)
        for (owner, until_ms), run_ids in leases.items():
            transaction.renew_leases(owner, run_ids, until_ms)
        while transaction.drop_expired(now_ms, _PAGE) == _PAGE:
            pass
    return Rebuilt(records=count, skipped=skipped)


def project(projector: Projector, rows: Iterable[RecordRow], transaction: WriteTransaction) -> int:
    """Write what the next records of a log mean for the projections. Returns how many were skipped, because somebody
    edited their data so that it cannot be read."""
    skipped = 0
    for row in rows:
        try:
            changes = projector.feed(row)
        except UNPROJECTABLE:
            if row.data is None or _is_as_written(row):
                raise
            skipped += 1
            continue
        if changes:
            transaction.apply(changes)
        if row.type == "run.ended" and row.run_id is not None:
            projector.forget(row.run_id)
    return skipped


def _is_as_written(row: RecordRow) -> bool:
    data: object = row.data
    return isinstance(data, bytes) and sha256_of(data) == row.data_sha256  # SQLite takes values of any type


def _leases(store: Store) -> dict[_Lease, list[str]]:
    """The runs of each lease."""
    found: dict[_Lease, list[str]] = defaultdict(list)
    after = ""
    while rows := store.unfinished_runs(after, REPLAY_PAGE):
        for row in rows:
            if row.owner is not None and row.lease_until_ms is not None:
                found[row.owner, row.lease_until_ms].append(row.run_id)
        after = rows[-1].run_id
    return found


# Compares what people saved with the log: the row of each thing with the newest record about it. A start reads as many
# records as there are things; `bollard audit verify` compares every projection with the whole log.


UNSETTLED: Final = "unsettled"
"""The key in `meta` that names a copy whose rows are here and whose unfinished work is not settled yet. It is written
with those rows, and empty once the copy is settled."""
_Thing = tuple[PolicyKind, str, str]
_THING_ENDS: Final = b'","action":"'
"""Behind the name of the thing in the data of a record."""
_REBUILD: Final = "keep a copy; `bollard log rebuild` makes it again from the log"


def check_settled(store: Store) -> None:
    """Raises `StorageUnavailable` where a restore or an import was cut off: its open approvals could act twice."""
    if copy := store.meta(UNSETTLED):
        raise StorageUnavailable(
            f"{copy} was cut off before it was complete",
            hint="repeat the import of the same file; a restore needs an empty database again",
        )


def check_saved(store: Store, key: HeadSigner, accepted: str = "") -> None:
    """Raises `StoreMismatch` where a row is not what its newest record says, and `LogBroken` where that record, or the
    end of the log, is not what was written. `accepted` is the setting `broken_log`: a record of this name is taken as
    it is."""
    saved = _saved_by_records(store, accepted)
    try:
        _compare(store, saved)
    except StoreMismatch:
        go_on_behind(store, key, accepted, store.now_ms())  # a broken log is what to look at first
        raise


def _saved_by_records(store: Store, accepted: str) -> dict[_Thing, PolicyRow]:
    """What the newest record of each thing says."""
    saved: dict[_Thing, PolicyRow] = {}
    projector = Projector()
    for record, hash_before in store.newest_saved():
        fault, name = _fault_of(record, hash_before), f"{record.chain}:{record.position}"
        if fault is not None and name != accepted and _names_thing(record.data):
            raise LogBroken(
                f"record {record.position} of chain {record.chain}, which says what was saved, is not what was written:"
                f" {fault}",
                hint="keep a copy, look with `bollard audit verify`, and restore a backup; or set broken_log to "
                f"{name} to take it as it is, and save the thing again",
                name=name,
            )
        try:
            changes = projector.feed(record)
        except UNPROJECTABLE:
            if fault is None:
                raise
            continue  # what it said is lost: its row has no record any more
        for change in changes:
            if isinstance(change, PutPolicy):
                saved[change.kind, change.row.workspace, change.row.id] = change.row
    return saved


def _compare(store: Store, saved: dict[_Thing, PolicyRow]) -> None:
    for kind in POLICY_KINDS:
        for row in store.policies_everywhere(kind):
            if saved.pop((kind, row.workspace, row.id), None) != row:
                raise _mismatch((kind, row.workspace, row.id), "is not what the log says")
    for thing in saved:
        raise _mismatch(thing, "is in the log, and its row is gone")


def _names_thing(data: object) -> bool:
    """Whether data that was edited still names a thing. SQLite takes values of any type, and a text can be read."""
    return _THING_ENDS in data if isinstance(data, bytes) else data is not None


def _fault_of(record: RecordRow, hash_before: str | None) -> str | None:
    """What is wrong with one record, or with its link to the one before it."""
    try:
        report = verify_chain(
            record.workspace,
            record.chain,
            [chained(record)],
            after_position=record.position - 1,
            after_hash=hash_before,
        )
    except (TypeError, ValueError):  # a value of a type that no host writes
        return "it cannot be read"
    return None if report.fault is None else report.fault.detail


def _mismatch(thing: _Thing, problem: str) -> StoreMismatch:
    kind, workspace, thing_id = thing
    message = f"the saved {kind} {thing_id} of workspace {workspace} {problem}"
    return StoreMismatch(message, hint=_REBUILD, kind=kind, id=thing_id, workspace=workspace)
