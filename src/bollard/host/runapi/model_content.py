"""What a runner sends to a model, made ready for it: artifacts that the run may read are put in their place, and
arguments that would make it another call are refused."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from bollard.host.errors import NotFound
from bollard.host.grants.check import Denied, check
from bollard.host.models.limits import CALL_ARTIFACT_BYTES, CALL_ARTIFACTS, EXTRA_ARGS_BYTES
from bollard.host.runapi.reach import FindArtifact
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow
from bollard.protocol import ArtifactContent, FileBase64Content, ImageBase64Content, JsonObject, Message

__all__ = ["MessageContent", "checked_args"]

_READ: Final = "artifacts.read"
_IMAGE: Final = "image/"
_OURS: Final = frozenset(
    {
        "model",
        "models",
        "messages",
        "input",
        "prompt",
        "system",
        "instructions",
        "stream",
        "stream_options",
        "tools",
        "functions",
        "n",
        "best_of",
        "background",
        "previous_response_id",
    }
)
"""What says which model is asked, what it is asked, and how it answers: the call itself says that."""


def checked_args(extra_args: JsonObject | None) -> JsonObject:
    """Raises `ApiRefused` for an argument that would go around the grant."""
    given = extra_args or {}
    for name in given:
        if name.lower() in _OURS:
            raise ApiRefused(
                "invalid_argument",
                f"extra_args.{name[:64]}: this is said by the call itself",
                details={"field": f"extra_args.{name[:64]}"},
            )
    if len(msgspec.json.encode(given)) > EXTRA_ARGS_BYTES:
        raise ApiRefused("payload_too_large", f"extra_args are larger than {EXTRA_ARGS_BYTES} bytes")
    return given


class MessageContent:
    """Puts artifacts in their place."""

    def __init__(self, find: FindArtifact, blobs: BlobStore) -> None:
        self._find = find
        self._blobs = blobs

    async def resolved(self, run: LiveRun, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The same messages, with images and files where artifacts were named."""
        wanted = {
            part.artifact_id: None
            for message in messages
            if not isinstance(message.content, str)
            for part in message.content
            if isinstance(part, ArtifactContent)
        }
        if not wanted:
            return tuple(messages)
        if len(wanted) > CALL_ARTIFACTS:
            raise ApiRefused("payload_too_large", f"one call has {CALL_ARTIFACTS} artifacts at most")
        rows = [await self._row(run, artifact_id) for artifact_id in wanted]
        if sum(row.size_bytes or 0 for row in rows) > CALL_ARTIFACT_BYTES:
            raise ApiRefused("payload_too_large", f"the artifacts of one call have {CALL_ARTIFACT_BYTES} bytes at most")
        found: dict[str, ImageBase64Content | FileBase64Content] = {}
        left = CALL_ARTIFACT_BYTES
        for row in rows:
            content = await asyncio.to_thread(self._content, row, left)
            left -= len(content)
            found[row.artifact_id] = _element(row, content)
        return tuple(_with(message, found) for message in messages)

    async def _row(self, run: LiveRun, artifact_id: str) -> ArtifactRow:
        """As `artifacts.read` would find it."""
        allowed = check(run.grant, run.revoked, _READ, artifact_id)
        if isinstance(allowed, Denied):
            raise ApiRefused(allowed.code, allowed.sentence)
        row = await asyncio.to_thread(self._find, run, artifact_id)
        if row is None or row.sha256 is None:
            raise ApiRefused("not_found", "this run has no such artifact")
        run.take_in(row.flow)
        return row

    def _content(self, row: ArtifactRow, left: int) -> bytes:
        """Blocks. What the row says of its size is not believed."""
        sha256 = row.sha256 or ""
        try:
            if self._blobs.size(sha256) > left:
                raise ApiRefused(
                    "payload_too_large", f"the artifacts of one call have {CALL_ARTIFACT_BYTES} bytes at most"
                )
            return self._blobs.read(sha256, 0, left)
        except NotFound:
            raise ApiRefused("not_found", "the artifact has no content here") from None


def _element(row: ArtifactRow, content: bytes) -> ImageBase64Content | FileBase64Content:
    encoded = base64.b64encode(content).decode()
    mime_type = (row.mime_type or "application/octet-stream").partition(";")[0].strip().lower()
    if mime_type.startswith(_IMAGE):
        return ImageBase64Content(image_base64=f"data:{mime_type};base64,{encoded}")
    return FileBase64Content(file_base64=encoded, file_name=row.name)


def _with(message: Message, found: dict[str, ImageBase64Content | FileBase64Content]) -> Message:
    if isinstance(message.content, str):
        return message
    parts = tuple(found[part.artifact_id] if isinstance(part, ArtifactContent) else part for part in message.content)
    return message.model_copy(update={"content": parts})
