"""`storage.*`: bytes by key, in the area of the run's plugin or of its workspace. Contents are blobs."""

import asyncio
import base64
import hashlib

from bollard.host.log.areas import area_key
from bollard.host.runapi.brought import Brought
from bollard.host.runapi.content import read_piece
from bollard.host.runapi.cursors import Cursors
from bollard.host.runapi.names import check_key
from bollard.host.runapi.pages import keys_with
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runapi.writing import write_down
from bollard.host.runs.live import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.rows import StorageRow
from bollard.protocol import (
    BytesResult,
    JsonObject,
    KeyPage,
    StorageArea,
    StorageDelete,
    StorageGet,
    StorageList,
    StorageSet,
    Written,
)

__all__ = ["Storage"]


class Storage:
    """Reads and writes stored values for runs. The log names an area by the same function."""

    def __init__(self, store: Store, blobs: BlobStore, cursors: Cursors) -> None:
        self._store = store
        self._blobs = blobs
        self._cursors = cursors

    async def get(self, run: LiveRun, params: StorageGet) -> BytesResult:
        check_key(params.key)
        row = await self._row(run, params.area, params.key)
        piece = None
        if row is not None:
            run.take_in(row.flow)
            piece = await asyncio.to_thread(read_piece, self._blobs, row.sha256, params.offset, params.length)
        if piece is None:
            raise ApiRefused("not_found", "this run has no such stored value")
        return BytesResult(
            content_base64=piece.base64, offset=piece.offset, size_bytes=piece.size_bytes, has_more=piece.has_more
        )

    async def set(self, run: LiveRun, params: StorageSet) -> Written:
        check_key(params.key)
        row = await self._row(run, params.area, params.key)
        content = base64.b64decode(params.content_base64)
        digest = hashlib.sha256(content).hexdigest()
        data: JsonObject = {"area": params.area, "key": params.key, "sha256": digest, "size": len(content)}
        await write_down(run, "storage.updated", data, blob=content)
        return Written(existed=row is not None)

    async def delete(self, run: LiveRun, params: StorageDelete) -> Written:
        check_key(params.key)
        if await self._row(run, params.area, params.key) is None:
            return Written(existed=False)  # nothing was there, so nothing is written
        await write_down(run, "storage.deleted", {"area": params.area, "key": params.key})
        return Written(existed=True)

    async def keys(self, run: LiveRun, params: StorageList) -> KeyPage:
        area, run_id = _area(run, params.area), run.facts.run_id
        place = f"{area}/{params.prefix}"
        after = self._cursors.open_key("storage.list", run_id, place, params.cursor)
        brought = Brought()
        keys, has_more = await asyncio.to_thread(self._keys_behind, area, params.prefix, after, params.limit, brought)
        run.take_in(brought.bits)  # a key is chosen by whoever writes it, like a value
        cursor = self._cursors.seal_key("storage.list", run_id, place, keys[-1]) if has_more else None
        return KeyPage(keys=tuple(keys), next_cursor=cursor, has_more=has_more)

    async def _row(self, run: LiveRun, area: StorageArea, key: str) -> StorageRow | None:
        return await asyncio.to_thread(self._store.storage, _area(run, area), key)

    def _keys_behind(
        self, area: str, prefix: str, after: str | None, limit: int, brought: Brought
    ) -> tuple[list[str], bool]:
        store = self._store

        def first(key: str) -> bool:
            row = store.storage(area, key)
            return row is not None and brought.key(row) == key

        return keys_with(
            prefix,
            after,
            limit,
            has=first,
            behind=lambda key, count: [brought.key(row, prefix) for row in store.storages(area, key, count)],
        )


def _area(run: LiveRun, area: StorageArea) -> str:
    return area_key(run.facts.workspace, area, run.facts.runner_id)
