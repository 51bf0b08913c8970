"""Exports one workspace while its host runs: its part of the log with its chain and its signed heads, its contents, and
the documents of its knowledge bases.

Everything else about a workspace is made from its log. Passwords, sessions and tokens are not in the log; what the log
says about keys and secrets is withheld: such a record keeps its header and digest, so the chain still verifies. An
agent whose configuration may hold a secret goes along beside the log, without those fields.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from bollard.host.archive.manifest import Manifest, SavedThing, Table
from bollard.host.archive.reading import FORMAT, ArchiveReader
from bollard.host.archive.writing import ArchiveWriter
from bollard.host.backup.boundary import Row, Snapshot
from bollard.host.backup.copying import Source, copy_blobs, copy_table, readable_snapshot
from bollard.host.backup.data_files import public_keys
from bollard.host.backup.knowledge_files import copy_documents
from bollard.host.backup.verifying import Progress, Verified, untold, verify
from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.secrets.references import is_chosen, is_reference, referred
from bollard.host.store.blobs import BlobStore

__all__ = ["LOG_TABLES", "ExportReport", "OpenFields", "export_workspace"]

LOG_TABLES: Final = ("records", "deltas", "heads")
WITHHELD_KINDS: Final = frozenset({"key", "mcp_server", "runtime", "secret"})
"""Saved things whose records are nobody else's business."""
_ALWAYS_THERE: Final = "default"
"""The workspace that needs no record to be one."""
_NAMING: Final = frozenset({"artifact.created", "artifact.deleted", "storage.updated"})
"""Records that say which contents there are."""
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_TOLD_EVERY: Final = 1000


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a new archive."""

    size: int
    verified: Verified
    withheld: int
    agents: tuple[str, ...]
    """Agents that go along without fields of their configuration that may be secrets."""
    missing: tuple[str, ...]
    """Contents that the log names and that are not kept any more: expired, or replaced by a newer value."""


OpenFields = Callable[[str], frozenset[str]]
"""The fields of a runner's configuration that are known to be no secrets; none where nothing is known of the runner."""


def _nothing_known(runner_id: str) -> frozenset[str]:
    del runner_id
    return frozenset()


@dataclass(slots=True)
class _Found:
    open_fields: OpenFields
    moment: int
    stored: set[str] = field(default_factory=set[str])
    artifacts: dict[str, str] = field(default_factory=dict[str, str])
    """The contents of those that are still there, by id."""
    agents: dict[str, SavedThing] = field(default_factory=dict[str, SavedThing])
    withheld: int = 0


def export_workspace(
    source: Source,
    workspace: str,
    file: Path,
    *,
    version: str,
    clock: Clock,
    open_fields: OpenFields = _nothing_known,
    progress: Progress = untold,
) -> ExportReport:
    """Write the archive, verify it, then give it its name. Raises `NotFound` for a workspace without a record."""
    with ArchiveWriter(file) as writer:
        snapshot = readable_snapshot(source)
        try:
            moment, revision = clock.now_ms(), snapshot.revision or ""
            tables = [table for table in snapshot.tables() if table.name in LOG_TABLES]
            found = _copy_log(snapshot, tables, workspace, writer, _Found(open_fields, moment), progress)
        finally:
            snapshot.close()
        named = sorted(found.stored.union(found.artifacts.values()))
        missing = copy_blobs(writer, BlobStore(source.data / "blobs"), named, progress)
        documents = tuple(copy_documents(writer, source.database, source.data, workspace))
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
                missing=tuple(missing),
                public_keys=public_keys(source.data),
                files=documents,
                workspace=workspace,
                withheld=found.withheld,
                saved=tuple(found.agents.values()),
            )
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
        missing=tuple(missing),
    )


def _copy_log(
    snapshot: Snapshot,
    tables: list[Table],
    workspace: str,
    writer: ArchiveWriter,
    found: _Found,
    progress: Progress,
) -> _Found:
    total = sum(snapshot.count(table, workspace) for table in tables)
    done = 0
    for table in tables:
        if table.name == "records":
            told = _copy_records(snapshot, table, workspace, writer, found)
        else:
            told = copy_table(snapshot, table, writer, workspace)
        count = 0
        for count in told:
            progress("rows", done + count, total)
        if table.name == "records" and not count and workspace != _ALWAYS_THERE:
            raise NotFound(f"there is no workspace {workspace!r}", hint="`bollard workspaces` lists them")
        done += count
    return found


def _copy_records(
    snapshot: Snapshot, table: Table, workspace: str, writer: ArchiveWriter, found: _Found
) -> Iterator[int]:
    kind, data = table.index("type"), table.index("data")
    count = 0
    with writer.member(table.member) as member:
        for row in snapshot.rows(table, workspace):
            count += 1
            member.line(_encode(_shown(row, cast("str", row[kind]), data, found)))
            if not count % _TOLD_EVERY:
                yield count
    yield count


def _shown(row: Row, kind: str, data: int, found: _Found) -> Row:
    """The row as it may leave the host."""
    content = cast("bytes | None", row[data])
    if content is None:
        return row
    if kind in _NAMING:
        _name(kind, cast("dict[str, Any]", _decode(content)), found)
    elif kind == "policy.changed" and _is_withheld(cast("dict[str, Any]", _decode(content)), found):
        found.withheld += 1
        return [None if index == data else value for index, value in enumerate(row)]
    return row


def _name(kind: str, said: dict[str, Any], found: _Found) -> None:
    """The content of an artifact goes along while it is one: what was deleted or has expired stays here."""
    sha256, expires_ms = said.get("sha256"), said.get("expires_ms")
    if kind == "artifact.deleted":
        found.artifacts.pop(said["artifact_id"], None)
    elif kind == "storage.updated":
        found.stored.add(str(sha256))
    elif sha256 is not None and (expires_ms is None or expires_ms > found.moment):
        found.artifacts[said["artifact_id"]] = sha256


def _is_withheld(said: dict[str, Any], found: _Found) -> bool:
    """Whether a change of something saved stays here. What of an agent may leave is kept in `found`."""
    if said.get("kind") != "agent":
        return said.get("kind") in WITHHELD_KINDS
    found.agents.pop(str(said.get("id")), None)
    body = cast("dict[str, Any] | None", said.get("body"))
    config = cast("dict[str, Any]", (body or {}).get("config") or {})
    known = found.open_fields(str((body or {}).get("runner_id")))
    unsafe = {name for name, value in config.items() if name not in known and not _is_harmless(value)}
    if body is None or not unsafe:
        return False
    shown = {**body, "config": {name: value for name, value in config.items() if name not in unsafe}}
    thing = SavedThing(kind="agent", id=str(said["id"]), revision=int(said["revision"]), body=shown)
    found.agents[thing.id] = thing
    return True


def _is_harmless(value: object) -> bool:
    """A number, a switch, nothing at all, or the name of a secret."""
    if isinstance(value, str) and is_reference(value):
        return is_chosen(referred(value))
    return value is None or isinstance(value, bool | int | float) or value in ("", [], {})
