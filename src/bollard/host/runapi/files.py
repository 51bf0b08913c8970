"""`files.get`: a file of the workspace that the grant lists, which is an artifact that somebody uploaded; or a document
of a knowledge base whose documents it lists.
"""

import asyncio
from typing import Final

from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND
from bollard.host.grants.offer import base_of, documents_of
from bollard.host.knowledge.library import Library
from bollard.host.log.flow_bits import PRIVATE_BIT
from bollard.host.runapi.brought import Brought
from bollard.host.runapi.content import Piece, read_piece
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.protocol import BytesResult, FilesGet

__all__ = ["Files"]

_DOCUMENTS_AT_ONCE: Final = 2
"""Documents of knowledge bases that are in memory at the same time: the engine gives them whole."""


class Files:
    """Reads files for runs. That the grant lists the file was checked before."""

    def __init__(self, store: Store, blobs: BlobStore, library: Library | None = None) -> None:
        self._store = store
        self._blobs = blobs
        self._library = library
        self._documents = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)

    async def get(self, run: LiveRun, params: FilesGet) -> BytesResult:
        kb_id = base_of(params.file_id)
        piece = await (self._file(run, params) if kb_id is None else self._document(run, kb_id, params))
        if piece is None:  # listed and gone looks as not listed does
            denied = NOT_FOUND["files"]
            raise ApiRefused(denied.code, denied.sentence)
        return BytesResult(
            content_base64=piece.base64, offset=piece.offset, size_bytes=piece.size_bytes, has_more=piece.has_more
        )

    async def _file(self, run: LiveRun, params: FilesGet) -> Piece | None:
        brought = Brought()
        piece = await asyncio.to_thread(self._read, run.facts.workspace, params, brought)
        run.take_in(brought.bits)
        return piece

    def _read(self, workspace: str, params: FilesGet, brought: Brought) -> Piece | None:
        row = self._store.artifact(workspace, params.file_id)
        if row is None or row.source != "upload" or row.sha256 is None:
            return None
        brought.by(row)
        brought.bits |= PRIVATE_BIT  # what people of the workspace put there is theirs
        return read_piece(self._blobs, row.sha256, params.offset, params.length)

    async def _document(self, run: LiveRun, kb_id: str, params: FilesGet) -> Piece | None:
        workspace, document_id = run.facts.workspace, params.file_id.removeprefix(documents_of(kb_id))
        library = self._library
        saved = None if library is None else library.book.find(workspace, kb_id)
        if library is None or saved is None or not document_id:
            return None
        run.take_in(saved.thing.brings.bits)  # as what is asked of the base
        try:
            async with self._documents:
                content = await library.content(workspace, kb_id, document_id)
        except NotFound:
            return None
        wanted = content[params.offset : params.offset + params.length]
        return Piece(content=wanted, offset=params.offset, size_bytes=len(content))
