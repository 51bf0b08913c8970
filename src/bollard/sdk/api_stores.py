"""Calls that store and read data: `api.state`, `api.storage`, `api.files`, `api.artifacts`.

Content is read in ranges and written in pieces, so that no frame exceeds its limit.
"""

import base64
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, cast

from bollard.protocol import (
    ArtifactMetadata,
    ArtifactReadResult,
    ArtifactUpload,
    BytesResult,
    JsonObject,
    JsonValue,
    KeyPage,
    StateScope,
    StateValue,
    StorageArea,
    Written,
    limits,
)
from bollard.sdk.calls import ApiCaller, Namespace, decode_content
from bollard.sdk.errors import AgentAPIException, api_failure

PIECE_BYTES: Final = 256 * limits.KIB
"""Content of one append, and of one range when the whole content is read."""

ByteSource = bytes | bytearray | memoryview | Iterable[bytes] | AsyncIterable[bytes]


def content_of(answer: BytesResult | ArtifactReadResult) -> bytes:
    """Return the bytes of one range."""
    return decode_content("a ranged read", answer.content_base64 or "")


class StateApi(Namespace):
    """Small JSON values that outlive the run, by scope. Each value of a key has a unique version for compare-and-set;
    versions are not counters."""

    __slots__ = ()

    async def get(self, scope: StateScope, key: str) -> StateValue:
        """Return the value and its version. Raises `not_found` if there is none."""
        return await self._ask("state.get", StateValue, {"scope": scope, "key": key})

    async def find(self, scope: StateScope, key: str) -> StateValue | None:
        """Return the value and its version, or `None` if there is none."""
        try:
            return await self.get(scope, key)
        except AgentAPIException as error:
            if error.code == "not_found":
                return None
            raise

    async def set(
        self, scope: StateScope, key: str, value: JsonValue, if_version: int | None = None, ttl: int | None = None
    ) -> Written:
        """Store a value of at most 256 KiB. `if_version=0` requires that it does not exist; `ttl` is in seconds."""
        fields = {"scope": scope, "key": key, "value": value, "if_version": if_version, "ttl": ttl}
        return await self._ask("state.set", Written, fields)

    async def delete(self, scope: StateScope, key: str, if_version: int | None = None) -> Written:
        """Delete a value."""
        return await self._ask("state.delete", Written, {"scope": scope, "key": key, "if_version": if_version})

    async def list(
        self, scope: StateScope, prefix: str = "", cursor: str | None = None, limit: int = limits.STATE_LIST_KEYS
    ) -> KeyPage:
        """The keys of a scope."""
        return await self._ask(
            "state.list", KeyPage, {"scope": scope, "prefix": prefix, "cursor": cursor, "limit": limit}
        )


class StorageAreaApi(Namespace):
    """Bytes by key: those of this plugin, or those of the workspace."""

    __slots__ = ("_area",)

    def __init__(self, caller: ApiCaller, area: StorageArea) -> None:
        super().__init__(caller)
        self._area: StorageArea = area

    async def get(self, key: str, offset: int = 0, length: int = limits.READ_BYTES_DEFAULT) -> BytesResult:
        """One range; `content_of` gives its bytes."""
        fields = {"area": self._area, "key": key, "offset": offset, "length": length}
        return await self._ask("storage.get", BytesResult, fields)

    async def read(self, key: str) -> bytes:
        """The whole, range by range."""
        return b"".join([piece async for piece in _ranges(lambda at: self.get(key, at, PIECE_BYTES))])

    async def set(self, key: str, content: bytes) -> Written:
        """Store bytes, replacing earlier content."""
        fields = {"area": self._area, "key": key, "content_base64": _encoded(content, "storage.set")}
        return await self._ask("storage.set", Written, fields)

    async def delete(self, key: str) -> Written:
        """Delete a key."""
        return await self._ask("storage.delete", Written, {"area": self._area, "key": key})

    async def list(self, prefix: str = "", cursor: str | None = None, limit: int = limits.STATE_LIST_KEYS) -> KeyPage:
        """Return the keys of the area."""
        return await self._ask(
            "storage.list", KeyPage, {"area": self._area, "prefix": prefix, "cursor": cursor, "limit": limit}
        )


class StorageApi:
    """The two areas."""

    __slots__ = ("plugin", "workspace")

    def __init__(self, caller: ApiCaller) -> None:
        self.plugin = StorageAreaApi(caller, "plugin")
        self.workspace = StorageAreaApi(caller, "workspace")


class FilesApi(Namespace):
    """Files of the agent's configuration or knowledge; their ids are in `ctx.resources.files`."""

    __slots__ = ()

    async def get(self, file_id: str, offset: int = 0, length: int = limits.READ_BYTES_DEFAULT) -> BytesResult:
        """One range; `content_of` gives its bytes."""
        return await self._ask("files.get", BytesResult, {"file_id": file_id, "offset": offset, "length": length})

    async def read(self, file_id: str) -> bytes:
        """The whole, range by range."""
        return b"".join([piece async for piece in _ranges(lambda at: self.get(file_id, at, PIECE_BYTES))])


class ArtifactsApi(Namespace):
    """Large content: read in ranges, written in pieces."""

    __slots__ = ()

    async def metadata(self, artifact_id: str) -> ArtifactMetadata:
        """Return the metadata of an artifact."""
        return await self._ask("artifacts.metadata", ArtifactMetadata, {"artifact_id": artifact_id})

    async def read(
        self, artifact_id: str, offset: int = 0, length: int = limits.READ_BYTES_DEFAULT
    ) -> ArtifactReadResult:
        """One range of at most 1 MiB; `content_of` gives its bytes."""
        fields = {"artifact_id": artifact_id, "offset": offset, "length": length}
        return await self._ask("artifacts.read", ArtifactReadResult, fields)

    def stream(self, artifact_id: str) -> AsyncGenerator[bytes, None]:
        """Yield the whole content in pieces."""
        return _ranges(lambda at: self.read(artifact_id, at, PIECE_BYTES))

    async def write(
        self, name: str, mime_type: str, stream: ByteSource, artifact_type: str = "file"
    ) -> ArtifactMetadata:
        """Store content of any size: bytes, or an iterable or async iterable of bytes."""
        fields = {"name": name, "mime_type": mime_type, "artifact_type": artifact_type}
        upload = await self._ask("artifacts.begin", ArtifactUpload, fields)
        digest = hashlib.sha256()
        offset = 0
        async for piece in _pieces(stream):
            digest.update(piece)
            params: JsonObject = {
                "upload_id": upload.upload_id,
                "offset": offset,
                "content_base64": base64.b64encode(piece).decode(),
            }
            await self._ask("artifacts.append", ArtifactUpload, params)
            offset += len(piece)
        done: JsonObject = {"upload_id": upload.upload_id, "sha256": digest.hexdigest()}
        return await self._ask("artifacts.finish", ArtifactMetadata, done)


async def _ranges(read: Callable[[int], Awaitable[BytesResult | ArtifactReadResult]]) -> AsyncGenerator[bytes, None]:
    offset = 0
    while True:
        answer = await read(offset)
        content = content_of(answer)
        if content:
            yield content
        if not answer.has_more:
            return
        if not content:
            raise api_failure("runtime_error", "the host says that there is more, but answers with no bytes")
        offset += len(content)


async def _pieces(source: ByteSource) -> AsyncIterator[bytes]:
    """The source's bytes in pieces of `PIECE_BYTES`, the last one shorter."""
    waiting = bytearray()
    async for part in _parts(source):
        waiting += part
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


async def _parts(source: ByteSource) -> AsyncIterator[bytes | bytearray | memoryview]:
    if isinstance(source, bytes | bytearray | memoryview):
        view = memoryview(source).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]
    elif isinstance(source, AsyncIterable):
        async for part in source:
            yield _bytes(part, "artifacts.write", "stream")
    elif isinstance(source, Iterable) and not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        for part in source:
            yield _bytes(part, "artifacts.write", "stream")
    else:
        _bytes(source, "artifacts.write", "stream")


def _encoded(content: bytes, action: str) -> str:
    return base64.b64encode(_bytes(content, action, "content")).decode()


def _bytes(value: object, action: str, field: str) -> bytes | bytearray | memoryview:
    if isinstance(value, bytes | bytearray | memoryview):
        return cast("bytes | bytearray | memoryview", value)
    details: JsonObject = {"action": action, "field": field}
    raise api_failure("invalid_argument", f"{action}: {field}: expected bytes, not a {type(value).__name__}", details)
