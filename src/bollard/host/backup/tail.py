"""The end of a log, looked at without reading the rest: when it was written last, and whether its newest links hold."""

from dataclasses import dataclass
from typing import Final

from bollard.host.backup.boundary import Snapshot
from bollard.host.log.chaining import chained, signed_head
from bollard.host.store.row_reading import read_heads, read_records
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust import BadSignature, VerifyKey, sha256_of, verify_chain, verify_head

__all__ = ["Tail", "look_at_tail"]

_RECORDS: Final = 1000
"""Records at the end of the log that are looked at: as many as lie between two signed heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The newest records of the newest chain."""

    records: int
    newest_ms: int | None
    """When the newest record was made; nothing where there is none."""
    fault: str | None
    """The first thing that is wrong with them."""


def look_at_tail(snapshot: Snapshot, keys: dict[str, str]) -> Tail:
    """`keys` are public keys by id, in hex: a head that one of them signed is checked against it."""
    tables = {table.name: table for table in snapshot.tables()}
    rows = read_records([tuple(row) for row in snapshot.newest(tables["records"], _RECORDS)])
    if not rows:
        return Tail(records=0, newest_ms=None, fault=None)
    last = rows[-1]
    chain = [row for row in rows if (row.workspace, row.chain) == (last.workspace, last.chain)]
    heads = [
        head
        for head in read_heads([tuple(row) for row in snapshot.rows(tables["heads"], last.workspace)])
        if head.chain == last.chain and chain[0].position <= head.position
    ]
    newest_ms = max(row.created_ms for row in rows)
    try:
        fault = _fault(chain, heads, keys)
    except (TypeError, ValueError) as error:  # a value of another type than any host writes
        fault = f"a row of chain {last.chain} cannot be read: {error}"
    return Tail(records=len(chain), newest_ms=newest_ms, fault=fault)


def _fault(chain: list[RecordRow], heads: list[HeadRow], keys: dict[str, str]) -> str | None:
    first, *rest = chain
    if first.data is not None and sha256_of(first.data) != first.data_sha256:
        return f"record {first.position} of chain {first.chain}: its data was changed"
    wanted = {head.position: head.hash for head in heads}
    if wanted.pop(first.position, first.hash) != first.hash:
        return f"record {first.position} of chain {first.chain}: a signed head names another hash"
    report = verify_chain(
        first.workspace,
        first.chain,
        map(chained, rest),
        after_position=first.position,
        after_hash=first.hash,
        heads=wanted,
    )
    if report.fault is not None:
        return f"record {report.fault.position} of chain {first.chain}: {report.fault.detail}"
    for head in heads:
        if head.key_id in keys and not _is_signed(head, keys[head.key_id]):
            return f"the head of chain {head.chain} at {head.position} is not signed by key {head.key_id}"
    return None


def _is_signed(row: HeadRow, key: str) -> bool:
    try:
        verify_head(signed_head(row), VerifyKey(bytes.fromhex(key)))
    except (BadSignature, ValueError):
        return False
    return True
