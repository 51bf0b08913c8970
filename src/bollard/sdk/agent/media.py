"""Images and files of messages, as content for a model: images for a model with vision, otherwise a line of text.

A small text file is inlined. No URL is fetched: the model fetches it, or a line of text names it.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any, Final

from bollard.protocol import (
    AgentInput,
    ArtifactContent,
    ArtifactRef,
    ContentElement,
    FileBase64Content,
    FileUrlContent,
    ImageBase64Content,
    ImageUrlContent,
    Message,
    TextContent,
)
from bollard.sdk.agent.tokens import cut_to_tokens
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

INLINE_FILES: Final = 4
"""Text files of one input that are inlined."""
INLINE_BYTES: Final = 64 * 1024
"""Bytes of each inlined file."""
IMAGE_BYTES: Final = 8 * 1024 * 1024
"""A larger image is only named: providers and the run API refuse it."""
NAME_CHARACTERS: Final = 120
URL_CHARACTERS: Final = 500
BLIND: Final = "[You cannot see images. If the question is about one, say so plainly.]"
"""The sentence for a model without vision, behind a message with images."""
_DOCUMENT_TOOL: Final = "read_document"

_TEXT_TYPES: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml"}
    | {"application/javascript", "application/sql", "application/x-sh", "application/csv"}
)
_TEXT_ENDINGS: Final = (
    *(".txt", ".md", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".html", ".log", ".ini"),
    *(".py", ".js", ".ts", ".java", ".c", ".h", ".cpp", ".go", ".rs", ".sh", ".sql"),
)

Parts = Sequence[ContentElement]


async def input_content(
    ctx: RunContext[Any], given: AgentInput, *, vision: bool, file_tokens: int
) -> tuple[str | tuple[ContentElement, ...], list[str]]:
    """The input as content for a model, and notes about content that the model cannot read."""
    parts: list[ContentElement] = []
    notes: list[str] = []
    inlined, ids, unseen = 0, reads_documents(ctx), False
    refs = {ref.artifact_id: ref for ref in given.attachments}
    for part in _elements(given):
        if isinstance(part, ArtifactContent):
            ref = refs.get(part.artifact_id) or await _looked_up(ctx, part.artifact_id)
            if vision and _is_image(ref) and (ref.size_bytes or 0) <= IMAGE_BYTES:
                parts.append(part)
                continue
            text = None
            if _is_text(ref) and inlined < INLINE_FILES:
                inlined += 1
                text = await _read(ctx, ref)
            unseen |= not vision and _is_image(ref)
            note = _note(ref, with_id=ids)
            parts.append(TextContent(text=note if text is None else _file(ref, text, file_tokens)))
            if text is None:
                notes.append(note)
        else:
            shown = _shown(part, vision=vision, file_tokens=file_tokens)
            parts.append(shown)
            if shown is not part:
                notes.append(shown.text)
                unseen |= isinstance(part, ImageUrlContent | ImageBase64Content)
    if unseen:
        parts.append(TextContent(text=BLIND))
    return plain(parts), notes


def reads_documents(ctx: RunContext[Any]) -> bool:
    """Whether the run has the tool that reads documents by their ids."""
    return any(tool.tool_name.rpartition("/")[2] == _DOCUMENT_TOOL for tool in ctx.resources.tools)


def history_content(
    content: str | Parts, refs: Iterable[ArtifactRef], *, vision: bool, ids: bool = False
) -> str | tuple[ContentElement, ...]:
    """An earlier message as content for a model. Files are named, with their `ids` if a tool reads them, and not
    inlined again."""
    if isinstance(content, str):
        return content
    known = {ref.artifact_id: ref for ref in refs}
    parts: list[ContentElement] = []
    for part in content:
        if isinstance(part, ArtifactContent):
            ref = known.get(part.artifact_id, _unknown(part.artifact_id))
            seen = vision and _is_image(ref) and (ref.size_bytes or 0) <= IMAGE_BYTES
            parts.append(part if seen else TextContent(text=_note(ref, with_id=ids)))
        else:
            # Inline data would be sent again with every run that has the message in its history.
            inline = isinstance(part, ImageUrlContent) and part.image_url.url.startswith("data:")
            again = vision and isinstance(part, ImageUrlContent) and not inline
            parts.append(part if again else _unseen(part))
    return plain(parts)


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages without images, for a model without vision."""
    return tuple(
        message if isinstance(message.content, str) else message.model_copy(update={"content": _blind(message.content)})
        for message in messages
    )


def _blind(content: Parts) -> str | tuple[ContentElement, ...]:
    parts = [_unseen(part) for part in content]
    return plain(parts if parts == list(content) else [*parts, TextContent(text=BLIND)])


def has_images(messages: Iterable[Message]) -> bool:
    """Whether a message has content other than text."""
    return any(
        not isinstance(part, TextContent)
        for message in messages
        if not isinstance(message.content, str)
        for part in message.content
    )


def plain(parts: Parts) -> str | tuple[ContentElement, ...]:
    """Text parts alone become one string, which every provider accepts."""
    if all(isinstance(part, TextContent) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextContent))
    return tuple(parts)


def _elements(given: AgentInput) -> list[ContentElement]:
    """Text, elements and attachments of the input, each once, in their order."""
    parts: list[ContentElement] = list(given.contents)
    text = "".join(part.text for part in parts if isinstance(part, TextContent))
    if given.text and given.text.strip() != text.strip():
        parts.insert(0, TextContent(text=given.text))
    standing = {part.artifact_id for part in parts if isinstance(part, ArtifactContent)}
    parts += [
        ArtifactContent(artifact_id=ref.artifact_id) for ref in given.attachments if ref.artifact_id not in standing
    ]
    return parts


def _shown(part: ContentElement, *, vision: bool, file_tokens: int) -> Any:
    """An element other than an artifact, unchanged or as text."""
    if isinstance(part, TextContent) or (vision and isinstance(part, ImageUrlContent | ImageBase64Content)):
        return part
    if isinstance(part, FileBase64Content) and file_tokens > 0:
        ref = ArtifactRef(artifact_id="", artifact_type="file", name=part.file_name)
        text = _decoded(part.file_base64) if _is_text(ref) else None
        if text is not None:
            return TextContent(text=_file(ref, text, file_tokens))
    return _unseen(part)


def _unseen(part: ContentElement) -> TextContent:
    if isinstance(part, TextContent):
        return part
    if isinstance(part, ImageUrlContent):
        url = part.image_url.url
        return TextContent(text=f"[image: {'inline' if url.startswith('data:') else url[:URL_CHARACTERS]}]")
    if isinstance(part, ImageBase64Content):
        return TextContent(text="[image: inline]")
    if isinstance(part, FileUrlContent):
        return TextContent(text=f"[file: {_name(part.file_name)} {part.file_url[:URL_CHARACTERS]}]")
    if isinstance(part, FileBase64Content):
        return TextContent(text=f"[file: {_name(part.file_name)}]")
    if isinstance(part, ArtifactContent):
        return TextContent(text="[image]")
    return TextContent(text=f"[{part.type[:NAME_CHARACTERS]}]")


async def _looked_up(ctx: RunContext[Any], artifact_id: str) -> ArtifactRef:
    if not ctx.access.available_apis.artifact_metadata:
        return _unknown(artifact_id)
    try:
        found = await ctx.api.artifacts.metadata(artifact_id)
    except AgentAPIException as error:
        ctx.log("an artifact of the input cannot be read", "warning", code=error.code)
        return _unknown(artifact_id)
    return ArtifactRef(
        artifact_id=artifact_id,
        artifact_type=found.artifact_type,
        mime_type=found.mime_type,
        name=found.name,
        size_bytes=found.size_bytes,
    )


async def _read(ctx: RunContext[Any], ref: ArtifactRef) -> str | None:
    if not ctx.access.available_apis.artifact_read:
        return None
    try:
        answer = await ctx.api.artifacts.read(ref.artifact_id, 0, INLINE_BYTES)
    except AgentAPIException as error:
        ctx.log("a file of the input could not be read", "warning", code=error.code)
        return None
    text = _decoded(answer.content_base64 or "", whole=not answer.has_more)
    return text if text is None or not answer.has_more else text + "\n…"


def _decoded(encoded: str, *, whole: bool = True) -> str | None:
    try:
        content = base64.b64decode(encoded, validate=True)[:INLINE_BYTES]
    except (binascii.Error, ValueError):
        return None
    # The range may end inside a character; any other invalid UTF-8 means that the file is not text.
    ends = range(1) if whole else range(4)
    for missing in ends:
        try:
            text = content[: len(content) - missing].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


def _file(ref: ArtifactRef, text: str, tokens: int) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{_note(ref)}\n{fence}\n{cut_to_tokens(text, tokens)}\n{fence}"


def _note(ref: ArtifactRef, *, with_id: bool = False) -> str:
    kind = "image" if _is_image(ref) else "file"
    facts = [_name(ref.name), _name(ref.mime_type) if ref.mime_type else ""]
    if ref.size_bytes is not None:
        facts.append(f"{ref.size_bytes} bytes")
    if with_id and kind == "file" and ref.artifact_id:
        facts.append(f"artifact_id {_name(ref.artifact_id)}")
    return f"[{kind}: {', '.join(part for part in facts if part) or 'unnamed'}]"


def _name(name: str | None) -> str:
    return " ".join((name or "").replace("[", "(").replace("]", ")").split())[:NAME_CHARACTERS]


def _unknown(artifact_id: str) -> ArtifactRef:
    return ArtifactRef(artifact_id=artifact_id, artifact_type="file")


def _is_image(ref: ArtifactRef) -> bool:
    return (ref.mime_type or "").startswith("image/") or (ref.mime_type is None and ref.artifact_type == "image")


def _is_text(ref: ArtifactRef) -> bool:
    kind = (ref.mime_type or "").partition(";")[0].strip().lower()
    if kind.startswith("text/") or kind in _TEXT_TYPES:
        return True
    return kind in ("", "application/octet-stream") and (ref.name or "").lower().endswith(_TEXT_ENDINGS)
