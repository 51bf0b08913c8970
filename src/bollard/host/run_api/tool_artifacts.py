"""Artifacts for the built-in tools, with the same reach and the same records as calls of the runner."""

import asyncio
import hashlib
from collections.abc import Callable

from bollard.host.capabilities.capability import Flow
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import NotFound, ToolFailed
from bollard.host.run_api.artifacts import read_piece
from bollard.host.run_api.reach import FindArtifact
from bollard.host.run_api.refusal import ApiRefused, check_name, check_type, write_down
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.results import artifact_id_of
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.tools.ports import ArtifactPiece
from bollard.protocol import JsonObject


class RunArtifacts:
    """Reads and writes artifacts of live runs."""

    def __init__(
        self,
        live: Callable[[str], LiveRun | None],
        find: FindArtifact,
        blobs: BlobStore,
        terms: ArtifactTerms = ANY_TERMS,
    ) -> None:
        self._live = live
        self._find = find
        self._blobs = blobs
        self._terms = terms

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        row = await asyncio.to_thread(self._find, self._run(context), artifact_id)
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
