"""Whether an archive is what was written: every digest, every link of every chain, every signed head, every content.

Raises `BadArchive`; writes nothing. A backup is verified before it gets its name, and again before it is restored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, cast

import msgspec

from bollard.host.archive.manifest import Manifest
from bollard.host.archive.reading import ArchiveReader
from bollard.host.backup.boundary import Row, row_decoder
from bollard.host.errors import BadArchive
from bollard.host.log.chaining import chained, signed_head
from bollard.host.store.row_reading import read_heads, read_records
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust import BadSignature, genesis, verify_chain, verify_head
from bollard.trust.keys import VerifyKey

__all__ = ["REFERRING", "Progress", "Verified", "read_rows", "untold", "verify"]

Progress = Callable[[str, int, int], None]
"""Told what is being done, how far it is, and how far it goes."""

REFERRING: Final = ("artifacts", "storage")
"""Tables whose `sha256` names a content."""
_AT_ONCE: Final = 1000
_Chain = tuple[str, str]


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found sound."""

    records: int
    dropped: int
    """Records whose data retention had dropped, or that were withheld."""
    chains: int
    heads: int
    unknown_heads: int
    """Heads that were signed by a key which the archive does not have the public half of."""
    blobs: int


@dataclass(slots=True)
class _Walk:
    """How far each chain was followed."""

    wanted: dict[_Chain, dict[int, str]]
    tips: dict[_Chain, tuple[int, str]] = field(default_factory=dict[_Chain, tuple[int, str]])
    records: int = 0
    dropped: int = 0
    named: set[str] = field(default_factory=set[str])


def untold(stage: str, done: int, total: int) -> None:
    """Where nobody waits for news."""


def verify(reader: ArchiveReader, progress: Progress = untold) -> Verified:
    """All of it. What it takes of memory grows with the number of chains, heads and contents, not of records."""
    manifest = reader.manifest
    heads = list(_heads(reader))
    unknown = sum(not _is_signed(head, manifest) for head in heads)
    walk = _Walk(_by_chain(heads))
    total = sum(member.lines for member in manifest.members.values())
    done = 0
    for table in manifest.tables:
        for page in _pages(read_rows(reader, table.name)):
            if table.name == "records":
                _follow(read_records([tuple(row) for row in page]), walk)
            elif table.name in REFERRING:
                at = table.index("sha256")
                walk.named.update(cast("str", row[at]) for row in page if row[at] is not None)
            done += len(page)
            progress("rows", done, total)
    _check_ends(walk)
    if manifest.kind == "backup":
        _check_named(walk.named, reader, manifest)
    _read_the_rest(reader, progress)
    return Verified(
        records=walk.records,
        dropped=walk.dropped,
        chains=len(walk.tips),
        heads=len(heads),
        unknown_heads=unknown,
        blobs=len(reader.blobs),
    )


def read_rows(reader: ArchiveReader, table: str) -> Iterator[Row]:
    """The rows of a table in the archive; none where it has no such table."""
    found = reader.manifest.table(table)
    if found is None:
        return
    decode = row_decoder(found).decode
    try:
        for line in reader.lines(found.member):
            yield decode(line)
    except msgspec.MsgspecError as error:
        raise BadArchive(f"a row of {table} cannot be read: {error}", hint="take another copy of it") from error


def _heads(reader: ArchiveReader) -> Iterator[HeadRow]:
    for page in _pages(read_rows(reader, "heads")):
        yield from read_heads([tuple(row) for row in page])


def _by_chain(heads: list[HeadRow]) -> dict[_Chain, dict[int, str]]:
    wanted: dict[_Chain, dict[int, str]] = defaultdict(dict)
    for head in heads:
        wanted[head.workspace, head.chain][head.position] = head.hash
    return wanted


def _is_signed(row: HeadRow, manifest: Manifest) -> bool:
    """By a key that the archive names. Raises `BadArchive` where that key did not sign it."""
    known = manifest.public_keys.get(row.key_id)
    if known is None:
        return False
    try:
        verify_head(signed_head(row), VerifyKey(bytes.fromhex(known)))
    except (BadSignature, ValueError) as error:
        raise _broken(row.chain, row.position, "its signed head is not signed by that key") from error
    return True


def _follow(rows: list[RecordRow], walk: _Walk) -> None:
    for (workspace, chain), group in groupby(rows, key=lambda row: (row.workspace, row.chain)):
        records = list(group)
        position, hash_ = walk.tips.get((workspace, chain), (0, genesis(workspace, chain)))
        wanted = walk.wanted.get((workspace, chain), {})
        here = {at: wanted.pop(at) for at in range(position + 1, position + len(records) + 1) if at in wanted}
        report = verify_chain(
            workspace,
            chain,
            map(chained, records),
            after_position=position,
            after_hash=hash_,
            heads=here,
        )
        if report.fault is not None:
            raise _broken(chain, report.fault.position, report.fault.detail)
        walk.tips[workspace, chain] = (report.position, report.hash)
        walk.records += report.records
        walk.dropped += report.data_dropped


def _check_ends(walk: _Walk) -> None:
    for (_, chain), left in walk.wanted.items():
        if left:
            raise _broken(chain, max(left), "a signed head names a record that is not there")


def _check_named(named: set[str], reader: ArchiveReader, manifest: Manifest) -> None:
    if lost := sorted(named - set(reader.blobs) - set(manifest.missing)):
        message = f"the content {lost[0]} is not in the archive"
        raise BadArchive(message, hint="take another copy of it", contents=len(lost))


def _read_the_rest(reader: ArchiveReader, progress: Progress) -> None:
    """Everything that is not a row, for its digest alone."""
    tables = {table.member for table in reader.manifest.tables}
    for name in reader.manifest.members.keys() - tables:
        for _ in reader.pieces(name):
            pass
    for count, sha256 in enumerate(reader.blobs, start=1):
        for _ in reader.blob(sha256):
            pass
        progress("blobs", count, reader.manifest.blobs)


def _pages(rows: Iterator[Row]) -> Iterator[list[Row]]:
    page: list[Row] = []
    for row in rows:
        page.append(row)
        if len(page) == _AT_ONCE:
            yield page
            page = []
    if page:
        yield page


def _broken(chain: str, position: int, detail: str) -> BadArchive:
    message = f"the chain {chain} is broken at {position}: {detail}"
    return BadArchive(message, hint="nothing was written; take another copy of the archive", position=position)
