"""The verification of an archive: every digest, every link of every chain, every signed head, every content; and the
trust in its signer.

Raises `BadArchive`; writes nothing. A backup is verified before it gets its name, and again before it is restored.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import msgspec

from bollard.host.archive.manifest import Manifest
from bollard.host.archive.reader import ArchiveReader
from bollard.host.backup.archived_files import HEADS_KEY, head_key
from bollard.host.backup.content_references import ContentReferences
from bollard.host.backup.tables import Row, row_decoder
from bollard.host.errors import BadArchive, StorageUnavailable, caused_by
from bollard.host.log.chain import chained, signed_head
from bollard.host.store.database import build_rows
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust import BadSignature, genesis, verify_chain, verify_head
from bollard.trust.keys import VerifyKey

Progress = Callable[[str, int, int], None]
"""Called with the stage, the progress and the total."""

_AT_ONCE: Final = 1000
_Chain = tuple[str, str]


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a verified archive."""

    records: int
    dropped: int
    """Records without data: retention dropped it, or the export withheld it."""
    chains: int
    heads: int
    unknown_heads: int
    """Heads signed by a key whose public half is not in the archive."""
    blobs: int
    missing: tuple[str, ...] = ()
    """Contents that the log names and the archive lacks."""


@dataclass(slots=True)
class _Walk:
    """The state of the verification: the tip of each chain, and the signed heads that are not reached yet."""

    wanted: dict[_Chain, dict[int, str]]
    tips: dict[_Chain, tuple[int, str]] = field(default_factory=dict[_Chain, tuple[int, str]])
    records: int = 0
    dropped: int = 0
    references: ContentReferences = field(default_factory=ContentReferences)


def no_progress(stage: str, done: int, total: int) -> None:
    """A progress callback without effect."""


def verify(reader: ArchiveReader, progress: Progress = no_progress, *, incomplete: bool = False) -> Verified:
    """Verify the whole archive. Memory grows with the number of chains, heads and contents, not of records. With
    `incomplete`, missing contents are only reported."""
    manifest = reader.manifest
    heads = list(_heads(reader))
    unknown = sum(not _is_signed(head, manifest) for head in heads)
    walk = _Walk(_by_chain(heads))
    total = sum(member.lines for member in manifest.members.values())
    done = 0
    for table in manifest.tables:
        for page in _pages(read_rows(reader, table.name)):
            if table.name == "records":
                _follow(build_rows(RecordRow, [tuple(row) for row in page]), walk)
            done += len(page)
            progress("rows", done, total)
    _check_ends(walk)
    missing = _missing(walk.references, reader, incomplete=incomplete)
    _read_the_rest(reader, progress)
    return Verified(
        records=walk.records,
        dropped=walk.dropped,
        chains=len(walk.tips),
        heads=len(heads),
        unknown_heads=unknown,
        blobs=len(reader.blobs),
        missing=missing,
    )


def read_rows(reader: ArchiveReader, table: str) -> Iterator[Row]:
    """The rows of a table in the archive; none if it has no such table."""
    found = reader.manifest.table(table)
    if found is None:
        return
    decode = row_decoder(found).decode
    try:
        for line in reader.lines(found.member):
            yield decode(line)
    except msgspec.MsgspecError as error:
        raise BadArchive(
            f"a row of {table} cannot be read: {error}",
            reason="row_unreadable",
            hint="use another copy of the archive",
            table=table,
            **caused_by(error),
        ) from error


def _heads(reader: ArchiveReader) -> Iterator[HeadRow]:
    for page in _pages(read_rows(reader, "heads")):
        yield from build_rows(HeadRow, [tuple(row) for row in page])


def _by_chain(heads: list[HeadRow]) -> dict[_Chain, dict[int, str]]:
    wanted: dict[_Chain, dict[int, str]] = defaultdict(dict)
    for head in heads:
        wanted[head.workspace, head.chain][head.position] = head.hash
    return wanted


def _is_signed(row: HeadRow, manifest: Manifest) -> bool:
    """Whether a key in the archive signed the head. Raises `BadArchive` for a wrong signature."""
    known = manifest.public_keys.get(row.key_id)
    if known is None:
        return False
    try:
        verify_head(signed_head(row), VerifyKey(bytes.fromhex(known)))
    except (BadSignature, ValueError) as error:
        raise _broken(row.chain, row.position, "head_signature", "its signed head is not signed by that key") from error
    return True


def _follow(rows: list[RecordRow], walk: _Walk) -> None:
    for (workspace, chain), group in groupby(rows, key=lambda row: (row.workspace, row.chain)):
        records = list(group)
        position, hash_ = walk.tips.get((workspace, chain), (0, genesis(workspace, chain)))
        wanted = walk.wanted.get((workspace, chain), {})
        here = {at: wanted.pop(at) for at in range(position + 1, position + len(records) + 1) if at in wanted}
        report = verify_chain(
            workspace, chain, map(chained, records), after_position=position, after_hash=hash_, heads=here
        )
        if report.fault is not None:
            raise _broken(chain, report.fault.position, report.fault.kind, report.fault.detail)
        walk.tips[workspace, chain] = (report.position, report.hash)
        walk.records += report.records
        walk.dropped += report.data_dropped
    with _suspicion():
        walk.references.feed(rows)


def _check_ends(walk: _Walk) -> None:
    for (_, chain), left in walk.wanted.items():
        if left:
            raise _broken(chain, max(left), "missing", "a signed head names a missing record")


def _missing(references: ContentReferences, reader: ArchiveReader, *, incomplete: bool) -> tuple[str, ...]:
    """The contents that the log names and the archive lacks. Raises `BadArchive` for one that the manifest does not
    list, unless `incomplete`."""
    manifest = reader.manifest
    with _suspicion():
        files = references.skill_files()
    members = {note.path: manifest.members[note.member].sha256 for note in manifest.files}
    blobs = references.blobs(manifest.created_ms)
    there = set(reader.blobs)
    lost = {sha256: label for sha256, label in blobs.items() if sha256 not in there}
    lost |= {file.sha256: label for file, label in files.items() if members.get(file.path) != file.sha256}
    unsaid = sorted(lost.keys() - set(manifest.missing))
    if unsaid and not incomplete:
        content = unsaid[0]
        raise BadArchive(
            f"the content {content} ({lost[content]}) is not in the archive",
            reason="content_missing",
            hint="use another copy of the archive, or continue without its missing contents: --incomplete",
            content=content,
            named_by=lost[content],
            contents=len(unsaid),
        )
    return tuple(sorted(lost))


def _read_the_rest(reader: ArchiveReader, progress: Progress) -> None:
    """Read everything except rows, to check the digests."""
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


@contextmanager
def _suspicion() -> Generator[None]:
    """Report records that no host wrote as a forged archive."""
    try:
        yield
    except StorageUnavailable as error:
        raise BadArchive(
            error.message,
            reason="record_unreadable",
            hint="nothing was written; do not trust the archive",
            **caused_by(error),
        ) from error


def _broken(chain: str, position: int, kind: str, detail: str) -> BadArchive:
    return BadArchive(
        f"the chain {chain} is broken at {position}: {detail}",
        reason="chain_broken",
        hint="nothing was written; use another copy of the archive",
        position=position,
        chain=chain,
        problem=detail,
        problem_type=f"log.{kind}",
    )


# --- trust ---

Distrust = Literal["unsigned", "unknown_signer"]
"""Why an archive is not trusted."""


class ArchiveTrust(msgspec.Struct, frozen=True, kw_only=True):
    """The keys whose archives are trusted. By default there is none."""

    fingerprints: frozenset[str] = frozenset()
    unsigned: bool = False
    """Whether an archive without a signature is trusted: versions before format 2 wrote such archives."""

    def objection(self, reader: ArchiveReader) -> Distrust | None:
        """Why the archive is not trusted, if so."""
        if reader.signer is None:
            return None if self.unsigned else "unsigned"
        return None if reader.signer.fingerprint in self.fingerprints else "unknown_signer"

    def check(self, reader: ArchiveReader) -> None:
        """Raises `BadArchive` for an archive that is not trusted."""
        match self.objection(reader):
            case None:
                return
            case "unsigned":
                raise BadArchive(
                    "the archive is not signed, so its author is unknown",
                    reason="unsigned",
                    hint="restore it with --unsigned if you know where it comes from",
                    distrust="unsigned",
                )
            case "unknown_signer":
                fingerprint = "" if reader.signer is None else reader.signer.fingerprint
                raise BadArchive(
                    f"the archive is signed by a key that is not known here: {fingerprint}",
                    reason="unknown_signer",
                    hint=f"compare it with the fingerprint that the backup printed, then add --trust {fingerprint}",
                    distrust="unknown_signer",
                    fingerprint=fingerprint,
                )


def own_fingerprints(folders: Iterable[Path]) -> frozenset[str]:
    """The fingerprints of the readable head keys of these data directories.

    Public halves in `keys/heads.*.pub` do not count: they come from archives, and an archive cannot vouch for the next.
    """
    readable = (folder for folder in folders if os.access(folder / "keys" / HEADS_KEY, os.R_OK))
    return frozenset(head_key(folder).verify_key.fingerprint for folder in readable)
