"""`bollard knowledge …`: knowledge bases of a host, their documents, and questions to them."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.choices import one_of
from bollard.cli.documents import KNOWLEDGE
from bollard.cli.errors import CheckFailed, HostRefusal, UsageProblem
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, at_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="knowledge", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

_EMBEDDINGS = ("bundled", "none")
_FLOW = ("private", "untrusted", "none")
Base = Annotated[str, typer.Argument(metavar="BASE", help="knowledge.base")]
Document = Annotated[str, typer.Argument(metavar="DOCUMENT", help="knowledge.document")]


@app.callback()
def knowledge(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="knowledge.list")
def list_bases(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="knowledge.add")
def add(
    ctx: typer.Context,
    base: Base,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="knowledge.name")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="knowledge.description")
    ] = None,
    embedding: Annotated[
        str | None, typer.Option("--embedding", metavar="|".join(_EMBEDDINGS), help="knowledge.embedding")
    ] = None,
    chunk_tokens: Annotated[
        int | None, typer.Option("--chunk-tokens", metavar="NUMBER", help="knowledge.chunk_tokens")
    ] = None,
    overlap_tokens: Annotated[
        int | None, typer.Option("--overlap-tokens", metavar="NUMBER", help="knowledge.overlap_tokens")
    ] = None,
    flow: Annotated[str | None, typer.Option("--flow", metavar="private,untrusted", help="knowledge.flow")] = None,
    rerank: Annotated[str | None, typer.Option("--rerank", metavar="MODEL", help="knowledge.rerank")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    wanted: dict[str, Any] = {
        "name": name,
        "description": description,
        "embedding": None if embedding is None else one_of("--embedding", embedding, _EMBEDDINGS),
        "chunk_tokens": chunk_tokens,
        "overlap_tokens": overlap_tokens,
        "flow": None if flow is None else _flow(flow),
        "rerank_model": rerank,
    }
    body = cast("JsonObject", {field: value for field, value in wanted.items() if value is not None})
    saved = asyncio.run(_changed(client, base, body))
    return shell.tell(
        saved,
        shell.text("knowledge.saved", base=base, revision=saved["revision"]),
        shell.text("knowledge.next", base=base),
    )


@app.command("show", cls=Command, help="knowledge.show")
def show(ctx: typer.Context, base: Base, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    found = asyncio.run(KNOWLEDGE.get(client, base))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.knowledge_text import base_lines

    return shell.tell(found, *base_lines(cast("dict[str, Any]", found), shell.text))


@app.command("remove", cls=Command, help="knowledge.remove")
def remove(ctx: typer.Context, base: Base, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(KNOWLEDGE.delete(client, base))
    return shell.tell(answer, shell.text("knowledge.removed" if answer["erased"] else "knowledge.removing", base=base))


@app.command("put", cls=Command, help="knowledge.put")
def put(
    ctx: typer.Context,
    base: Base,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="knowledge.files")],
    source: Annotated[str | None, typer.Option("--source", metavar="TEXT", help="knowledge.source")] = None,
    metadata: Annotated[list[str] | None, typer.Option("--meta", metavar="NAME=VALUE", help="knowledge.meta")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="knowledge.no_wait")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.knowledge_putting import index_bar, put_files, read_files

    shell, client = at_host(ctx, url, token)
    given = read_files(files, source, _pairs(metadata))
    with ExitStack() as stack:
        told = index_bar(shell, stack)
        items = asyncio.run(put_files(client, base, given, told, wait=not no_wait))
    failed = [item for item in items if item["status"] == "failed"]
    if shell.for_programs:
        shell.print_json({"items": items})
    else:
        from bollard.cli.knowledge_text import document_line

        for item in _told(items, shell):
            shell.print(document_line(item, shell.text))
    if failed:
        raise CheckFailed("error.knowledge_failed", "hint.knowledge_failed", count=len(failed), base=base)
    return 0


@app.command("documents", cls=Command, help="knowledge.documents")
def documents(ctx: typer.Context, base: Base, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.knowledge_putting import documents_of

    shell, client = at_host(ctx, url, token)
    items = asyncio.run(documents_of(base).all(client))
    if shell.for_programs:
        shell.print_json({"items": items})
        return 0
    if not items:
        shell.print(shell.text("knowledge.empty", base=base))
        return 0
    from bollard.cli.knowledge_text import documents_table

    shell.console().print(documents_table(_told(items, shell), shell.text))
    return 0


@app.command("forget", cls=Command, help="knowledge.forget")
def forget(ctx: typer.Context, base: Base, document: Document, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.knowledge_putting import documents_of

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(documents_of(base).delete(client, document))
    return shell.tell(answer, shell.text("knowledge.forgotten", base=base, document=document))


@app.command("ask", cls=Command, help="knowledge.ask")
def ask(
    ctx: typer.Context,
    base: Base,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="knowledge.question")],
    top_k: Annotated[int, typer.Option("--top", metavar="NUMBER", help="knowledge.top")] = 5,
    filters: Annotated[list[str] | None, typer.Option("--where", metavar="NAME=VALUE", help="knowledge.where")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.knowledge_putting import one_base

    shell, client = at_host(ctx, url, token)
    body: JsonObject = {"query": " ".join(question), "top_k": top_k, "filters": _pairs(filters)}
    found = asyncio.run(client.post(f"{one_base(base)}/retrieve", body))
    if shell.for_programs:
        shell.print_json(found)
        return 0
    from bollard.cli.knowledge_text import passage_lines

    chunks = cast("list[dict[str, Any]]", found["chunks"])
    if not chunks:
        shell.print(shell.text("knowledge.nothing"))
    for number, chunk in enumerate(chunks, start=1):
        for line in passage_lines(number, chunk, shell.text):
            shell.print(line)
    return 0


@app.command("reindex", cls=Command, help="knowledge.reindex")
def reindex(ctx: typer.Context, base: Base, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.knowledge_putting import one_base

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(client.post(f"{one_base(base)}/reindex", {}))
    return shell.tell(answer, shell.text("knowledge.reindexing", base=base))


def _told(items: list[dict[str, Any]], shell: Shell) -> list[dict[str, Any]]:
    """Documents, with what is wrong with them in the reader's language."""
    from bollard.cli.knowledge_problems import problem_in

    return [{**item, "error": problem_in(shell.text, item["error"] or "")} for item in items]


async def _changed(client: HostClient, base: str, body: "JsonObject") -> "JsonObject":
    """What is not said of a base that is there stays as it is; its revision says that nobody changed it meanwhile."""
    try:
        before = await KNOWLEDGE.get(client, base)
    except HostRefusal as refusal:
        if refusal.code != "not_found":
            raise
        before = {}
    return await KNOWLEDGE.put(client, base, {**before, **body})


def _flow(given: str) -> list[str]:
    bits = [one_of("--flow", bit, _FLOW) for bit in given.split(",")]
    return [bit for bit in bits if bit != "none"]


def _pairs(given: list[str] | None) -> "JsonObject":
    """`NAME=VALUE`; a name that comes again has several values."""
    found: dict[str, Any] = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UsageProblem("error.knowledge_pair", "hint.knowledge_pair", word=each)
        before = found.get(name)
        found[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return found


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, KNOWLEDGE, url, token, none="knowledge.none")
    if not items:
        return 0
    from bollard.cli.knowledge_text import bases_table

    shell.console().print(bases_table(items, shell.text))
    return 0
