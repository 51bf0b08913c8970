"""State, storage, files and artifacts of the in-memory host, with the protocol's caps."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, limits
from bollard.sdk.errors import api_failure
from bollard.sdk.testing.checks import check_artifact, check_key, check_ttl, open_key, seal_key
from bollard.sdk.testing.clock import Clock


def measure_json(value: JsonValue) -> int:
    """Return the size of a value as JSON in bytes. Raises `ValueError` or `TypeError` if it is not JSON."""
    return len(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())


def _page_keys(names: Iterable[str], request: protocol.StateList | protocol.StorageList, area: str) -> protocol.KeyPage:
    """Return the keys after the cursor. `area` is the scope or area that the keys are in."""
    prefix, limit = request.prefix, request.limit
    listing = f"{area}/{prefix}"
    last = None if request.cursor is None else open_key(listing, request.cursor)
    after = [name for name in sorted(names) if name.startswith(prefix) and (last is None or name > last)]
    has_more = len(after) > limit
    next_cursor = seal_key(listing, after[limit - 1]) if has_more else None
    return protocol.KeyPage(keys=tuple(after[:limit]), next_cursor=next_cursor, has_more=has_more)


class StateStore:
    """JSON values by scope key. Each write gets a new version, higher than all before it, also after a delete. As in a
    real host, versions are unique and not counters."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scopes: dict[str, dict[str, protocol.StateValue]] = {}
        self._known: set[tuple[str, str]] = set()
        """All keys that were written once."""
        self._newest = 0

    def seed(self, scope_key: str, values: Mapping[str, JsonValue]) -> None:
        """Add initial values. Existing values stay."""
        for key, value in values.items():
            if (scope_key, key) not in self._known:
                self._put(scope_key, key, value, None)

    def snapshot(self, scope_key: str) -> JsonObject:
        """All live values of one scope."""
        return {key: held.value for key, held in self._live(scope_key).items()}

    def get(self, scope_key: str, key: str) -> protocol.StateValue:
        check_key(key)
        held = self._live(scope_key).get(key)
        if held is None:
            raise api_failure("not_found", f"no state {key}")
        return held

    def set(self, scope_key: str, request: protocol.StateSet) -> protocol.Written:
        check_key(request.key)
        check_ttl(request.ttl)
        live = self._live(scope_key)
        self._compare(live, request.key, request.if_version)
        size = measure_json(request.value)
        if size > limits.STATE_VALUE_BYTES:
            message = f"value: {size} bytes exceed {limits.STATE_VALUE_BYTES}"
            raise api_failure("payload_too_large", message, {"field": "value"})
        held = {key: measure_json(other.value) for key, other in live.items()} | {request.key: size}
        if sum(len(key.encode()) + size for key, size in held.items()) > limits.STATE_SCOPE_BYTES:
            message = f"value: the scope would hold more than {limits.STATE_SCOPE_BYTES} bytes"
            raise api_failure("payload_too_large", message, {"field": "value", "reason": "quota"})
        existed = request.key in live
        return protocol.Written(version=self._put(scope_key, request.key, request.value, request.ttl), existed=existed)

    def delete(self, scope_key: str, request: protocol.StateDelete) -> protocol.Written:
        check_key(request.key)
        live = self._live(scope_key)
        self._compare(live, request.key, request.if_version)
        return protocol.Written(existed=live.pop(request.key, None) is not None)

    def list(self, scope_key: str, request: protocol.StateList) -> protocol.KeyPage:
        return _page_keys(self._live(scope_key), request, scope_key)

    def _live(self, scope_key: str) -> dict[str, protocol.StateValue]:
        held = self._scopes.setdefault(scope_key, {})
        now = self._clock.now()
        for key in [key for key, value in held.items() if value.expires_at is not None and value.expires_at <= now]:
            del held[key]
        return held

    def _put(self, scope_key: str, key: str, value: JsonValue, ttl: int | None) -> int:
        self._newest += 1
        self._known.add((scope_key, key))
        expires_at = None if ttl is None else self._clock.now() + ttl
        held = protocol.StateValue(value=value, version=self._newest, expires_at=expires_at)
        self._scopes.setdefault(scope_key, {})[key] = held
        return held.version

    def _compare(self, live: dict[str, protocol.StateValue], key: str, if_version: int | None) -> None:
        current = live[key].version if key in live else 0
        if if_version is not None and if_version != current:
            now = f"has version {current}" if current else "is not there"
            details: JsonObject = {"field": "if_version", "reason": "version", "version": current}
            raise api_failure("invalid_argument", f"if_version: the value {now}", details)


class Blobs:
    """Bytes by key: a storage area, or the agent's files."""

    def __init__(self, kind: str, contents: Mapping[str, bytes]) -> None:
        self._kind = kind
        self.contents = dict(contents)

    def get(self, key: str, offset: int, length: int) -> protocol.BytesResult:
        check_key(key)
        content = self._find(key)
        piece = content[offset : offset + length]
        return protocol.BytesResult(
            content_base64=base64.b64encode(piece).decode(),
            offset=offset,
            size_bytes=len(content),
            has_more=offset + len(piece) < len(content) and bool(piece),
        )

    def set(self, key: str, content_base64: str) -> protocol.Written:
        check_key(key)
        existed = key in self.contents
        self.contents[key] = base64.b64decode(content_base64)
        return protocol.Written(existed=existed)

    def delete(self, key: str) -> protocol.Written:
        check_key(key)
        return protocol.Written(existed=self.contents.pop(key, None) is not None)

    def list(self, request: protocol.StorageList) -> protocol.KeyPage:
        return _page_keys(self.contents, request, request.area)

    def _find(self, key: str) -> bytes:
        if key not in self.contents:
            raise api_failure("not_found", f"no {self._kind} {key}")
        return self.contents[key]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryArtifact:
    """One artifact and its content."""

    metadata: protocol.ArtifactMetadata
    content: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Maker:
    """Where an artifact comes from: a run, a message, or the test."""

    source: str = "host"
    run_id: str | None = None
    runner_id: str | None = None
    conversation_id: str | None = None


@dataclass(slots=True)
class _Upload:
    begun: protocol.ArtifactsBegin
    content: bytearray = field(default_factory=bytearray)


class Artifacts:
    """Artifacts by id, and uploads under way."""

    def __init__(self, contents: Mapping[str, bytes | MemoryArtifact], clock: Clock) -> None:
        self._clock = clock
        self._uploads: dict[str, _Upload] = {}
        self.kept: dict[str, MemoryArtifact] = {}
        for artifact_id, content in contents.items():
            if isinstance(content, MemoryArtifact):
                self.kept[artifact_id] = content
            else:
                self._keep(artifact_id, "file", None, None, content, Maker(), {})

    def receive(
        self, content: bytes, mime_type: str, name: str | None, conversation_id: str | None
    ) -> protocol.ArtifactMetadata:
        """Store a file of a message."""
        kind = mime_type.partition("/")[0]
        artifact_type = kind if kind in ("image", "audio", "video") else "file"
        artifact_id = f"artifact-{len(self.kept) + 1}"
        maker = Maker(source="message", conversation_id=conversation_id)
        return self._keep(artifact_id, artifact_type, name, mime_type, content, maker, {})

    def metadata(self, artifact_id: str) -> protocol.ArtifactMetadata:
        return self._find(artifact_id).metadata

    def read(self, request: protocol.ArtifactsRead) -> protocol.ArtifactReadResult:
        found = self._find(request.artifact_id)
        piece = found.content[request.offset : request.offset + request.length]
        return protocol.ArtifactReadResult(
            artifact_id=request.artifact_id,
            mime_type=found.metadata.mime_type,
            size_bytes=len(found.content),
            offset=request.offset,
            length=len(piece),
            content_base64=base64.b64encode(piece).decode(),
            has_more=request.offset + len(piece) < len(found.content) and bool(piece),
        )

    def begin(self, request: protocol.ArtifactsBegin) -> protocol.ArtifactUpload:
        check_artifact(request.name, request.mime_type)
        upload_id = f"upload-{len(self._uploads) + 1}"
        self._uploads[upload_id] = _Upload(request)
        return protocol.ArtifactUpload(upload_id=upload_id, offset=0)

    def append(self, request: protocol.ArtifactsAppend) -> protocol.ArtifactUpload:
        upload = self._upload(request.upload_id)
        piece = base64.b64decode(request.content_base64)
        if bytes(upload.content[request.offset : request.offset + len(piece)]) != piece:
            if request.offset != len(upload.content):
                message = f"offset: the upload stands at {len(upload.content)}, not at {request.offset}"
                raise api_failure("invalid_argument", message, {"field": "offset", "offset": len(upload.content)})
            upload.content += piece
        return protocol.ArtifactUpload(upload_id=request.upload_id, offset=len(upload.content))

    def finish(self, request: protocol.ArtifactsFinish, maker: Maker) -> protocol.ArtifactMetadata:
        upload = self._upload(request.upload_id)
        content = bytes(upload.content)
        if hashlib.sha256(content).hexdigest() != request.sha256:
            raise api_failure("invalid_argument", "sha256: is not the digest of what was sent", {"field": "sha256"})
        del self._uploads[request.upload_id]
        begun = upload.begun
        artifact_id = f"artifact-{len(self.kept) + 1}"
        return self._keep(artifact_id, begun.artifact_type, begun.name, begun.mime_type, content, maker, {})

    def create(self, created: protocol.ArtifactCreated, maker: Maker) -> protocol.ArtifactMetadata:
        """Store the artifact of a result. Raises `ValueError` with the reason if it is invalid."""
        content = base64.b64decode(created.content_base64 or "", validate=True)
        if len(content) > limits.INLINE_ARTIFACT_BYTES:
            raise ValueError(f"content_base64: {len(content)} bytes exceed {limits.INLINE_ARTIFACT_BYTES}")
        if created.content_base64 is not None:
            if created.size_bytes not in (None, len(content)):
                raise ValueError("size_bytes: is not the size of the content")
            if created.sha256 not in (None, hashlib.sha256(content).hexdigest()):
                raise ValueError("sha256: is not the digest of the content")
        artifact_id = created.artifact_id or f"artifact-{len(self.kept) + 1}"
        metadata = created.metadata or {}
        if artifact_id in self.kept:  # a reference to an artifact that was written through the API
            return self.kept[artifact_id].metadata
        return self._keep(artifact_id, created.artifact_type, created.name, created.mime_type, content, maker, metadata)

    def _keep(
        self,
        artifact_id: str,
        artifact_type: str,
        name: str | None,
        mime_type: str | None,
        content: bytes,
        maker: Maker,
        metadata: JsonObject,
    ) -> protocol.ArtifactMetadata:
        described = protocol.ArtifactMetadata(
            artifact_id=artifact_id,
            artifact_type=artifact_type,
            mime_type=mime_type,
            name=name,
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            source=maker.source,
            conversation_id=maker.conversation_id,
            run_id=maker.run_id,
            runner_id=maker.runner_id,
            created_at=self._clock.now(),
            metadata=metadata,
        )
        self.kept[artifact_id] = MemoryArtifact(metadata=described, content=content)
        return described

    def _find(self, artifact_id: str) -> MemoryArtifact:
        if artifact_id not in self.kept:
            raise api_failure("not_found", f"no artifact {artifact_id}")
        return self.kept[artifact_id]

    def _upload(self, upload_id: str) -> _Upload:
        if upload_id not in self._uploads:
            raise api_failure("not_found", f"no upload {upload_id}")
        return self._uploads[upload_id]
