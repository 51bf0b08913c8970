"""The import of a workspace into a store without it: its log unchanged, its projections rebuilt.

The workspace cannot be renamed, because its name is in every link of its chain. Record ids are assigned by the
importing store.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from bollard.host.agents.saved_agent import read_stored
from bollard.host.archive.manifest import FileNote, Manifest
from bollard.host.archive.reader import ArchiveReader
from bollard.host.audit.erasure_list import Erasure
from bollard.host.backup.archive_verification import ArchiveTrust, Progress, Verified, no_progress, read_rows, verify
from bollard.host.backup.archived_files import (
    check_documents,
    head_key,
    place_of,
    replace_file,
    unexpected_file,
    write_public_keys,
)
from bollard.host.backup.backup import BackupSource, readable_snapshot
from bollard.host.backup.content_references import SkillFile
from bollard.host.backup.restore import new_incarnation, put_blob
from bollard.host.backup.settlement import Settlement, SettlementWriter
from bollard.host.backup.tables import Row
from bollard.host.backup.workspace_export import LOG_TABLES
from bollard.host.clock import Clock
from bollard.host.errors import BadArchive, Conflict, HostError, SchemaTooNew, StorageUnavailable, caused_by
from bollard.host.log.outbox_projections import closed_delivery, opened_delivery, run_of
from bollard.host.log.projection import Projector
from bollard.host.log.rebuild import UNSETTLED, check_settled, project
from bollard.host.log.records import data_of
from bollard.host.log.saved_resources import SavedChange
from bollard.host.log.tail import check_tail
from bollard.host.store.blobs import BlobStore
from bollard.host.store.database import build_rows
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.rows import DeltaRow, HeadRow, RecordRow
from bollard.host.store.selection import choose_store
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction
from bollard.protocol import JsonObject

_AT_ONCE: Final = 1000
_MOST_IDS: Final = 1 << 50
"""The largest accepted record id, so that an archive cannot exhaust the ids."""
_BY: Final = "import"
"""The actor in the records of the import."""
_T = TypeVar("_T")


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    workspace: str
    created_ms: int
    verified: Verified
    settled: Settlement
    withheld: int
    agents: tuple[str, ...]
    """Agents imported without configuration fields that may be secrets."""
    missing: tuple[str, ...]
    """Contents that the log names and the archive lacks."""


def import_workspace(
    file: Path,
    source: BackupSource,
    *,
    trust: ArchiveTrust,
    clock: Clock,
    incomplete: bool = False,
    erasures: Sequence[Erasure] = (),
    progress: Progress = no_progress,
) -> ImportReport:
    """Check the signer of the archive, verify it, then write it in one commit. No host may use the store meanwhile.
    With `incomplete`, an archive with missing contents is imported too. `erasures` are applied to it again."""
    with ArchiveReader(file, "workspace") as reader:
        trust.check(reader)
        manifest = reader.manifest
        workspace = _checked(manifest)
        verified = verify(
            reader, lambda stage, done, total: progress(f"verify_{stage}", done, total), incomplete=incomplete
        )
        _check_files(reader, workspace)
        store = choose_store(source.database, source.data, clock, alone=True)
        store.open()
        try:
            check_tail(store, head_key(source.data), "", clock.now_ms())
            if store.meta(UNSETTLED) != _name_of(manifest):
                check_settled(store)  # there is one mark: the end of this import would clear that of another copy
                _check_empty(source, workspace)
            settled = _write(reader, store, source.data, workspace, clock, erasures, progress)
        finally:
            store.close()
    return ImportReport(
        workspace=workspace,
        created_ms=manifest.created_ms,
        verified=verified,
        settled=settled,
        withheld=manifest.withheld,
        agents=tuple(thing.id for thing in manifest.saved),
        missing=verified.missing,
    )


def _write(
    reader: ArchiveReader,
    store: Store,
    data: Path,
    workspace: str,
    clock: Clock,
    erasures: Sequence[Erasure],
    progress: Progress,
) -> Settlement:
    manifest, blobs = reader.manifest, BlobStore(data / "blobs")
    for count, sha256 in enumerate(reader.blobs, start=1):
        put_blob(blobs, reader, sha256)
        progress("blobs", count, manifest.blobs)
    _write_files(reader, data)
    key = head_key(data)
    _keep_public_keys(data, manifest, key.verify_key.key_id)
    if store.meta(UNSETTLED) != _name_of(manifest):  # otherwise an earlier import was interrupted after this commit
        with store.write() as transaction:
            _write_log(reader, transaction, _Border(store, workspace), progress)
            transaction.put_meta(UNSETTLED, _name_of(manifest))
    settler = SettlementWriter(store, blobs, clock, incarnation=new_incarnation(clock), key=key)
    for thing in manifest.saved:
        change = SavedChange(
            kind="agent", workspace=workspace, id=thing.id, revision=thing.revision, by=_BY, body=thing.body
        )
        settler.note(workspace, "policy.changed", change.data())
    summary: JsonObject = {"export_ms": manifest.created_ms, "version": manifest.version, "withheld": manifest.withheld}
    return settler.settle([workspace], "workspace.imported", summary, only=workspace, erasures=erasures, data=data)


def _write_files(reader: ArchiveReader, data: Path) -> None:
    """Write the files of skills and the documents. The next start indexes documents whose knowledge base exists."""
    try:
        for note in reader.manifest.files:
            replace_file(place_of(data, note.path), reader.pieces(note.member))
    except OSError as error:
        raise StorageUnavailable(
            f"{data} cannot be written: {error.strerror}",
            reason="import_not_written",
            hint="check its disk, then repeat the import",
            path=str(data),
            **caused_by(error),
        ) from error


def _name_of(manifest: Manifest) -> str:
    """A readable name that distinguishes this archive from other exports of its workspace."""
    return f"the import of workspace {manifest.workspace}, exported at {manifest.created_ms} ms"


def _checked(manifest: Manifest) -> str:
    if manifest.revision not in REVISIONS.known:
        raise SchemaTooNew(
            f"the export has revision {manifest.revision}, this version knows up to {REVISIONS.known[-1]}",
            reason="export_too_new",
            hint=f"import it with version {manifest.version}",
            stored=manifest.revision,
            known=REVISIONS.known[-1],
            version=manifest.version,
        )
    if manifest.workspace is None or {table.name for table in manifest.tables} != set(LOG_TABLES):
        raise BadArchive(
            "the archive does not hold one workspace", reason="not_one_workspace", hint="export the workspace again"
        )
    for thing in manifest.saved:
        try:
            read_stored(thing.body)
        except HostError as error:
            raise BadArchive(
                f"the agent {thing.id} in the archive cannot be read: {error.message}",
                reason="agent_unreadable",
                hint="export the workspace again",
                agent=thing.id,
                **caused_by(error),
            ) from error
    return manifest.workspace


def _check_files(reader: ArchiveReader, workspace: str) -> None:
    """Check that each file is a skill file or a document of this workspace. Raises `BadArchive`."""
    manifest = reader.manifest
    documents = [note for note in manifest.files if not _is_skill_file(note)]
    check_documents(((note.path, next(reader.pieces(note.member), b"")) for note in documents), workspace)
    for note in manifest.files:
        digest = manifest.members[note.member].sha256
        if _is_skill_file(note) and note.path != SkillFile(workspace, digest).path:
            raise unexpected_file(note.path)


def _is_skill_file(note: FileNote) -> bool:
    return note.path.startswith("skills/")


def _check_empty(source: BackupSource, workspace: str) -> None:
    """Raises `Conflict` if the workspace has records: everything in a workspace starts with a record."""
    snapshot = readable_snapshot(source)
    try:
        records = next(table for table in snapshot.tables() if table.name == "records")
        count = snapshot.count(records, workspace)
    finally:
        snapshot.close()
    if count:
        raise Conflict(
            f"the workspace {workspace} is not empty here",
            reason="workspace_not_empty",
            hint="import into a host without a workspace of this name; nothing is merged",
            records=count,
            workspace=workspace,
        )


class _Border:
    """Admits only records that belong to the workspace and name nothing of another: an archive may be forged."""

    def __init__(self, store: Store, workspace: str) -> None:
        self.workspace = workspace
        self._store = store
        self._runs: set[str] = set()

    def check(self, row: RecordRow) -> None:
        """Raises `BadArchive`, or `Conflict` for a run that exists already."""
        if row.run_id is not None and row.run_id not in self._runs:
            if self._store.run(row.run_id) is not None:
                raise Conflict(
                    f"the run {row.run_id} exists already",
                    reason="run_exists",
                    hint="import into another host; nothing is merged",
                    run_id=row.run_id,
                )
            self._runs.add(row.run_id)
        if row.data is None:
            return
        if row.type == "run.created":
            facts = data_of(row)
            if (facts.get("workspace"), facts.get("run_id")) != (self.workspace, row.run_id):
                raise _foreign("records")
        elif row.type.startswith("delivery."):
            data = data_of(row)
            named = [data.get("delivery_id"), *(name for name in (data.get("preview"),) if isinstance(name, str))]
            self._check_deliveries(named, run_of(row, data))
        elif row.type.startswith(("approval.", "question.")):
            data = data_of(row)
            if (shown := data.get("interaction")) is not None:
                name = str(shown.get("id")) if isinstance(shown, dict) else ""
                self._check_deliveries([opened_delivery(name), closed_delivery(name)], run_of(row, data))

    def _check_deliveries(self, names: Iterable[object], run_id: str) -> None:
        if not all(isinstance(name, str) and self._is_own(name, run_id) for name in names):
            raise _foreign("records")

    def _is_own(self, delivery_id: str, run_id: str) -> bool:
        """Whether a delivery is of a run of the archive, or a message of the host to the workspace. The name of an
        interaction has no run in it, so it must not be that of an interaction of another workspace."""
        if delivery_id.partition(".")[0] in self._runs or delivery_id.startswith(f"{self.workspace}/"):
            return True
        if run_id not in self._runs or "/" in delivery_id:
            return False
        known = self._store.delivery_anywhere(delivery_id)
        return known is None or known.workspace == self.workspace

    def check_delta(self, row: DeltaRow) -> None:
        if row.run_id not in self._runs:
            raise _foreign("deltas")


def _foreign(table: str) -> BadArchive:
    return BadArchive(
        f"a row of {table} belongs to another workspace",
        reason="row_foreign",
        hint="do not trust the archive",
        table=table,
    )


def _write_log(reader: ArchiveReader, transaction: WriteTransaction, border: _Border, progress: Progress) -> None:
    projector, done = Projector(), 0
    total = reader.manifest.members["tables/records.jsonl"].lines
    for page in _pages(_of_workspace(reader, "records", border.workspace), _AT_ONCE):
        rows = build_rows(RecordRow, [tuple(row) for row in page])
        for row in rows:
            border.check(row)
        transaction.skip_record_ids(_newest_id(rows))
        first = transaction.next_record_ids(len(rows))
        renumbered = [replace(row, id=first + offset) for offset, row in enumerate(rows)]
        transaction.add_records(renumbered)
        project(projector, renumbered, transaction)
        done += len(rows)
        progress("rows", done, total)
    for page in _pages(read_rows(reader, "deltas"), _AT_ONCE):
        deltas = build_rows(DeltaRow, [tuple(row) for row in page])
        for row in deltas:
            border.check_delta(row)
        transaction.add_deltas(deltas)
    for page in _pages(_of_workspace(reader, "heads", border.workspace), _AT_ONCE):
        for head in build_rows(HeadRow, [tuple(row) for row in page]):
            transaction.add_head(head)


def _newest_id(rows: list[RecordRow]) -> int:
    """The largest id of these records. New records get larger ids: state versions are ids, and must not collide with
    those of the exporting host."""
    newest = max(row.id for row in rows)
    if newest > _MOST_IDS:
        raise BadArchive(
            f"a record has the impossible id {newest}",
            reason="record_id_impossible",
            hint="do not trust the archive",
            id=newest,
        )
    return newest


def _of_workspace(reader: ArchiveReader, table: str, workspace: str) -> Iterator[Row]:
    """The rows of a table. Raises `BadArchive` for a row of another workspace."""
    at = next(each for each in reader.manifest.tables if each.name == table).index("workspace")
    for row in read_rows(reader, table):
        if row[at] != workspace:
            raise _foreign(table)
        yield row


def _keep_public_keys(data: Path, manifest: Manifest, own: str) -> None:
    there = {path.name.split(".")[1] for path in (data / "keys").glob("heads.*.pub")} | {own}
    write_public_keys(data, {key_id: key for key_id, key in manifest.public_keys.items() if key_id not in there})


def _pages(rows: Iterable[_T], size: int) -> Iterator[list[_T]]:
    waiting = iter(rows)
    while page := list(islice(waiting, size)):
        yield page
