"""Messages, their content, and what they refer to (§4). These travel both ways, so they are tolerant."""

from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag

from bollard.protocol.shape import Bytes64, Digest, Int, JsonObject, Timestamp, Tolerant

__all__ = [
    "ArtifactContent",
    "ArtifactRef",
    "ContentElement",
    "FileBase64Content",
    "FileUrlContent",
    "FunctionCall",
    "FunctionCallChunk",
    "ImageBase64Content",
    "ImageUrl",
    "ImageUrlContent",
    "Message",
    "MessageChunk",
    "OtherContent",
    "Role",
    "TextContent",
    "ToolCall",
    "ToolCallChunk",
    "Usage",
]

Role = Literal["user", "assistant", "system", "tool"]


class ArtifactRef(Tolerant):
    """A handle of large content; reading it needs the grant."""

    artifact_id: str
    artifact_type: str
    mime_type: str | None = None
    name: str | None = None
    size_bytes: Int | None = Field(default=None, ge=0)
    sha256: Digest | None = None
    summary: str | None = None
    expires_at: Timestamp | None = None


_KNOWN_CONTENT: Final = ("text", "image_url", "image_base64", "file_url", "file_base64", "artifact")


def _name_the_type(schema: dict[str, Any]) -> None:
    # In code `type` has a default; on the wire it is what tells the elements apart.
    schema["required"] = ["type", *(name for name in schema["required"] if name != "type")]


def _unknown_type(kind: str) -> str:
    if kind in _KNOWN_CONTENT:
        raise ValueError(f"{kind!r} is a known type with a shape of its own")
    return kind


class _Content(Tolerant):
    """One element of content."""

    model_config = ConfigDict(json_schema_extra=_name_the_type)


class TextContent(_Content):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ImageUrl(Tolerant):
    """Where an image is."""

    url: str


class ImageUrlContent(_Content):
    """An image behind a URL."""

    type: Literal["image_url"] = "image_url"
    image_url: ImageUrl


class ImageBase64Content(_Content):
    """A small image, inline."""

    type: Literal["image_base64"] = "image_base64"
    image_base64: str


class FileUrlContent(_Content):
    """A file behind a URL."""

    type: Literal["file_url"] = "file_url"
    file_url: str
    file_name: str | None = None


class FileBase64Content(_Content):
    """A small file, inline."""

    type: Literal["file_base64"] = "file_base64"
    file_base64: Bytes64
    file_name: str | None = None


class ArtifactContent(_Content):
    """Content kept in the artifact store."""

    type: Literal["artifact"] = "artifact"
    artifact_id: str


class OtherContent(_Content):
    """Content of a type this version does not know: kept by name, skipped by readers."""

    type: Annotated[str, AfterValidator(_unknown_type)] = Field(json_schema_extra={"not": {"enum": [*_KNOWN_CONTENT]}})


def _content_tag(value: object) -> str:
    kind = cast("dict[str, object]", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in _KNOWN_CONTENT else "other"


ContentElement = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ImageUrlContent, Tag("image_url")]
    | Annotated[ImageBase64Content, Tag("image_base64")]
    | Annotated[FileUrlContent, Tag("file_url")]
    | Annotated[FileBase64Content, Tag("file_base64")]
    | Annotated[ArtifactContent, Tag("artifact")]
    | Annotated[OtherContent, Tag("other")],
    Discriminator(_content_tag),
]
"""One element of a message: `TextContent`, an image, a file, `ArtifactContent`, or an element of a newer peer."""


class FunctionCall(Tolerant):
    """The function a model wants called; `arguments` is JSON text, as models write it."""

    name: str
    arguments: str


class ToolCall(Tolerant):
    """One call a model asks for."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class FunctionCallChunk(Tolerant):
    """An increment of a function call."""

    name: str | None = None
    arguments: str | None = None


class ToolCallChunk(Tolerant):
    """An increment of the tool call at `index`."""

    index: Int = Field(ge=0)
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionCallChunk | None = None


class Usage(Tolerant):
    """Tokens, as the provider counted them. Unknown is absent, not zero."""

    prompt_tokens: Int | None = Field(default=None, ge=0)
    completion_tokens: Int | None = Field(default=None, ge=0)
    total_tokens: Int | None = Field(default=None, ge=0)


class Message(Tolerant):
    """One whole message."""

    role: Role
    content: str | tuple[ContentElement, ...] = ""
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    artifact_refs: tuple[ArtifactRef, ...] | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    metadata: JsonObject | None = None


class MessageChunk(Tolerant):
    """An increment of a message: `content` and `reasoning` are added to what came before, never cumulative."""

    role: Role = "assistant"
    content: str | tuple[ContentElement, ...] = ""
    tool_calls: tuple[ToolCallChunk, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    artifact_refs: tuple[ArtifactRef, ...] | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    metadata: JsonObject | None = None
