"""`artifacts.metadata` and `artifacts.read`, over what is in the run's reach. Absent and foreign look the same."""

import asyncio
from typing import Final

import msgspec

from bollard.host.runapi.content import Piece, read_piece
from bollard.host.runapi.reach import FindArtifact
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow
from bollard.protocol import ArtifactMetadata, ArtifactReadResult, ArtifactsMetadata, ArtifactsRead

__all__ = ["Artifacts", "metadata_of"]

_decode: Final = msgspec.json.Decoder().decode


class Artifacts:
    """Reads artifacts for runs."""

    def __init__(self, find: FindArtifact, blobs: BlobStore) -> None:
        self._find = find
        self._blobs = blobs

    async def metadata(self, run: LiveRun, params: ArtifactsMetadata) -> ArtifactMetadata:
        return metadata_of(await self._found(run, params.artifact_id))

    async def read(self, run: LiveRun, params: ArtifactsRead) -> ArtifactReadResult:
        row = await self._found(run, params.artifact_id)
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
    """A row as runners see it."""
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
            "metadata": _decode(row.metadata),
        }
    )
