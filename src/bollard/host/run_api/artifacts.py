"""`artifacts.*`: read the artifacts in the reach of a run, and upload new ones. Absent and foreign look the same. The
built-in tools have the same reach and write the same records."""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final

import msgspec

from bollard.host.capabilities.capability import Flow
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import Conflict, HostError, NotFound, ToolFailed
from bollard.host.run_api.reach import FetchContent, FindArtifact, as_stored
from bollard.host.run_api.refusal import ApiRefused, check_name, check_type, no_such_run, secret_in_content, write_down
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.results import artifact_id_of
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BLOB_BYTES, BlobStore
from bollard.host.store.rows import ArtifactRow
from bollard.host.tools.ports import ArtifactPiece
from bollard.protocol import (
    ArtifactMetadata,
    ArtifactReadResult,
    ArtifactsAppend,
    ArtifactsBegin,
    ArtifactsFinish,
    ArtifactsMetadata,
    ArtifactsRead,
    ArtifactUpload,
    JsonObject,
)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a stored content."""

    content: bytes
    offset: int
    size_bytes: int
    """Size of the whole content."""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.content).decode()

    @property
    def has_more(self) -> bool:
        """Whether more bytes follow."""
        return bool(self.content) and self.offset + len(self.content) < self.size_bytes


def read_piece(blobs: BlobStore, sha256: str, offset: int, length: int) -> Piece | None:
    """Read a range. `None` if the content is not stored here. Blocks."""
    try:
        size = blobs.size(sha256)
        # A huge offset would make the system call fail.
        content = _range(blobs, sha256, offset, min(length, size - offset)) if offset < size else b""
    except NotFound:
        return None
    return Piece(content=content, offset=offset, size_bytes=size)


def _range(blobs: BlobStore, sha256: str, offset: int, length: int) -> bytes:
    """A range of any length: the store reads a limited part at once."""
    content = b""
    while len(content) < length and (part := blobs.read(sha256, offset + len(content), length - len(content))):
        content += part
    return content


_decode: Final = msgspec.json.Decoder().decode


class Artifacts:
    """Reads artifacts for runs."""

    def __init__(self, find: FindArtifact, blobs: BlobStore, fetch: FetchContent = as_stored) -> None:
        self._find = find
        self._blobs = blobs
        self._fetch = fetch

    async def metadata(self, run: LiveRun, params: ArtifactsMetadata) -> ArtifactMetadata:
        return metadata_of(await self._found(run, params.artifact_id))

    async def read(self, run: LiveRun, params: ArtifactsRead) -> ArtifactReadResult:
        try:
            row = await self._fetch(await self._found(run, params.artifact_id))
        except NotFound as error:
            raise ApiRefused("not_found", error.message) from None
        piece: Piece | None = None
        if row.sha256 is not None:
            piece = await asyncio.to_thread(read_piece, self._blobs, row.sha256, params.offset, params.length)
        if piece is None:
            raise ApiRefused("not_found", "the artifact has no content here")
        return ArtifactReadResult(
            artifact_id=row.artifact_id,
            mime_type=row.mime_type,
            size_bytes=piece.size_bytes,
            offset=piece.offset,
            length=len(piece.content),
            content_base64=piece.base64,
            has_more=piece.has_more,
        )

    async def _found(self, run: LiveRun, artifact_id: str) -> ArtifactRow:
        row = await asyncio.to_thread(self._find, run, artifact_id)
        if row is None:
            raise ApiRefused("not_found", "this run has no such artifact")
        run.take_in(row.flow)
        return row


def metadata_of(row: ArtifactRow) -> ArtifactMetadata:
    """The metadata of an artifact row."""
    return ArtifactMetadata.from_wire(
        {
            "artifact_id": row.artifact_id,
            "artifact_type": row.type,
            "mime_type": row.mime_type,
            "name": row.name,
            "size_bytes": row.size_bytes,
            "sha256": row.sha256,
            "source": row.source,
            "conversation_id": row.conversation,
            "run_id": row.run_id,
            "runner_id": row.runner_id,
            "created_at": row.created_ms / 1000,
            "expires_at": None if row.expires_ms is None else row.expires_ms / 1000,
            "metadata": {name: value for name, value in _decode(row.metadata).items() if name != _HANDLE},
        }
    )


_HANDLE: Final = "fetch"
"""Where the content is fetched; for the host alone."""
UPLOADS_PER_RUN: Final = 16
"""Uploads that one run may have open."""


class Uploads:
    """The open uploads of live runs (`artifacts.begin`, `.append`, `.finish`).

    An upload belongs to one run and is dropped when the run ends. Uploads left by a crash are swept after a day. The
    artifact exists once `finish` has recorded it.
    """

    def __init__(
        self, blobs: BlobStore, find: FindArtifact, *, terms: ArtifactTerms = ANY_TERMS, max_bytes: int = BLOB_BYTES
    ) -> None:
        self._blobs = blobs
        self._find_artifact = find
        self._terms = terms
        self._max_bytes = max_bytes
        self._open: dict[str, dict[str, ArtifactsBegin]] = {}
        """By run, then by upload."""
        self._dropping: set[asyncio.Task[None]] = set()

    async def begin(self, run: LiveRun, params: ArtifactsBegin) -> ArtifactUpload:
        check_name("name", params.name)
        check_name("artifact_type", params.artifact_type)
        check_type(self._terms, params.mime_type)
        self._check_room(run)
        upload_id = await asyncio.to_thread(self._blobs.begin)
        try:
            self._check_room(run)  # again, because other uploads may have begun or the run may have ended
        except ApiRefused:
            self._drop([upload_id])
            raise
        self._of(run)[upload_id] = params
        return ArtifactUpload(upload_id=upload_id)

    async def append(self, run: LiveRun, params: ArtifactsAppend) -> ArtifactUpload:
        self._find(run, params.upload_id)
        content = base64.b64decode(params.content_base64)
        if params.offset + len(content) > self._max_bytes:
            raise ApiRefused("payload_too_large", f"an artifact has {self._max_bytes} bytes at most")
        with _upload_errors("offset"):
            here = await asyncio.to_thread(self._append, run, params.upload_id, params.offset, content)
        return ArtifactUpload(upload_id=params.upload_id, offset=here)

    def _append(self, run: LiveRun, upload_id: str, offset: int, content: bytes) -> int:
        """Append a piece, unless it completes a secret. A secret may span pieces."""

        def judge(joined: bytes) -> None:
            if run.recorder.withholds(joined):
                raise secret_in_content()

        return self._blobs.append(upload_id, offset, content, reach=run.recorder.secret_bytes, judge=judge)

    async def finish(self, run: LiveRun, params: ArtifactsFinish) -> ArtifactMetadata:
        begun = self._find(run, params.upload_id)
        with _upload_errors("sha256"):  # of two concurrent calls, the blob store lets one through
            size = await asyncio.to_thread(self._keep, params.upload_id, params.sha256)
        await self._record(run, params, begun, size)
        self._forget(run, params.upload_id)
        row = await asyncio.to_thread(self._find_artifact, run, _artifact_id(run, params.upload_id))
        if row is None:
            raise _no_upload()
        return metadata_of(row)

    def _keep(self, upload_id: str, sha256: str) -> int:
        return self._blobs.size(self._blobs.finish(upload_id, sha256))

    async def _record(self, run: LiveRun, params: ArtifactsFinish, begun: ArtifactsBegin, size: int) -> None:
        data: JsonObject = {
            "artifact_id": _artifact_id(run, params.upload_id),
            "artifact_type": begun.artifact_type,
            "mime_type": begun.mime_type,
            "name": begun.name,
            "size_bytes": size,
            "sha256": params.sha256,
        }
        await write_down(run, "artifact.created", data)

    # --- open uploads ---

    def _check_room(self, run: LiveRun) -> None:
        if run.done.done():
            raise no_such_run()
        if len(self._open.get(run.facts.run_id, ())) >= UPLOADS_PER_RUN:
            raise ApiRefused("rate_limited", f"{UPLOADS_PER_RUN} uploads of this run are open; finish one first")

    def _of(self, run: LiveRun) -> dict[str, ArtifactsBegin]:
        run_id = run.facts.run_id
        if run_id not in self._open:
            self._open[run_id] = {}
            run.done.add_done_callback(lambda _: self._drop(self._open.pop(run_id, {})))
        return self._open[run_id]

    def _find(self, run: LiveRun, upload_id: str) -> ArtifactsBegin:
        """The open upload of this run. Uploads of other runs do not exist for it."""
        begun = self._open.get(run.facts.run_id, {}).get(upload_id)
        if begun is None:
            raise _no_upload()
        return begun

    def _forget(self, run: LiveRun, upload_id: str) -> None:
        self._open.get(run.facts.run_id, {}).pop(upload_id, None)

    def _drop(self, upload_ids: Iterable[str]) -> None:
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._abandon, list(upload_ids)))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    def _abandon(self, upload_ids: list[str]) -> None:
        for upload_id in upload_ids:
            with contextlib.suppress(HostError):  # finished meanwhile, or left to the sweep
                self._blobs.abandon(upload_id)


def _artifact_id(run: LiveRun, upload_id: str) -> str:
    return artifact_id_of(run.facts.run_id, upload_id)


def _no_upload() -> ApiRefused:
    return ApiRefused("not_found", "this run has no such upload")


@contextmanager
def _upload_errors(field: str) -> Generator[None]:
    """Turns errors of the blob store into refusals."""
    try:
        yield
    except NotFound:
        raise _no_upload() from None
    except Conflict as error:
        details: JsonObject = {"field": field}
        if field == "offset":
            details["offset"] = error.details["expected"]
        raise ApiRefused("invalid_argument", f"{field}: {error.message}; {error.hint}", details=details) from None


class RunArtifacts:
    """Reads and writes artifacts of live runs."""

    def __init__(
        self,
        live: Callable[[str], LiveRun | None],
        find: FindArtifact,
        blobs: BlobStore,
        terms: ArtifactTerms = ANY_TERMS,
        fetch: FetchContent = as_stored,
    ) -> None:
        self._live = live
        self._fetch = fetch
        self._find = find
        self._blobs = blobs
        self._terms = terms

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        row = await asyncio.to_thread(self._find, self._run(context), artifact_id)
        row = None if row is None else await self._fetch(row)
        if row is None or row.sha256 is None:
            hint = "use an artifact id from the conversation"
            raise NotFound("this run has no such artifact", reason="no_artifact", hint=hint)
        piece = await asyncio.to_thread(read_piece, self._blobs, row.sha256, offset, length)
        if piece is None:
            hint = "use another artifact"
            raise NotFound("the content of the artifact is not stored here", reason="no_artifact_content", hint=hint)
        return ArtifactPiece(
            name=row.name,
            mime_type=row.mime_type or "application/octet-stream",
            size=piece.size_bytes,
            content=piece.content,
            flow=Flow.of_bits(row.flow),
        )

    async def write(
        self, context: CallContext, *, call_id: str, name: str, mime_type: str, content: bytes
    ) -> JsonObject:
        run = self._run(context)
        try:
            check_name("name", name)
            check_type(self._terms, mime_type)
            reference: JsonObject = {
                "artifact_id": artifact_id_of(run.facts.run_id, f"tool_{call_id}"),
                "artifact_type": "file",
                "mime_type": mime_type,
                "name": name,
                "size_bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            await write_down(run, "artifact.created", {**reference, "flow": run.flow}, blob=content)
        except ApiRefused as refused:
            message, hint = refused.error.message, "choose another name or media type"
            raise ToolFailed(message, reason="artifact_refused", hint=hint, problem=message) from None
        return reference

    def _run(self, context: CallContext) -> LiveRun:
        run = self._live(context.run_id)
        if run is None:
            message = "the run has ended, so its artifacts are not available to tools"
            raise ToolFailed(message, reason="artifacts_of_ended_run", hint="start a new run")
        return run
