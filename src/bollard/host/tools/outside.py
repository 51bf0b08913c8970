"""The tools that use ports of the host: `http_fetch`, `artifact_read`, `artifact_write`, `read_document`,
`ask_user`."""

import codecs
import re
from typing import Final

from bollard.confine.paths import split_path
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.egress.destination import EgressRequest, EgressResponse
from bollard.host.errors import KnowledgeUnavailable, ToolFailed
from bollard.host.limits import ACTION_OUTPUT_BYTES, DOCUMENT_CHARACTERS, MIB
from bollard.host.tools.files import FileTools, Workspaces
from bollard.host.tools.ports import (
    DocumentReader,
    Fetcher,
    Questions,
    ToolArtifacts,
    number,
    problem,
    string,
    string_or,
    text,
)
from bollard.protocol import JsonObject
from bollard.wire.knowledge_frames import DOCUMENT_BYTES

_FETCH_BYTES: Final = 4 * MIB
_DOCUMENT_PIECE_BYTES: Final = 1 * MIB
_ARTIFACT_TEXT_BYTES: Final = 1 * MIB
"""The part of an artifact that one call returns as text."""
_TEXTS: Final = ("application/json", "application/xml", "application/javascript", "application/x-ndjson")
_CHARSETS: Final = re.compile(
    r"ascii|utf-(?:8|8-sig|16|16-le|16-be)|iso8859-\d+|cp\d+|koi8-[ru]|gbk|gb2312|gb18030|hz|big5|big5hkscs|"
    r"euc_jp|euc_kr|shift_jis|iso2022_jp|iso2022_kr|mac-(?:roman|cyrillic)"
)


class FetchTool:
    """Fetches pages and APIs through the egress guard."""

    def __init__(self, fetcher: Fetcher, files: FileTools, workspaces: Workspaces) -> None:
        self._fetcher = fetcher
        self._files = files
        self._workspaces = workspaces

    async def fetch(self, order: CallOrder) -> CallResult:
        path = string_or(order.arguments, "save_as", "")
        if path:
            split_path(path)  # refuse a bad path before the request
        accept = string_or(order.arguments, "accept", "*/*")
        response = await self._fetcher.fetch(
            EgressRequest(
                url=string(order.arguments, "url"),
                method=string_or(order.arguments, "method", "GET"),
                headers=(("accept", accept),),
                max_bytes=_FETCH_BYTES,
                timeout_s=order.timeout_s,
            )
        )
        facts: JsonObject = {
            "url": response.url,
            "status": response.status,
            "content_type": response.header("content-type"),
            "bytes": len(response.body),
            "truncated": response.truncated,
        }
        if path:
            async with self._workspaces.changing(order.context.run_id):
                await self._files.put(order, path, response.body)
            return text(f"status {response.status}, {len(response.body)} bytes saved as {path}", facts)
        body = _as_text(response)
        if body is None:
            return problem(f"status {response.status}: the body is {facts['content_type']}, not text", "use save_as")
        head = f"status {response.status}{', truncated' if response.truncated else ''}"
        return CallResult(content=({"type": "text", "text": f"{head}\n{body}"},), structured=facts)


class ArtifactTools:
    """Reads and writes artifacts of the run's conversation, as text or as files of its folder."""

    def __init__(self, artifacts: ToolArtifacts, files: FileTools, workspaces: Workspaces) -> None:
        self._artifacts = artifacts
        self._files = files
        self._workspaces = workspaces

    async def read(self, order: CallOrder) -> CallResult:
        artifact_id, path = string(order.arguments, "artifact_id"), string_or(order.arguments, "save_as", "")
        offset = number(order.arguments, "offset", 0)
        length = ACTION_OUTPUT_BYTES if path else _ARTIFACT_TEXT_BYTES
        piece = await self._artifacts.read(order.context, artifact_id, offset, length)
        facts: JsonObject = {"name": piece.name, "mime_type": piece.mime_type, "size": piece.size, "offset": offset}
        if path:
            if offset + len(piece.content) < piece.size:
                return problem(f"the artifact has {piece.size} bytes, more than a file may have")
            async with self._workspaces.changing(order.context.run_id):
                await self._files.put(order, path, piece.content)
            return text(f"{len(piece.content)} bytes saved as {path}", facts, flow=piece.flow)
        try:
            content = piece.content.decode()
        except UnicodeDecodeError as error:
            if error.start < len(piece.content) - 4:  # more than a last character that was cut
                return problem(f"the artifact is {piece.mime_type}, not text", "use save_as")
            content = piece.content[: error.start].decode()
        end = offset + len(content.encode())
        rest = f"\n[bytes {offset} to {end} of {piece.size}]" if end < piece.size or offset else ""
        return text(content + rest, facts, flow=piece.flow)

    async def write(self, order: CallOrder) -> CallResult:
        name, mime_type = string(order.arguments, "name"), string_or(order.arguments, "mime_type", "text/plain")
        path = string_or(order.arguments, "path", "")
        if bool(path) == ("content" in order.arguments):
            return problem("give either content or path")
        content = await self._files.content(order, path) if path else string(order.arguments, "content").encode()
        reference = await self._artifacts.write(
            order.context, call_id=order.call_id, name=name, mime_type=mime_type, content=content
        )
        return CallResult(
            content=({"type": "text", "text": f"saved as artifact {reference.get('artifact_id')}"},),
            structured=reference,
            artifact_refs=(reference,),
        )


class DocumentTool:
    """Reads the text of attached documents. Another process extracts it, with limits on time, memory and packing."""

    def __init__(self, artifacts: ToolArtifacts, documents: DocumentReader) -> None:
        self._artifacts = artifacts
        self._documents = documents

    async def read(self, order: CallOrder) -> CallResult:
        artifact_id, offset = string(order.arguments, "artifact_id"), number(order.arguments, "offset", 0)
        limit = number(order.arguments, "limit", DOCUMENT_CHARACTERS)
        content, piece = b"", None
        while piece is None or (piece.content and len(content) < piece.size):
            piece = await self._artifacts.read(order.context, artifact_id, len(content), _DOCUMENT_PIECE_BYTES)
            if piece.size > DOCUMENT_BYTES:
                return problem(f"the document has {piece.size} bytes; at most {DOCUMENT_BYTES} are read")
            content += piece.content
        try:
            found = await self._documents.extract(
                name=piece.name or "", mime_type=piece.mime_type, content=content, offset=offset, limit=limit
            )
        except KnowledgeUnavailable as error:
            return problem(error.message, error.hint)
        if found.problem is not None:
            return problem(f"the document cannot be read: {found.problem}")
        end = offset + len(found.text)
        facts: JsonObject = {"name": piece.name, "characters": found.characters, "offset": offset, "end": end}
        rest = f"\n[characters {offset} to {end} of {found.characters}]" if offset or end < found.characters else ""
        return text(found.text + rest, facts, flow=piece.flow)


class QuestionTool:
    """Asks the person in the conversation a question."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def ask(self, order: CallOrder) -> CallResult:
        choices = order.arguments.get("choices") or []
        if not isinstance(choices, list):
            raise ToolFailed("choices must be a list", reason="choices_not_list", hint="see the tool's schema")
        question = string(order.arguments, "question")
        answer = await self._questions.ask(order, question, tuple(str(choice) for choice in choices))
        return text(answer, {"answer": answer})


def _as_text(response: EgressResponse) -> str | None:
    kind, _, rest = (response.header("content-type") or "").lower().partition(";")
    kind = kind.strip()
    if not response.body:
        return ""
    if kind and not kind.startswith("text/") and kind not in _TEXTS and not kind.endswith(("+json", "+xml")):
        return None
    return response.body.decode(_charset(rest.partition("charset=")[2].split(";")[0].strip(" \"'")), errors="replace")


def _charset(label: str) -> str:
    """A charset that web pages use. Other codecs are not for text, or take quadratic time."""
    try:
        name = codecs.lookup(label or "utf-8").name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARSETS.fullmatch(name) else "utf-8"
