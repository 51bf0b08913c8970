"""The files of a message, as a host hands them to a run: an inline file is an artifact, and an attachment has the facts
of its artifact. An attached artifact that no test scripted stays as it is given."""

import base64
import binascii
import mimetypes
from collections.abc import Iterator
from typing import Final

from bollard import protocol
from bollard.protocol import (
    AgentInput,
    AgentRunContext,
    ArtifactContent,
    ArtifactRef,
    ContentElement,
    FileBase64Content,
    FileUrlContent,
    ImageBase64Content,
    ImageUrlContent,
)
from bollard.sdk.testing.stores import Artifacts

_DATA: Final = "data:"
_IMAGES: Final = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_UNKNOWN_TYPE: Final = "application/octet-stream"


def take_files(context: AgentRunContext, artifacts: Artifacts) -> AgentInput:
    """Return the input with its files as artifacts. Each of them is an element and an attachment."""
    given, place = context.input, context.conversation
    contents: list[ContentElement] = []
    attached: dict[str, ArtifactRef] = {}
    for element in given.contents:
        inline = _inline(element)
        if inline is None:
            contents.append(element)
            continue
        kept = artifacts.receive(*inline, place.conversation_id if place else None)
        contents.append(ArtifactContent(artifact_id=kept.artifact_id))
        attached[kept.artifact_id] = _reference(kept)
    for named in _named(given):
        found = artifacts.kept.get(named.artifact_id)
        attached[named.artifact_id] = named if found is None else _described(named, found.metadata)
    standing = {each.artifact_id for each in contents if isinstance(each, ArtifactContent)}
    contents += [ArtifactContent(artifact_id=each) for each in attached if each not in standing]
    return given.model_copy(update={"contents": tuple(contents), "attachments": tuple(attached.values())})


def _named(given: AgentInput) -> Iterator[ArtifactRef]:
    """The artifacts that the message names."""
    refs = {each.artifact_id: each for each in given.attachments}
    for element in given.contents:
        if isinstance(element, ArtifactContent):
            own = ArtifactRef(artifact_id=element.artifact_id, artifact_type="file")
            yield refs.pop(element.artifact_id, own)
    yield from refs.values()


def _described(named: ArtifactRef, kept: protocol.ArtifactMetadata) -> ArtifactRef:
    """The facts of the artifact, and those of the message for an artifact that was scripted as bytes alone."""
    if kept.mime_type is None:
        return named.model_copy(update={"size_bytes": kept.size_bytes, "sha256": kept.sha256})
    return _reference(kept)


def _reference(kept: protocol.ArtifactMetadata) -> ArtifactRef:
    return ArtifactRef(
        artifact_id=kept.artifact_id,
        artifact_type=kept.artifact_type,
        mime_type=kept.mime_type,
        name=kept.name,
        size_bytes=kept.size_bytes,
        sha256=kept.sha256,
        expires_at=kept.expires_at,
    )


def _inline(element: ContentElement) -> tuple[bytes, str, str | None] | None:
    """The content, type and name of an inline file; `None` for a text, an address or an artifact."""
    match element:
        case ImageBase64Content():
            encoded, name = element.image_base64, None
        case FileBase64Content():
            encoded, name = element.file_base64, element.file_name
        case ImageUrlContent() if element.image_url.url.startswith(_DATA):
            encoded, name = element.image_url.url, None
        case FileUrlContent() if element.file_url.startswith(_DATA):
            encoded, name = element.file_url, element.file_name
        case _:
            return None
    declared, comma, rest = encoded.partition(",") if encoded.startswith(_DATA) else ("", "", encoded)
    try:
        content = base64.b64decode(rest if comma else encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"contents: {element.type} is not base64: {error}") from error
    mime_type = declared.removeprefix(_DATA).partition(";")[0]
    return content, mime_type or _type_of(name, content), name


def _type_of(name: str | None, content: bytes) -> str:
    by_bytes = next((kind for magic, kind in _IMAGES.items() if content.startswith(magic)), _UNKNOWN_TYPE)
    return (name and mimetypes.guess_type(name)[0]) or by_bytes
