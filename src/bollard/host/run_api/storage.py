"""The stored values of runs: `state.*` (JSON values in the scopes of the grant), `storage.*` (bytes in the area of the
plugin or of the workspace) and `files.get`.

Versions and quotas of state are checked in the commit. Contents of storage and files are blobs.
"""

import asyncio
import base64
import hashlib
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND
from bollard.host.grants.offer import base_of, documents_of
from bollard.host.knowledge.library import Library
from bollard.host.log.entries import ExpectationResult, StateExpectation
from bollard.host.log.records import PRIVATE_BIT, encode_data
from bollard.host.run_api.artifacts import Piece, read_piece
from bollard.host.run_api.pages import Cursors
from bollard.host.run_api.reach import FlowTracker, key_page
from bollard.host.run_api.refusal import ApiRefused, check_key, write_down
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.keys import area_key
from bollard.host.store.rows import StorageRow
from bollard.host.store.store import Store
from bollard.protocol import (
    BytesResult,
    FilesGet,
    JsonObject,
    KeyPage,
    StateDelete,
    StateGet,
    StateList,
    StateScope,
    StateSet,
    StateValue,
    StorageArea,
    StorageDelete,
    StorageGet,
    StorageList,
    StorageSet,
    Written,
    limits,
)

STATE_TTL_S: Final = 10 * 365 * 24 * 3600
"""The longest time to live."""
_decode: Final = msgspec.json.Decoder().decode


class State:
    """Reads and writes state for runs. The grant determines the scopes."""

    def __init__(self, store: Store, clock: Clock, cursors: Cursors) -> None:
        self._store = store
        self._clock = clock
        self._cursors = cursors

    async def get(self, run: LiveRun, params: StateGet) -> StateValue:
        check_key(params.key)
        row = await asyncio.to_thread(self._store.state, _scope(run, params.scope), params.key, self._clock.now_ms())
        if row is None:
            raise ApiRefused("not_found", "this run has no such state value")
        run.take_in(row.flow)
        expires_at = None if row.expires_ms is None else row.expires_ms / 1000
        return StateValue(value=_decode(row.value), version=row.version, expires_at=expires_at)

    async def set(self, run: LiveRun, params: StateSet) -> Written:
        check_key(params.key)
        scope_key, size = _scope(run, params.scope), len(encode_data(params.value))
        if size > limits.STATE_VALUE_BYTES:
            message = f"value: {size} bytes exceed {limits.STATE_VALUE_BYTES}"
            raise ApiRefused("payload_too_large", message, details={"field": "value"})
        now_ms = self._clock.now_ms()
        data: JsonObject = {"scope": params.scope, "key": params.key, "value": params.value}
        expires_ms = None if params.ttl is None else now_ms + _life_ms(params.ttl)
        if expires_ms is not None:
            data["expires_ms"] = expires_ms
        size += len(params.key.encode())
        expects = _expectation(params, scope_key, size=size, expires_ms=expires_ms)
        result = await _write(run, "state.updated", data, expects)
        return Written(version=result.version, existed=result.existed)

    async def delete(self, run: LiveRun, params: StateDelete) -> Written:
        check_key(params.key)
        scope_key = _scope(run, params.scope)
        row = await asyncio.to_thread(self._store.state, scope_key, params.key, self._clock.now_ms())
        if row is None:
            if params.if_version:
                raise _other_version(0)
            return Written(existed=False)
        data: JsonObject = {"scope": params.scope, "key": params.key}
        expects = _expectation(params, scope_key, size=0)
        await _write(run, "state.deleted", data, expects)
        return Written(existed=True)

    async def keys(self, run: LiveRun, params: StateList) -> KeyPage:
        scope_key, store, now_ms = _scope(run, params.scope), self._store, self._clock.now_ms()
        return await key_page(
            run,
            self._cursors,
            "state.list",
            scope_key,
            params,
            row=lambda key: store.state(scope_key, key, now_ms),
            rows=lambda key, count: store.states(scope_key, key, count, now_ms),
        )


def _scope(run: LiveRun, scope: StateScope) -> str:
    return run.grant.state_keys[scope]


def _life_ms(ttl: int) -> int:
    if ttl > STATE_TTL_S:
        raise ApiRefused("invalid_argument", f"ttl: is more than {STATE_TTL_S} seconds", details={"field": "ttl"})
    return ttl * 1000


def _expectation(
    params: StateSet | StateDelete, scope_key: str, *, size: int, expires_ms: int | None = None
) -> StateExpectation:
    """The condition of the write, and the `state.refused` record that is written if it fails."""
    refused: JsonObject = {"scope": params.scope, "key": params.key, "version": params.if_version, "size": size}
    return StateExpectation(
        record=0,
        otherwise=("state.refused", encode_data(refused)),
        scope_key=scope_key,
        key=params.key,
        version=params.if_version,
        size=size,
        quota=limits.STATE_SCOPE_BYTES,
        expires_ms=expires_ms,
    )


async def _write(run: LiveRun, kind: str, data: JsonObject, expects: StateExpectation) -> ExpectationResult:
    """Raises `ApiRefused` if the expectation is not met."""
    result = await write_down(run, kind, data, expects=expects)
    if result.unmet == "version":
        raise _other_version(result.version)
    if result.unmet == "quota":
        message = f"value: the scope would hold more than {limits.STATE_SCOPE_BYTES} bytes"
        raise ApiRefused("payload_too_large", message, details={"field": "value", "reason": "quota"})
    return result


def _other_version(version: int) -> ApiRefused:
    now = f"has version {version}" if version else "does not exist"
    details: JsonObject = {"field": "if_version", "reason": "version", "version": version}
    return ApiRefused("invalid_argument", f"if_version: the value {now}", details=details)


class Storage:
    """Reads and writes stored values for runs."""

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
        return _bytes_result(piece)

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
            return Written(existed=False)
        await write_down(run, "storage.deleted", {"area": params.area, "key": params.key})
        return Written(existed=True)

    async def keys(self, run: LiveRun, params: StorageList) -> KeyPage:
        area, store = _area(run, params.area), self._store
        return await key_page(
            run,
            self._cursors,
            "storage.list",
            area,
            params,
            row=lambda key: store.storage(area, key),
            rows=lambda key, count: store.storages(area, key, count),
        )

    async def _row(self, run: LiveRun, area: StorageArea, key: str) -> StorageRow | None:
        return await asyncio.to_thread(self._store.storage, _area(run, area), key)


def _bytes_result(piece: Piece) -> BytesResult:
    return BytesResult(
        content_base64=piece.base64, offset=piece.offset, size_bytes=piece.size_bytes, has_more=piece.has_more
    )


def _area(run: LiveRun, area: StorageArea) -> str:
    return area_key(run.facts.workspace, area, run.facts.runner_id)


_DOCUMENTS_AT_ONCE: Final = 2
"""Documents of knowledge bases that are in memory at the same time. The engine returns them whole."""


class Files:
    """`files.get`: uploaded files of the workspace and documents of knowledge bases. The gate checked the grant."""

    def __init__(self, store: Store, blobs: BlobStore, library: Library | None = None) -> None:
        self._store = store
        self._blobs = blobs
        self._library = library
        self._documents = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)

    async def get(self, run: LiveRun, params: FilesGet) -> BytesResult:
        kb_id = base_of(params.file_id)
        piece = await (self._file(run, params) if kb_id is None else self._document(run, kb_id, params))
        if piece is None:  # a deleted file looks like one that the grant does not list
            denied = NOT_FOUND["files"]
            raise ApiRefused.of(denied)
        return _bytes_result(piece)

    async def _file(self, run: LiveRun, params: FilesGet) -> Piece | None:
        flow = FlowTracker()
        piece = await asyncio.to_thread(self._read, run.facts.workspace, params, flow)
        run.take_in(flow.bits)
        return piece

    def _read(self, workspace: str, params: FilesGet, flow: FlowTracker) -> Piece | None:
        row = self._store.artifact(workspace, params.file_id)
        if row is None or row.source != "upload" or row.sha256 is None:
            return None
        flow.by(row)
        flow.bits |= PRIVATE_BIT  # uploads of the workspace are private
        return read_piece(self._blobs, row.sha256, params.offset, params.length)

    async def _document(self, run: LiveRun, kb_id: str, params: FilesGet) -> Piece | None:
        workspace, document_id = run.facts.workspace, params.file_id.removeprefix(documents_of(kb_id))
        library = self._library
        saved = None if library is None else library.book.find(workspace, kb_id)
        if library is None or saved is None or not document_id:
            return None
        run.take_in(saved.value.brings.bits)  # the same bits as a retrieval
        try:
            async with self._documents:
                content = await library.content(workspace, kb_id, document_id)
        except NotFound:
            return None
        part = content[params.offset : params.offset + params.length]
        return Piece(content=part, offset=params.offset, size_bytes=len(content))
