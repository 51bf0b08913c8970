"""The check of the newest part of the log before a host appends to it.

A start verifies a bounded number of records. `bollard audit verify` verifies all of them.
"""

from collections.abc import Mapping, Sequence

import msgspec

from bollard.host.errors import LogBroken
from bollard.host.limits import TAIL_BYTES, TAIL_CHAINS, TAIL_PAGE, TAIL_RECORDS
from bollard.host.log.chain import chained, signed_head
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.queries import EVER_MS
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.trust import BadSignature, Fault, HeadSigner, HeadVerifier, sha256_of, verify_chain, verify_head


class BrokenTail(msgspec.Struct, frozen=True, kw_only=True):
    """The first fault in the newest chains, and its position."""

    workspace: str
    chain: str
    position: int
    kind: str
    detail: str

    @property
    def name(self) -> str:
        """The value for the setting `broken_log` with which an operator accepts the fault."""
        return f"{self.chain}:{self.position}"


def check_tail(store: Store, key: HeadSigner, accepted: str, now_ms: int) -> Entry | None:
    """Verify the end of the log. Raises `LogBroken` for a fault, unless its name is `accepted`: then returns the entry
    that documents the gap."""
    tail = broken_tail(store, {key.verify_key.key_id: key.verify_key})
    if tail is None:
        return None
    if tail.name != accepted:
        raise LogBroken(
            f"record {tail.position} of chain {tail.chain} was changed or lost: {tail.detail}",
            reason="tail_changed",
            hint="keep a copy, run `bollard audit verify`, and restore a backup; or set broken_log to "
            f"{tail.name} to continue after it",
            name=tail.name,
            chain=tail.chain,
            position=tail.position,
            problem=tail.detail,
            problem_type=f"log.{tail.kind}",
        )
    data = encode_data({"reason": "broken_log", "chain": tail.chain, "position": tail.position, "detail": tail.detail})
    return Entry(records=[NewRecord(workspace=tail.workspace, type="audit.gap", data=data, created_ms=now_ms)])


def broken_tail(store: Store, keys: Mapping[str, HeadVerifier]) -> BrokenTail | None:
    """The first fault in the chains of the newest incarnation. Raises `HostError`.

    Chains of earlier incarnations were checked at earlier starts, and an operator may have accepted their faults.
    """
    heads = [head for head in store.newest_heads(None, EVER_MS, TAIL_CHAINS) if head.key_id in keys]
    try:
        rows = _newest(store)
        newest = {rows[-1].chain} if rows else set[str]()
        newest |= {heads[0].chain} if heads else set()
        return _first_fault(store, newest, rows, heads, keys)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        detail = f"a row cannot be read: {error}"
        return BrokenTail(workspace="default", chain="unreadable", position=0, kind="unreadable", detail=detail)


def _first_fault(
    store: Store, newest: set[str], rows: list[RecordRow], heads: list[HeadRow], keys: Mapping[str, HeadVerifier]
) -> BrokenTail | None:
    chains: dict[tuple[str, str], list[RecordRow]] = {}
    for row in rows:
        if row.chain in newest:
            chains.setdefault((row.workspace, row.chain), []).append(row)
    for head in heads:
        place = head.workspace, head.chain
        if head.chain not in newest or (place in chains and head.position >= chains[place][0].position):
            continue
        named = store.chain(*place, head.position - 1, 1)  # it lies before the records that were read
        if not named or (named[0].position, named[0].hash) != (head.position, head.hash):
            detail = f"a signed head names record {head.position}, which is missing or has another hash"
            return BrokenTail(
                workspace=place[0], chain=place[1], position=head.position, kind="truncated", detail=detail
            )
    for (workspace, chain), group in chains.items():
        own = [head for head in heads if (head.workspace, head.chain) == (workspace, chain)]
        if (fault := chain_fault(group, own, keys)) is not None:
            place = {"workspace": workspace, "chain": chain}
            return BrokenTail(**place, position=fault.position, kind=fault.kind, detail=fault.detail)
    return None


def _newest(store: Store) -> list[RecordRow]:
    """The newest records in order, bounded in number and bytes."""
    rows: list[RecordRow] = []
    upto, size = store.last_record(), 0
    while upto > 0 and len(rows) < TAIL_RECORDS and size < TAIL_BYTES:
        after = max(0, upto - TAIL_PAGE)
        page = [row for row in store.records(after, TAIL_PAGE) if row.id <= upto]
        rows[:0] = page
        upto, size = after, size + sum(len(row.data or b"") for row in page)
    return rows


def chain_fault(rows: Sequence[RecordRow], heads: Sequence[HeadRow], keys: Mapping[str, HeadVerifier]) -> Fault | None:
    """The first fault in consecutive records of one chain, or in its heads. Pure.

    The link of the first record to the records before it is not checked.
    """
    first, *rest = rows
    if first.data is not None and sha256_of(first.data) != first.data_sha256:
        return Fault(kind="data_edited", chain=first.chain, position=first.position, detail="its data was changed")
    expected = {head.position: head.hash for head in heads if head.position >= first.position}
    if expected.pop(first.position, first.hash) != first.hash:
        detail = "a signed head names another hash"
        return Fault(kind="head_mismatch", chain=first.chain, position=first.position, detail=detail)
    report = verify_chain(
        first.workspace,
        first.chain,
        map(chained, rest),
        after_position=first.position,
        after_hash=first.hash,
        heads=expected,
    )
    if report.fault is not None:
        return report.fault
    for head in heads:
        if head.key_id in keys and not _is_signed(head, keys[head.key_id]):
            detail = f"its head is not signed by key {head.key_id}"
            return Fault(kind="head_mismatch", chain=head.chain, position=head.position, detail=detail)
    return None


def _is_signed(row: HeadRow, key: HeadVerifier) -> bool:
    try:
        verify_head(signed_head(row), key)
    except BadSignature:
        return False
    return True
