"""The end of a log, looked at without reading the rest: when it was written last, and whether its newest links hold."""

import msgspec

from bollard.host.backup.boundary import Snapshot
from bollard.host.limits import TAIL_RECORDS
from bollard.host.log.tail import chain_fault
from bollard.host.store.row_reading import read_heads, read_records
from bollard.trust.keys import VerifyKey

__all__ = ["Tail", "look_at_tail"]


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The newest records of the newest chain."""

    records: int
    newest_ms: int | None
    """When the newest record was made; nothing where there is none."""
    fault: str | None
    """The first thing that is wrong with them."""


def look_at_tail(snapshot: Snapshot, keys: dict[str, str]) -> Tail:
    """`keys` are public keys by id, in hex: a head that one of them signed is checked against it."""
    tables = {table.name: table for table in snapshot.tables()}
    rows = read_records([tuple(row) for row in snapshot.newest(tables["records"], TAIL_RECORDS)])
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
        found = chain_fault(chain, heads, {name: VerifyKey(bytes.fromhex(key)) for name, key in keys.items()})
        fault = None if found is None else f"record {found.position} of chain {last.chain}: {found.detail}"
    except (TypeError, ValueError) as error:  # a value of another type than any host writes
        fault = f"a row of chain {last.chain} cannot be read: {error}"
    return Tail(records=len(chain), newest_ms=newest_ms, fault=fault)
