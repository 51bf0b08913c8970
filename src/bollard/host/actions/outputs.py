"""Keeps outputs that are too large to be answers as artifacts of their run."""

import asyncio
import secrets

from bollard.host.actions.ports import Ledger
from bollard.host.grants.session import RunSession
from bollard.host.runs.payloads import artifact_id_of
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.protocol import JsonObject

__all__ = ["BlobArtifacts"]


class BlobArtifacts:
    """Contents go to the blobs first: the record that names one is written when it is on disk."""

    def __init__(self, blobs: BlobStore, terms: ArtifactTerms = ANY_TERMS) -> None:
        self._blobs = blobs
        self._terms = terms

    async def keep(
        self, session: RunSession, ledger: Ledger, content: bytes, *, mime_type: str, name: str
    ) -> JsonObject | None:
        if self._terms.type_problem(mime_type) is not None:
            return None
        sha256 = await asyncio.to_thread(self._blobs.put, content)
        ref: JsonObject = {
            "artifact_id": artifact_id_of(session.run_id, f"out_{secrets.token_hex(8)}"),
            "artifact_type": "tool_output",
            "mime_type": mime_type,
            "name": name,
            "size_bytes": len(content),
            "sha256": sha256,
        }
        ledger.note("artifact.created", {**ref, "flow": ledger.flow.bits})
        return ref
