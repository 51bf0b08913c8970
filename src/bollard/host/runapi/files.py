"""`files.get`: a file of the workspace that the grant lists. It is kept as an artifact that somebody uploaded."""

import asyncio

from bollard.host.grants.check import NOT_FOUND
from bollard.host.log.flow_bits import PRIVATE_BIT
from bollard.host.runapi.brought import Brought
from bollard.host.runapi.content import Piece, read_piece
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.protocol import BytesResult, FilesGet

__all__ = ["Files"]


class Files:
    """Reads files for runs. That the grant lists the file was checked before."""

    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs

    async def get(self, run: LiveRun, params: FilesGet) -> BytesResult:
        brought = Brought()
        piece = await asyncio.to_thread(self._read, run.facts.workspace, params, brought)
        run.take_in(brought.bits)
        if piece is None:  # listed and gone looks as not listed does
            denied = NOT_FOUND["files"]
            raise ApiRefused(denied.code, denied.sentence)
        return BytesResult(
            content_base64=piece.base64, offset=piece.offset, size_bytes=piece.size_bytes, has_more=piece.has_more
        )

    def _read(self, workspace: str, params: FilesGet, brought: Brought) -> Piece | None:
        row = self._store.artifact(workspace, params.file_id)
        if row is None or row.source != "upload" or row.sha256 is None:
            return None
        brought.by(row)
        brought.bits |= PRIVATE_BIT  # what people of the workspace put there is theirs
        return read_piece(self._blobs, row.sha256, params.offset, params.length)
