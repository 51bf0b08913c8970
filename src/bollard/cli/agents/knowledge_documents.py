"""Uploads files into a knowledge base."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

from bollard.cli.client.documents import Resource
from bollard.cli.client.host_client import HostClient
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import KNOWLEDGE_FILE_BYTES, KNOWLEDGE_FILES, KNOWLEDGE_LOOK_S
from bollard.cli.terminal.progress_bar import uploading

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


KNOWLEDGE: Final = Resource(path="/api/v1/knowledge", key="kb_id")
_MEDIA: Final = "application/octet-stream"
"""The host derives the type from the name."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ID_CHARACTERS: Final = 128
_SETTLED: Final = frozenset({"ready", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFile:
    """A file to upload."""

    path: Path
    document_id: str
    query: str


def documents_of(base: str) -> Resource:
    return Resource(path=KNOWLEDGE.one(base, "/documents"), key="document_id")


def read_files(files: Sequence[Path], source: str | None, metadata: JsonObject) -> list[UploadFile]:
    """The files, and those of folders, without hidden files and links. Raises `UsageProblem`."""
    found: list[tuple[Path, str]] = []
    for file in files:
        if file.is_dir():
            found += [
                (path, path.relative_to(file).as_posix()) for path in sorted(file.rglob("*")) if _is_plain(path, file)
            ]
        elif file.is_file():
            found.append((file, file.name))
        else:
            raise UsageProblem("error.knowledge_file", "hint.knowledge_file", path=file)
    if not found or len(found) > KNOWLEDGE_FILES:
        raise UsageProblem("error.knowledge_files", "hint.knowledge_files", count=len(found), most=KNOWLEDGE_FILES)
    for path, _ in found:
        if path.stat().st_size > KNOWLEDGE_FILE_BYTES:
            raise UsageProblem("error.knowledge_large", "hint.knowledge_large", path=path, most=KNOWLEDGE_FILE_BYTES)
    return [_given(path, name, source, metadata) for path, name in found]


def _is_plain(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder).parts
    linked = any((folder.joinpath(*inside[: depth + 1])).is_symlink() for depth in range(len(inside)))
    return path.is_file() and not linked and not any(part.startswith(".") for part in inside)


def _given(path: Path, name: str, source: str | None, metadata: JsonObject) -> UploadFile:
    query = {"name": name[-256:]}
    if source is not None:
        query["source"] = source
    if metadata:
        query["metadata"] = json.dumps(metadata, ensure_ascii=False)
    return UploadFile(path=path, document_id=document_id_of(name), query=urlencode(query))


def document_id_of(name: str) -> str:
    """A stable id for a name, so that uploading a file again replaces its document."""
    plain = _ODD.sub("-", name).lstrip("._-")
    if plain == name and len(name) <= _ID_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{plain[: _ID_CHARACTERS - 13].rstrip('-') or 'file'}-{digest}"


async def put_files(
    client: HostClient,
    base: str,
    files: Sequence[UploadFile],
    update: Callable[[int, int | None], None],
    *,
    wait: bool,
) -> list[dict[str, Any]]:
    """Send every file; with `wait`, look until each is indexed or failed. `update` is called with the number of indexed
    chunks, and of all that are known."""
    documents = documents_of(base)
    items: dict[str, dict[str, Any]] = {}
    for file in files:
        content = await asyncio.to_thread(file.path.read_bytes)
        with uploading(len(content)) as sent:
            where = documents.one(file.document_id, f"?{file.query}")
            items[file.document_id] = cast("dict[str, Any]", await client.upload("PUT", where, content, _MEDIA, sent))
    while wait and (waiting := [name for name, item in items.items() if item["status"] not in _SETTLED]):
        total = sum(item["chunks"] for item in items.values())
        update(sum(item["done_chunks"] for item in items.values()), total or None)
        await asyncio.sleep(KNOWLEDGE_LOOK_S)
        for name in waiting:
            items[name] = cast("dict[str, Any]", await client.get(documents.one(name)))
    return [*items.values()]
