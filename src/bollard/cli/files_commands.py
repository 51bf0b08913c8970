"""`bollard files …`: the files of a workspace, which agents can be given."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import FILES
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, at_host
from bollard.cli.limits import FILE_BYTES
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="files", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

FileId = Annotated[str, typer.Argument(metavar="ID", help="files.id")]


@app.callback()
def files(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="files.list")
def list_files(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="files.add")
def add(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="files.path")],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="files.name")] = None,
    media_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="files.type")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    content = _read(path)
    called = name or path.name
    made = cast("dict[str, Any]", asyncio.run(_send(client, called, media_type or _media_type(called), content)))
    return shell.tell(
        made,
        shell.text("files.added", file=made["file_id"], name=printable(made["name"]), size=made["size_bytes"]),
        shell.text("files.next", file=made["file_id"]),
    )


@app.command("show", cls=Command, help="files.show")
def show(ctx: typer.Context, file: FileId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    found = asyncio.run(FILES.get(client, file))
    return shell.tell(found, *(f"{field}: {printable(str(value))}" for field, value in found.items()))


@app.command("remove", cls=Command, help="files.remove")
def remove(ctx: typer.Context, file: FileId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(FILES.delete(client, file))
    return shell.tell(answer, shell.text("files.removed", file=file))


def _read(path: Path) -> bytes:
    """The whole file. Raises `UsageProblem`."""
    try:
        if path.is_file() and path.stat().st_size > FILE_BYTES:
            raise UsageProblem("error.file_large", "hint.file_large", path=path, most=FILE_BYTES)
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem("error.file", "hint.file", path=path, detail=error.strerror or error) from error


def _media_type(name: str) -> str:
    """What its name says that it is."""
    import mimetypes

    return mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


async def _send(client: HostClient, name: str, media_type: str, content: bytes) -> object:
    from urllib.parse import urlencode

    from bollard.cli.upload_bar import uploading

    with uploading(len(content)) as sent:
        return await client.upload("POST", f"{FILES.path}?{urlencode({'name': name})}", content, media_type, sent)


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, FILES, url, token, none="files.none")
    if not items:
        return 0
    from bollard.cli.tables import plain_table

    table = plain_table()
    for column in ("file", "name", "type", "size"):
        table.add_column(shell.text(f"files.column.{column}"), overflow="fold")
    for item in items:
        table.add_row(item["file_id"], printable(item["name"]), printable(item["mime_type"]), str(item["size_bytes"]))
    shell.console().print(table)
    return 0
