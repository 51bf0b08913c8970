"""The rebuild of all projections from the log. The result equals the projections that the journal wrote.

No record holds the end of a renewed lease. Only unfinished runs have one, so the rebuild carries these times over from
the rows it replaces. Expired rows are not restored. The `kept` rows are no projection, and stay as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bollard.host.errors import LogBroken, StorageUnavailable, StoreMismatch
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.chain import chained
from bollard.host.log.projection import UNPROJECTABLE, Projector
from bollard.host.log.tail import check_tail
from bollard.host.store.rows import POLICY_KINDS, PolicyKind, PolicyRow, PutPolicy, RecordRow
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction
from bollard.trust import HeadSigner, sha256_of, verify_chain

_PAGE = 2000
"""Records that are read and projected at once."""
_Lease = tuple[str, int]
"""The owner and the end."""


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rebuild."""

    records: int
    skipped: int
    """Records whose data was edited and can no longer be read."""


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
    """Project the next records of a log. Returns how many were skipped because their data was edited and cannot be
    read."""
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
    return isinstance(data, bytes) and sha256_of(data) == row.data_sha256  # SQLite columns accept any type


def _leases(store: Store) -> dict[_Lease, list[str]]:
    """The runs of each lease."""
    leases: dict[_Lease, list[str]] = defaultdict(list)
    after = ""
    while rows := store.unfinished_runs(after, REPLAY_PAGE):
        for row in rows:
            if row.owner is not None and row.lease_until_ms is not None:
                leases[row.owner, row.lease_until_ms].append(row.run_id)
        after = rows[-1].run_id
    return leases


# --- saved resources at the start: the row of each resource is compared with its newest record ---

UNSETTLED: Final = "unsettled"
"""The key in `meta` that names a restored copy whose unfinished work is not settled yet. It is written with the rows of
the copy, and emptied once the copy is settled."""
_Resource = tuple[PolicyKind, str, str]
_RESOURCE_END: Final = b'","action":"'
"""The bytes after the name of the resource in the data of a record."""
_REBUILD: Final = "keep a copy; `bollard log rebuild` restores the row from the log"


def check_settled(store: Store) -> None:
    """Raises `StorageUnavailable` if a restore or an import was interrupted: its open approvals could act twice."""
    if copy := store.meta(UNSETTLED):
        raise StorageUnavailable(
            f"{copy} was interrupted before it was complete",
            reason="copy_incomplete",
            hint="repeat the import of the same file; a restore needs an empty database again",
            copy=copy,
        )


def check_saved(store: Store, key: HeadSigner, accepted: str = "") -> None:
    """Compare the row of each saved resource with its newest record. The cost grows with the number of resources, not
    with the log.

    Raises `StoreMismatch` if a row differs from its record, and `LogBroken` if that record or the end of the log was
    changed. `accepted` is the setting `broken_log`: a record of this name is used as it is.
    """
    saved = _saved_by_records(store, accepted)
    try:
        _compare(store, saved)
    except StoreMismatch:
        check_tail(store, key, accepted, store.now_ms())  # a broken log is the more important error
        raise


def _saved_by_records(store: Store, accepted: str) -> dict[_Resource, PolicyRow]:
    """The content of each resource in its newest record."""
    saved: dict[_Resource, PolicyRow] = {}
    projector = Projector()
    for record, hash_before in store.newest_saved():
        fault, name = _fault_of(record, hash_before), f"{record.chain}:{record.position}"
        if fault is not None and name != accepted and _names_resource(record.data):
            raise LogBroken(
                f"record {record.position} of chain {record.chain} holds a saved resource and was changed: {fault[1]}",
                reason="saved_record_changed",
                hint="keep a copy, run `bollard audit verify`, and restore a backup; or set broken_log to "
                f"{name} to accept the record, and save the resource again",
                name=name,
                chain=record.chain,
                position=record.position,
                problem=fault[1],
                problem_type=f"log.{fault[0]}",
            )
        try:
            changes = projector.feed(record)
        except UNPROJECTABLE:
            if fault is None:
                raise
            continue  # its content is lost, so its row has no record
        for change in changes:
            if isinstance(change, PutPolicy):
                saved[change.kind, change.row.workspace, change.row.id] = change.row
    return saved


def _compare(store: Store, saved: dict[_Resource, PolicyRow]) -> None:
    for kind in POLICY_KINDS:
        for row in store.policies_everywhere(kind):
            if saved.pop((kind, row.workspace, row.id), None) != row:
                message = f"the saved {kind} {row.id} of workspace {row.workspace} differs from the log"
                raise StoreMismatch(
                    message, reason="row_differs", hint=_REBUILD, kind=kind, id=row.id, workspace=row.workspace
                )
    for kind, workspace, resource_id in saved:
        message = f"the saved {kind} {resource_id} of workspace {workspace} is in the log, but its row is missing"
        raise StoreMismatch(
            message, reason="row_missing", hint=_REBUILD, kind=kind, id=resource_id, workspace=workspace
        )


def _names_resource(data: object) -> bool:
    """Whether edited data still names a resource. SQLite columns accept any type, and text can be read."""
    return _RESOURCE_END in data if isinstance(data, bytes) else data is not None


def _fault_of(record: RecordRow, hash_before: str | None) -> tuple[str, str] | None:
    """The kind and the sentence of the fault of one record, or of its link to the record before it."""
    try:
        report = verify_chain(
            record.workspace,
            record.chain,
            [chained(record)],
            after_position=record.position - 1,
            after_hash=hash_before,
        )
    except (TypeError, ValueError):  # a column of a type that no host writes
        return "unreadable", "it cannot be read"
    return None if report.fault is None else (report.fault.kind, report.fault.detail)
