"""Exports one workspace while its host runs: its part of the log with its chain and signed heads, its contents, the
files of its skills, and the documents of its knowledge bases.

The import rebuilds everything else from the log. Passwords, sessions and tokens are not in the log. Records about keys
and secrets are exported without their data: header and digest stay, so that the chain still verifies. An agent whose
configuration may hold a secret is exported beside the log, without those fields.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from bollard.host.archive.manifest import ArchivedResource, FileNote, Manifest, Table
from bollard.host.archive.reader import FORMAT, ArchiveReader
from bollard.host.archive.writer import ArchiveWriter
from bollard.host.backup.archive_verification import Progress, Verified, no_progress, verify
from bollard.host.backup.archived_files import copy_documents, head_key, place_of, public_keys
from bollard.host.backup.backup import (
    BackupSource,
    Missing,
    copy_blobs,
    copy_table,
    lost_contents,
    readable_snapshot,
    unchanged,
)
from bollard.host.backup.content_references import ContentReferences
from bollard.host.backup.tables import Row, Snapshot
from bollard.host.clock import Clock
from bollard.host.errors import NotFound, StorageUnavailable, caused_by
from bollard.host.secrets.references import is_chosen, is_reference, referred
from bollard.host.store.database import build_rows
from bollard.host.store.rows import RecordRow

LOG_TABLES: Final = ("records", "deltas", "heads")
WITHHELD_KINDS: Final = frozenset({"key", "mcp_server", "runtime", "secret"})
"""Saved resources whose records are withheld."""
_ALWAYS_THERE: Final = "default"
"""The workspace that exists without records."""
_decode: Final = msgspec.json.Decoder().decode


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a new archive."""

    size: int
    verified: Verified
    signed_by: str
    """The fingerprint of the key that signed it."""
    withheld: int
    agents: tuple[str, ...]
    """Agents exported without configuration fields that may be secrets."""
    plugins: tuple[str, ...]
    """Installed plugins. Their code is not exported; install them again at the destination."""
    missing: tuple[str, ...]
    """Contents that the log names and the data directory lacks; empty unless the export is `incomplete`."""


OpenFields = Callable[[str], frozenset[str]]
"""The configuration fields of a runner that are known not to be secrets."""


def _nothing_known(runner_id: str) -> frozenset[str]:
    del runner_id
    return frozenset()


@dataclass(slots=True)
class _Found:
    open_fields: OpenFields
    references: ContentReferences = field(default_factory=ContentReferences)
    agents: dict[str, ArchivedResource] = field(default_factory=dict[str, ArchivedResource])
    withheld: int = 0


def export_workspace(
    source: BackupSource,
    workspace: str,
    file: Path,
    *,
    version: str,
    clock: Clock,
    open_fields: OpenFields = _nothing_known,
    incomplete: bool = False,
    progress: Progress = no_progress,
) -> ExportReport:
    """Write the archive, verify it, then give it its name. Raises `NotFound` for a workspace without a record, and
    `StorageUnavailable` for a content that is missing, unless the export may be `incomplete`."""
    with ArchiveWriter(file) as writer:
        snapshot = readable_snapshot(source)
        try:
            moment, revision = clock.now_ms(), snapshot.revision or ""
            tables = [table for table in snapshot.tables() if table.name in LOG_TABLES]
            found = _copy_log(snapshot, tables, workspace, writer, _Found(open_fields), progress)
        finally:
            snapshot.close()
        missing = copy_blobs(writer, source, found.references.blobs(moment), progress)
        skills = tuple(_copy_skills(writer, source.data, found.references, missing))
        lost = lost_contents(source, missing, clock.now_ms(), incomplete=incomplete)
        documents = tuple(copy_documents(writer, source.documents, source.data, workspace))
        key = head_key(source.data)
        writer.finish(
            Manifest(
                kind="workspace",
                format=FORMAT,
                version=version,
                created_ms=moment,
                revision=revision,
                tables=tuple(tables),
                members=writer.members,
                blobs=writer.blobs,
                missing=tuple(sorted(missing)),
                public_keys=public_keys(source.data),
                files=(*skills, *documents),
                workspace=workspace,
                withheld=found.withheld,
                saved=tuple(found.agents.values()),
            ),
            key,
        )
        with ArchiveReader(writer.unnamed, "workspace") as reader:
            verified = verify(reader, lambda stage, done, total: progress(f"verify_{stage}", done, total))
        writer.name()
    size = file.stat().st_size
    return ExportReport(
        size=size,
        verified=verified,
        withheld=found.withheld,
        agents=tuple(sorted(found.agents)),
        signed_by=key.verify_key.fingerprint,
        plugins=tuple(sorted(found.references.plugins())),
        missing=lost,
    )


def _copy_log(
    snapshot: Snapshot, tables: list[Table], workspace: str, writer: ArchiveWriter, found: _Found, progress: Progress
) -> _Found:
    total = sum(snapshot.count(table, workspace) for table in tables)
    done = 0
    for table in tables:
        shown = partial(_shown, table, found) if table.name == "records" else unchanged
        count = 0
        for count in copy_table(snapshot, table, writer, workspace, shown):
            progress("rows", done + count, total)
        if table.name == "records" and not count and workspace != _ALWAYS_THERE:
            raise NotFound(
                f"there is no workspace {workspace!r}",
                reason="no_workspace_to_export",
                hint="`bollard workspaces` lists them",
                workspace=workspace,
            )
        done += count
    return found


def _shown(table: Table, found: _Found, row: Row) -> Row:
    """The record without data that may not leave the host."""
    found.references.feed(build_rows(RecordRow, [tuple(row)]))
    data = table.index("data")
    content = cast("bytes | None", row[data])
    if content is None or row[table.index("type")] != "policy.changed":
        return row
    if not _is_withheld(cast("dict[str, Any]", _decode(content)), found):
        return row
    found.withheld += 1
    return [None if index == data else value for index, value in enumerate(row)]


def _copy_skills(
    writer: ArchiveWriter, data: Path, references: ContentReferences, missing: Missing
) -> Iterator[FileNote]:
    """Write the existing files of the workspace's skills, and add the others to `missing`."""
    for number, (file, label) in enumerate(sorted(references.skill_files().items())):
        try:
            content = place_of(data, file.path).read_bytes()
        except FileNotFoundError:
            missing[file.sha256] = label
            continue
        except OSError as error:
            raise StorageUnavailable(
                f"a file of the {label} cannot be read: {error.strerror}",
                reason="skill_file_unreadable",
                hint="check the data directory",
                skill=label,
                **caused_by(error),
            ) from error
        member = f"files/skill-{number:06d}"
        with writer.member(member) as written:
            written.write(content)
        yield FileNote(path=file.path, member=member)


def _is_withheld(change: dict[str, Any], found: _Found) -> bool:
    """Whether a saved resource is withheld. The exportable part of an agent is added to `found`."""
    if change.get("kind") != "agent":
        return change.get("kind") in WITHHELD_KINDS
    found.agents.pop(str(change.get("id")), None)
    body = cast("dict[str, Any] | None", change.get("body"))
    config = cast("dict[str, Any]", (body or {}).get("config") or {})
    known = found.open_fields(str((body or {}).get("runner_id")))
    unsafe = {name for name, value in config.items() if name not in known and not _is_harmless(value)}
    if body is None or not unsafe:
        return False
    shown = {**body, "config": {name: value for name, value in config.items() if name not in unsafe}}
    thing = ArchivedResource(kind="agent", id=str(change["id"]), revision=int(change["revision"]), body=shown)
    found.agents[thing.id] = thing
    return True


def _is_harmless(value: object) -> bool:
    """Whether a value is a number, a boolean, empty, or the name of a secret."""
    if isinstance(value, str) and is_reference(value):
        return is_chosen(referred(value))
    return value is None or isinstance(value, bool | int | float) or value in ("", [], {})
