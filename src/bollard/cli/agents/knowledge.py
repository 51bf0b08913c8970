"""`bollard knowledge …`: knowledge bases of a host, their documents, and queries.

The text of documents is untrusted: control characters are escaped.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import urlencode

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.client.host_client import HostClient
from bollard.cli.command import CommandGroup
from bollard.cli.errors import CheckFailed, CliError, HostRefusal, UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import KNOWLEDGE_FILE_BYTES, KNOWLEDGE_FILES, KNOWLEDGE_LOOK_S
from bollard.cli.options import given_values, one_of, pairs_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable, shorten
from bollard.cli.terminal.progress_bar import progress_bar, uploading

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

KNOWLEDGE: Final = Resource(path="/api/v1/knowledge", key="kb_id")
_MEDIA: Final = "application/octet-stream"
"""The host derives the type from the name."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ID_CHARACTERS: Final = 128
_SKIPPED: Final = frozenset({"unsupported_media_type", "payload_too_large"})
"""Refusals of one file that do not concern the others."""
_SETTLED: Final = frozenset({"ready", "failed"})
_EMBEDDINGS = ("bundled", "none")
_FLOW = ("private", "untrusted", "none")
_PASSAGE_CHARACTERS = 600
Base = Annotated[str, typer.Argument(metavar="BASE", help="knowledge.base")]
Document = Annotated[str, typer.Argument(metavar="DOCUMENT", help="knowledge.document")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseOptions:
    """Options of chunks, embedding and ranking."""

    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="knowledge.name")] = None
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="knowledge.description")] = (
        None
    )
    embedding: Annotated[
        str | None, typer.Option("--embedding", metavar="|".join(_EMBEDDINGS), help="knowledge.embedding")
    ] = None
    chunk_tokens: Annotated[
        int | None, typer.Option("--chunk-tokens", metavar="NUMBER", help="knowledge.chunk_tokens")
    ] = None
    overlap_tokens: Annotated[
        int | None, typer.Option("--overlap-tokens", metavar="NUMBER", help="knowledge.overlap_tokens")
    ] = None
    flow: Annotated[str | None, typer.Option("--flow", metavar="private,untrusted", help="knowledge.flow")] = None
    rerank: Annotated[str | None, typer.Option("--rerank", metavar="MODEL", help="knowledge.rerank")] = None

    def document(self) -> dict[str, Any]:
        """The given fields. Raises `UsageProblem`."""
        embedding = None if self.embedding is None else one_of("--embedding", self.embedding, _EMBEDDINGS)
        bits = None if self.flow is None else [one_of("--flow", bit, _FLOW) for bit in self.flow.split(",")]
        return given_values(
            {
                "name": self.name,
                "description": self.description,
                "embedding": embedding,
                "chunk_tokens": self.chunk_tokens,
                "overlap_tokens": self.overlap_tokens,
                "flow": None if bits is None else [bit for bit in bits if bit != "none"],
                "rerank_model": self.rerank,
            }
        )


def base_lines(base: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a knowledge base."""
    yield text("knowledge.head", base=base["kb_id"], name=printable(base["name"] or base["kb_id"]))
    if base["description"]:
        yield f"  {printable(base['description'])}"
    yield text("knowledge.cut", embedding=base["embedding"], chunk=base["chunk_tokens"], overlap=base["overlap_tokens"])
    yield text("knowledge.brings", flow=", ".join(base["flow"]) or text("knowledge.brings_nothing"))
    if base["rerank_model"] is not None:
        yield text("knowledge.reranked", model=printable(base["rerank_model"]))


def _status(item: dict[str, Any], text: Text) -> str:
    error, _ = _failure(item, text)
    return text(f"knowledge.status.{item['status']}", chunks=item["chunks"], done=item["done_chunks"], error=error)


def _failure(item: dict[str, Any], text: Text) -> tuple[str, str]:
    """The problem of a failed document, and the hint."""
    # An earlier version stored no reason.
    problem: dict[str, Any] = item.get("problem") or {"reason": "", "hint": "", "details": {}}
    details = {**problem["details"], "reason": problem["reason"]}
    error, hint = text.host_error("document_unreadable", details, item["error"] or "", problem["hint"])
    return printable(error), printable(hint)


def _document_lines(items: Sequence[dict[str, Any]], text: Text) -> Iterator[str]:
    """Every document with its status; a failed one with the hint."""
    for item in items:
        name = printable(item["name"] or item["document_id"])
        yield text("knowledge.document_line", document=name, status=_status(item, text))
        if hint := _failure(item, text)[1]:
            yield f"  {text('hint', hint=hint)}"


def passage_lines(chunks: Sequence[dict[str, Any]], text: Text) -> Iterator[str]:
    """Every passage with its source."""
    if not chunks:
        yield text("knowledge.nothing")
    for number, chunk in enumerate(chunks, start=1):
        source: dict[str, Any] = chunk["source"]
        named = str(source.get("source") or source.get("name") or chunk["kb_id"])
        headings = " › ".join(map(str, source["headings"]))
        where = printable(f"{named} › {headings}" if headings else named)
        if source.get("page") is not None:
            where = text("knowledge.page", where=where, page=source["page"])
        yield text("knowledge.passage", number=number, where=where, score=f"{chunk['score']:.3f}")
        yield f"    {shorten(chunk['text'], _PASSAGE_CHARACTERS)}"


_DOCUMENTS: Final = (
    Column("document", "document_id"),
    Column("name", "name"),
    Column("status", _status),
    Column("size", "size_bytes"),
)

app = CommandGroup("knowledge")
app.add_list(
    KNOWLEDGE, (Column("base", "kb_id"), Column("name", "name"), Column("about", "description")), none="knowledge.none"
)


@app.command("add")
def add(shell: HostShell, base: Base, options: BaseOptions) -> int:
    body = options.document()
    # Omitted options keep their saved value; the revision detects concurrent changes.
    try:
        before = shell.get(KNOWLEDGE.one(base))
    except HostRefusal as refusal:
        if refusal.code != "not_found":
            raise
        before = {}
    saved = shell.put(KNOWLEDGE.one(base), {**before, **body})
    return shell.tell(
        saved,
        shell.text("knowledge.saved", base=base, revision=saved["revision"]),
        shell.text("knowledge.next", base=base),
    )


app.add_show(KNOWLEDGE, ("base", Base), base_lines)


@app.command("remove")
def remove(shell: HostShell, base: Base) -> int:
    answer = shell.delete(KNOWLEDGE.one(base))
    return shell.tell(answer, shell.text("knowledge.removed" if answer["erased"] else "knowledge.removing", base=base))


@app.command("put")
def put(
    shell: HostShell,
    base: Base,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="knowledge.files")],
    source: Annotated[str | None, typer.Option("--source", metavar="TEXT", help="knowledge.source")] = None,
    metadata: Annotated[list[str] | None, typer.Option("--meta", metavar="NAME=VALUE", help="knowledge.meta")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="knowledge.no_wait")] = False,
) -> int:
    given = read_files(files, source, _pairs(metadata))
    with ExitStack() as stack:
        update = progress_bar(shell, stack, "knowledge.indexing")
        items, skipped = shell.run(put_files(shell.client, base, given, update, wait=not no_wait))
    text = shell.text
    names = [{"name": each.name, "reason": each.reason(text)} for each in skipped]
    lines = [
        *_document_lines(items, text),
        *(
            text("knowledge.skipped_line", name=printable(each["name"]), reason=printable(each["reason"]))
            for each in names
        ),
    ]
    shell.show({"items": items, "skipped": names}, lines)
    if failed := sum(item["status"] == "failed" for item in items):
        raise CheckFailed("error.knowledge_failed", "hint.knowledge_failed", count=failed, base=base)
    if skipped:
        raise CheckFailed("error.knowledge_skipped", "hint.knowledge_skipped", count=len(skipped), sent=len(items))
    return 0


@app.command("documents")
def documents(shell: HostShell, base: Base) -> int:
    items = shell.all(documents_of(base))
    if not items and not shell.for_programs:
        return shell.tell(items, shell.text("knowledge.empty", base=base))
    return shell.show_items({"items": items}, "knowledge", _DOCUMENTS)


@app.command("forget")
def forget(shell: HostShell, base: Base, document: Document) -> int:
    answer = shell.delete(documents_of(base).one(document))
    return shell.tell(answer, shell.text("knowledge.forgotten", base=base, document=document))


@app.command("ask")
def ask(
    shell: HostShell,
    base: Base,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="knowledge.question")],
    top_k: Annotated[int, typer.Option("--top", metavar="NUMBER", help="knowledge.top")] = 5,
    filters: Annotated[list[str] | None, typer.Option("--where", metavar="NAME=VALUE", help="knowledge.where")] = None,
) -> int:
    body = {"query": " ".join(question), "top_k": top_k, "filters": _pairs(filters)}
    found = shell.post(KNOWLEDGE.one(base, "/retrieve"), body)
    return shell.show(found, passage_lines(found["chunks"], shell.text))


@app.command("reindex")
def reindex(shell: HostShell, base: Base) -> int:
    answer = shell.post(KNOWLEDGE.one(base, "/reindex"))
    return shell.tell(answer, shell.text("knowledge.reindexing", base=base))


def _pairs(given: list[str] | None) -> dict[str, Any]:
    """Parse `NAME=VALUE`; a repeated name has several values."""
    found: dict[str, list[str]] = {}
    for name, value in pairs_of(given, "error.knowledge_pair", "hint.knowledge_pair"):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


# --- uploads ---


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFile:
    """A file to upload."""

    path: Path
    name: str
    document_id: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    """A file that is not a document for this host."""

    name: str
    problem: CliError

    def reason(self, text: Text) -> str:
        """Why it is skipped, in a language."""
        if not isinstance(self.problem, HostRefusal):
            return self.problem.sentences(text)[0]
        return text.host_error(self.problem.code, self.problem.details, str(self.problem.fields["detail"]), "")[0]


def documents_of(base: str) -> Resource:
    return Resource(path=KNOWLEDGE.one(base, "/documents"), key="document_id")


def read_files(files: Sequence[Path], source: str | None, metadata: "JsonObject") -> list[UploadFile]:
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
    for path in files:  # of a folder, such files are skipped
        if (problem := _size_problem(path)) is not None:
            raise problem
    return [_upload_file(path, name, source, metadata) for path, name in found]


def _size_problem(path: Path) -> UsageProblem | None:
    if not path.is_file() or path.stat().st_size <= KNOWLEDGE_FILE_BYTES:
        return None
    return UsageProblem("error.knowledge_large", "hint.knowledge_large", path=path, most=KNOWLEDGE_FILE_BYTES)


def _is_plain(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder).parts
    linked = any((folder.joinpath(*inside[: depth + 1])).is_symlink() for depth in range(len(inside)))
    return path.is_file() and not linked and not any(part.startswith(".") for part in inside)


def _upload_file(path: Path, name: str, source: str | None, metadata: "JsonObject") -> UploadFile:
    query = {"name": name[-256:]}
    if source is not None:
        query["source"] = source
    if metadata:
        query["metadata"] = json.dumps(metadata, ensure_ascii=False)
    return UploadFile(path=path, name=name, document_id=document_id_of(name), query=urlencode(query))


def document_id_of(name: str) -> str:
    """A stable id for a name, so that uploading a file again replaces its document."""
    plain = _ODD.sub("-", name).lstrip("._-")
    if plain == name and len(name) <= _ID_CHARACTERS:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{plain[: _ID_CHARACTERS - 13].rstrip('-') or 'file'}-{digest}"


async def put_files(
    client: HostClient, base: str, files: Sequence[UploadFile], update: Callable[[int, int | None], None], *, wait: bool
) -> tuple[list[dict[str, Any]], list[SkippedFile]]:
    """Send every file and skip those that the host cannot read; with `wait`, poll until each is indexed or failed.
    `update` is called with the numbers of indexed and of known chunks."""
    documents = documents_of(base)
    items: dict[str, dict[str, Any]] = {}
    skipped: list[SkippedFile] = []
    for file in files:
        if (problem := _size_problem(file.path)) is not None:
            skipped.append(SkippedFile(name=file.name, problem=problem))
            continue
        content = await asyncio.to_thread(file.path.read_bytes)
        where = documents.one(file.document_id, f"?{file.query}")
        try:
            with uploading(len(content)) as sent:
                item = await client.upload("PUT", where, content, _MEDIA, sent)
        except HostRefusal as refusal:
            if refusal.code not in _SKIPPED:
                raise
            skipped.append(SkippedFile(name=file.name, problem=refusal))
        else:
            items[file.document_id] = cast("dict[str, Any]", item)
    while wait and (waiting := [name for name, item in items.items() if item["status"] not in _SETTLED]):
        total = sum(item["chunks"] for item in items.values())
        update(sum(item["done_chunks"] for item in items.values()), total or None)
        await asyncio.sleep(KNOWLEDGE_LOOK_S)
        for name in waiting:
            items[name] = cast("dict[str, Any]", await client.get(documents.one(name)))
    return [*items.values()], skipped
