"""Uploads of files for messages: whole, or in pieces that can be resumed, also after a restart of the host.

An upload belongs to the caller that began it, and to one conversation. Its artifact expires after a day unless a
message uses it. The content is a blob before the record that names it. A finished upload is known for the rest of its
day, so that a caller that lost the answer can finish it again.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Container, Iterable
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound, Overloaded, PayloadTooLarge, StorageFull
from bollard.host.files.media_types import HEAD_BYTES
from bollard.host.files.message_file import MessageFile, check_file, secret_in_file
from bollard.host.limits import MESSAGE_FILE_BYTES, UPLOAD_LIFE_S, UPLOADS_OF_CALLER
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.scope import Scope
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import MESSAGE_SOURCE, DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store

UPLOAD: Final = "upload"
"""The kind of the kept row of an unfinished upload."""
_FINISHED: Final = "finished_upload"
_LIFE_MS: Final = round(UPLOAD_LIFE_S * 1000)


class NewUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The declared facts of a file."""

    place: Scope
    by: str
    name: str | None
    mime_type: str
    size_bytes: int
    sha256: str | None = None
    key: str | None = None
    """The id of the request that began the upload. A repeat gets the same upload."""


class OpenUpload(msgspec.Struct, frozen=True, kw_only=True):
    """An upload in pieces."""

    upload_id: str
    new: NewUpload
    offset: int
    expires_ms: int
    is_finished: bool = False

    @property
    def workspace(self) -> str:
        return self.new.place.workspace


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(NewUpload).decode


class MessageUploads:
    """Takes the files that callers upload."""

    def __init__(
        self,
        *,
        journal: Journal,
        store: Store,
        blobs: BlobStore,
        clock: Clock,
        terms: ArtifactTerms,
        redactor: Redactor,
        max_bytes: int = MESSAGE_FILE_BYTES,
    ) -> None:
        self._journal = journal
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._terms = terms
        self._redactor = redactor
        self._max_bytes = max_bytes

    # --- the whole file at once ---

    def check(self, new: NewUpload) -> None:
        """Check the declared facts, before any content is received."""
        if self._journal.full:
            raise StorageFull(
                "the disk is full, so no new work is accepted",
                reason="disk_full",
                hint="free space in the data directory",
            )
        check_file(self._terms, new.name, new.mime_type, None, "upload")
        scrubber = self._redactor.scrubber(new.place.workspace)
        if scrubber.active and scrubber.holds(f"{new.name} {new.mime_type}"):
            raise secret_in_file("name")
        if new.size_bytes > self._max_bytes:
            raise PayloadTooLarge(
                f"a file of a message has at most {self._max_bytes} bytes",
                reason="message_file_too_large",
                hint="send a smaller file",
                field="size_bytes",
                limit=self._max_bytes,
            )

    def check_content(self, new: NewUpload, head: bytes, pieces: Callable[[], Iterable[bytes]]) -> None:
        """Check the content against the declared type, and for secrets. Blocks."""
        check_file(self._terms, new.name, new.mime_type, head, "content")
        scrubber = self._redactor.scrubber(new.place.workspace)
        if scrubber.active and scrubber.holds_among(pieces()):
            raise secret_in_file("content")

    async def add(self, new: NewUpload, sha256: str, size_bytes: int) -> MessageFile:
        """Record a stored content as an artifact. A file that the conversation has already is not recorded again."""
        made = MessageFile.new(
            new.place, new.by, name=new.name, mime_type=new.mime_type, sha256=sha256, size_bytes=size_bytes
        )
        now_ms = self._clock.now_ms()
        file = msgspec.structs.replace(made, expires_ms=now_ms + _LIFE_MS)
        kill_point("uploads.after_blob")
        row = await asyncio.to_thread(self._store.artifact, new.place.workspace, file.artifact_id)
        known = None if row is None or row.source != MESSAGE_SOURCE else MessageFile.of_row(row)
        if known is not None and (known.expires_ms is None or known.expires_ms > now_ms + _LIFE_MS):
            return known
        record = file.record(now_ms)
        await self._journal.commit(Entry(records=[record], size=len(record.data)))
        return file

    # --- in pieces ---

    async def begin(self, new: NewUpload) -> OpenUpload:
        """Begin an upload in pieces. Raises `Overloaded` if the caller has too many."""
        self.check(new)
        now_ms = self._clock.now_ms()
        rows = await asyncio.to_thread(self._store.all_kept, UPLOAD, new.place.workspace, now_ms)
        own = [(row.id, known) for row in rows if (known := _decode(row.body)).by == new.by]
        if new.key is not None and (first := next((name for name, known in own if known == new), None)) is not None:
            return await self.find(new.place.workspace, new.by, first)
        if len(own) >= UPLOADS_OF_CALLER:
            raise Overloaded(
                f"{UPLOADS_OF_CALLER} uploads are open",
                reason="open_uploads",
                hint="finish or cancel one first",
                limit=UPLOADS_OF_CALLER,
            )
        upload_id = await asyncio.to_thread(self._blobs.begin)
        upload = OpenUpload(upload_id=upload_id, new=new, offset=0, expires_ms=now_ms + _LIFE_MS)
        await self._keep(PutKept(self._row(UPLOAD, upload, new)))
        return upload

    def _row(self, kind: str, upload: OpenUpload, new: NewUpload) -> KeptRow:
        return KeptRow(
            kind=kind,
            workspace=upload.workspace,
            id=upload.upload_id,
            body=_encode(new),
            expires_ms=upload.expires_ms,
            updated_ms=self._clock.now_ms(),
        )

    async def find(self, workspace: str, by: str, upload_id: str) -> OpenUpload:
        """The upload of this caller. Uploads of others do not exist for it. Raises `NotFound`."""
        for kind in (UPLOAD, _FINISHED):
            row = await asyncio.to_thread(self._store.kept, kind, workspace, upload_id, self._clock.now_ms())
            if row is None or (new := _decode(row.body)).by != by:
                continue
            is_finished = kind == _FINISHED
            offset = new.size_bytes if is_finished else await asyncio.to_thread(self._blobs.received, upload_id)
            return OpenUpload(
                upload_id=upload_id, new=new, offset=offset, expires_ms=row.expires_ms or 0, is_finished=is_finished
            )
        raise _no_upload()

    async def append(self, upload: OpenUpload, offset: int, content: bytes) -> int:
        """Add bytes at this offset; returns the next offset. Repeated bytes change nothing. Raises `Conflict`."""
        if offset + len(content) > upload.new.size_bytes:
            raise PayloadTooLarge(
                f"the upload has {upload.new.size_bytes} bytes",
                reason="upload_longer",
                hint="begin an upload with the size of the file",
                field="body",
                limit=upload.new.size_bytes,
            )
        return await asyncio.to_thread(self._blobs.append, upload.upload_id, offset, content)

    async def finish(self, upload: OpenUpload, sha256: str) -> MessageFile:
        """Turn a complete upload into an artifact. Raises `Conflict` if bytes are missing or the digest differs."""
        new = upload.new
        if upload.offset != new.size_bytes:
            raise Conflict(
                f"the upload has {upload.offset} of {new.size_bytes} bytes",
                reason="upload_incomplete",
                hint=f"continue at {upload.offset}",
                expected=upload.offset,
                size=new.size_bytes,
            )
        if new.sha256 not in (None, sha256):
            raise digest_differs(sha256)
        if not upload.is_finished:
            await asyncio.to_thread(self._check_received, upload, sha256)
            finished = self._row(_FINISHED, upload, msgspec.structs.replace(new, sha256=sha256))
            await self._keep(DropKept(UPLOAD, upload.workspace, upload.upload_id), PutKept(finished))
        kill_point("uploads.before_blob")
        await asyncio.to_thread(self._store_content, upload.upload_id, sha256)
        return await self.add(new, sha256, new.size_bytes)

    def _check_received(self, upload: OpenUpload, sha256: str) -> None:
        digest = hashlib.sha256()
        with contextlib.closing(self._blobs.received_pieces(upload.upload_id)) as pieces:  # it holds the lock
            head = b""
            for piece in pieces:
                head = head or piece[:HEAD_BYTES]
                digest.update(piece)
        if digest.hexdigest() != sha256:
            raise digest_differs(sha256)
        self.check_content(upload.new, head, lambda: self._blobs.received_pieces(upload.upload_id))

    def _store_content(self, upload_id: str, sha256: str) -> None:
        with contextlib.suppress(NotFound):  # an earlier request may have done it
            self._blobs.keep(upload_id, sha256)
            return
        digest = hashlib.sha256()
        for piece in self._blobs.stream(sha256):
            digest.update(piece)
        if digest.hexdigest() != sha256:  # the machine lost its power in between
            raise _no_upload()

    async def cancel(self, upload: OpenUpload) -> None:
        await self._keep(*(DropKept(kind, upload.workspace, upload.upload_id) for kind in (UPLOAD, _FINISHED)))
        with contextlib.suppress(NotFound):
            await asyncio.to_thread(self._blobs.abandon, upload.upload_id)

    async def forget(self, workspace: str, callers: Container[str]) -> None:
        """Cancel the uploads of these callers."""
        for kind in (UPLOAD, _FINISHED):
            for row in await asyncio.to_thread(self._store.all_kept, kind, workspace, self._clock.now_ms()):
                if (new := _decode(row.body)).by in callers:
                    await self.cancel(OpenUpload(upload_id=row.id, new=new, offset=0, expires_ms=0))

    async def _keep(self, *changes: KeptChange) -> None:
        size = sum(len(each.row.body) for each in changes if isinstance(each, PutKept))
        await self._journal.commit(Entry(keeps=[*changes], size=size))


def digest_differs(sha256: str) -> Conflict:
    return Conflict(
        f"the digest of the content is not {sha256}",
        reason="digest_differs",
        hint="start a new upload",
        expected=sha256,
    )


def _no_upload() -> NotFound:
    return NotFound("there is no such upload", reason="no_such_upload", hint="it may have expired")
