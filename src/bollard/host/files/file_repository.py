"""The files of all workspaces: their metadata in memory, written to disk first. Their contents are blobs.

A file is an uploaded artifact. It is immutable: another content is another file.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, NotFound, StorageFull
from bollard.host.limits import FILES_OF_WORKSPACE, REPLAY_PAGE
from bollard.host.log.entries import CommitListener, CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.removal import remove_artifact
from bollard.host.store.rows import ArtifactRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_PREFIX: Final = "file_"
"""The prefix of every file id, and of no other artifact id, so that the table's key finds all files."""
_TYPE: Final = "file"
_decode: Final = msgspec.json.Decoder().decode


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to add, whose content is stored as a blob."""

    name: str
    mime_type: str
    size_bytes: int
    sha256: str


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file."""

    file_id: str
    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    created_ms: int
    by: str
    """The name of the caller that uploaded it."""


class FileRepository:
    """The files of all workspaces. Changes are serialised. One per host."""

    def __init__(self, journal: Journal, clock: Clock, *, most: int = FILES_OF_WORKSPACE) -> None:
        """`most` is the limit of files per workspace."""
        self._most = most
        self._journal = journal
        self._clock = clock
        self._files: dict[str, dict[str, WorkspaceFile]] = {}
        self._changing = asyncio.Lock()
        self.revision = 0
        """Grows with each change."""

    async def load(self, store: Store, workspaces: Iterable[str]) -> None:
        """Load the files of these workspaces."""
        for workspace in workspaces:
            after = _PREFIX
            while rows := await asyncio.to_thread(store.uploads, workspace, after, REPLAY_PAGE):
                for row in rows:
                    self._settle(workspace, row.artifact_id, _file(row))
                after = rows[-1].artifact_id

    def all(self, workspace: str) -> list[WorkspaceFile]:
        """The files of one workspace by id, which is the order of upload."""
        return sorted(self._files.get(workspace, {}).values(), key=lambda file: file.file_id)

    def has(self, workspace: str, file_id: str) -> bool:
        return file_id in self._files.get(workspace, {})

    def get(self, workspace: str, file_id: str) -> WorkspaceFile:
        """Raises `NotFound`."""
        found = self._files.get(workspace, {}).get(file_id)
        if found is None:
            raise no_such_file()
        return found

    def check_room(self, workspace: str) -> None:
        """Raises `Conflict` if the workspace has reached its limit, and `StorageFull`."""
        if len(self._files.get(workspace, {})) >= self._most:
            raise Conflict(
                f"the workspace has {self._most} files",
                reason="too_many_workspace_files",
                hint="`bollard files remove` one that is not needed",
                limit=self._most,
            )
        if self._journal.full:
            raise StorageFull(
                "the disk is full, so no new work is accepted",
                reason="disk_full",
                hint="free space in the data directory",
            )

    async def add(self, workspace: str, new: NewFile, *, by: str) -> WorkspaceFile:
        """Add a file; it exists once its record is on disk. Raises like `check_room`."""
        kill_point("files.after_blob")
        async with self._changing:
            self.check_room(workspace)
            now_ms = self._clock.now_ms()
            file = WorkspaceFile(
                file_id=f"{_PREFIX}{now_ms:012x}{secrets.token_hex(6)}",
                name=new.name,
                mime_type=new.mime_type,
                size_bytes=new.size_bytes,
                sha256=new.sha256,
                created_ms=now_ms,
                by=by,
            )
            data: JsonObject = {
                "artifact_id": file.file_id,
                "artifact_type": _TYPE,
                "mime_type": file.mime_type,
                "name": file.name,
                "size_bytes": file.size_bytes,
                "sha256": file.sha256,
                "by": by,
            }
            record = NewRecord(workspace=workspace, type="artifact.created", data=encode_data(data), created_ms=now_ms)
            then = _once_on_disk(lambda: self._settle(workspace, file.file_id, file))
            await self._journal.commit_through(Entry(records=[record], size=len(record.data)), then)
            return file

    async def remove(self, workspace: str, file_id: str, *, by: str) -> None:
        """Delete a file. Its content is swept later. Raises `NotFound`."""
        async with self._changing:
            self.get(workspace, file_id)
            now_ms = self._clock.now_ms()
            then = _once_on_disk(lambda: self._settle(workspace, file_id, None))
            await remove_artifact(self._journal, workspace, file_id, by=by, now_ms=now_ms, then=then)

    def _settle(self, workspace: str, file_id: str, file: WorkspaceFile | None) -> None:
        files = self._files.setdefault(workspace, {})
        files.pop(file_id, None)
        if file is not None:
            files[file_id] = file
        self.revision += 1


def _once_on_disk(update: Callable[[], None]) -> CommitListener:
    """A listener that updates memory only after the commit."""

    def listener(outcome: CommitResult | HostError) -> None:
        if isinstance(outcome, Committed):
            update()

    return listener


def no_such_file() -> NotFound:
    return NotFound("there is no such file", reason="no_such_file", hint="`bollard files list` lists them")


def _file(row: ArtifactRow) -> WorkspaceFile:
    return WorkspaceFile(
        file_id=row.artifact_id,
        name=row.name or "",
        mime_type=row.mime_type or "",
        size_bytes=row.size_bytes or 0,
        sha256=row.sha256 or "",
        created_ms=row.created_ms,
        by=_decode(row.metadata)["by"],
    )
