"""Files on their way into a knowledge base: read, sent one after the other, and watched until they are indexed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from bollard.cli.documents import KNOWLEDGE, DocumentKind
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import HostClient
from bollard.cli.limits import KNOWLEDGE_FILE_BYTES, KNOWLEDGE_FILES, KNOWLEDGE_LOOK_S
from bollard.cli.shell import Shell
from bollard.cli.upload_bar import uploading

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["GivenFile", "documents_of", "index_bar", "one_base", "put_files", "read_files"]

_MEDIA: Final = "application/octet-stream"
"""The host knows what a file is by its name."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ID_CHARACTERS: Final = 128
_SETTLED: Final = frozenset({"ready", "failed"})
Told = Callable[[int, int], None]
"""How many chunks are indexed, and how many there are as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file as it is sent."""

    path: Path
    document_id: str
    query: str


def one_base(base: str) -> str:
    return f"{KNOWLEDGE.path}/{quote(base, safe='')}"


def documents_of(base: str) -> DocumentKind:
    return DocumentKind(path=f"{one_base(base)}/documents", key="document_id")


def read_files(files: Sequence[Path], source: str | None, metadata: JsonObject) -> list[GivenFile]:
    """Each file, and those of each folder; what is hidden or a link is left out. Raises `UsageProblem`."""
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


def _given(path: Path, name: str, source: str | None, metadata: JsonObject) -> GivenFile:
    query = {"name": name[-256:]}
    if source is not None:
        query["source"] = source
    if metadata:
        query["metadata"] = json.dumps(metadata, ensure_ascii=False)
    return GivenFile(path=path, document_id=document_id_of(name), query=urlencode(query))


def document_id_of(name: str) -> str:
    """The same name always gets the same id, so that a file that is sent again replaces what was there."""
    plain = _ODD.sub("-", name).lstrip("._-")
    if plain == name and len(name) <= _ID_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{plain[: _ID_CHARACTERS - 13].rstrip('-') or 'file'}-{digest}"


def _nobody(done: int, total: int) -> None:
    """Where nobody looks."""


def index_bar(shell: Shell, stack: ExitStack) -> Told:
    """A bar on stderr that fills while documents are indexed; where nobody looks, nothing."""
    console = shell.console(stderr=True)
    if not console.is_terminal:
        return _nobody
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task(shell.text("knowledge.indexing"), total=None)
    return lambda done, total: progress.update(task, completed=done, total=total or None)


async def put_files(
    client: HostClient, base: str, files: Sequence[GivenFile], told: Told, *, wait: bool
) -> list[dict[str, Any]]:
    """Send every file; then, unless nobody wants to wait, look until each is indexed or failed."""
    path = f"{one_base(base)}/documents"
    items: dict[str, dict[str, Any]] = {}
    for file in files:
        content = await asyncio.to_thread(file.path.read_bytes)
        with uploading(len(content)) as sent:
            where = f"{path}/{quote(file.document_id, safe='')}?{file.query}"
            items[file.document_id] = cast("dict[str, Any]", await client.upload("PUT", where, content, _MEDIA, sent))
    while wait and (waiting := [name for name, item in items.items() if item["status"] not in _SETTLED]):
        told(sum(item["done_chunks"] for item in items.values()), sum(item["chunks"] for item in items.values()))
        await asyncio.sleep(KNOWLEDGE_LOOK_S)
        for name in waiting:
            items[name] = cast("dict[str, Any]", await client.get(f"{path}/{quote(name, safe='')}"))
    return [*items.values()]
