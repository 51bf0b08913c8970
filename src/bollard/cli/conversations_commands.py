"""`bollard conversations …`: which there are, and what was said in one."""

import os
from typing import Annotated, Any, cast
from urllib.parse import quote, urlencode

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.moments import day_of
from bollard.cli.shell import Shell
from bollard.protocol import limits

__all__ = ["app"]

app = typer.Typer(
    cls=Group, help="conversations", rich_markup_mode=None, add_completion=False, invoke_without_command=True
)

Limit = Annotated[int, typer.Option("--limit", metavar="N", help="conversations.limit")]
_PAGE = 20
_PATH = "/api/v1/conversations"


@app.callback()
def conversations(ctx: typer.Context) -> int:
    return _list(ctx.obj, _PAGE, None, None) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="conversations.list")
def list_conversations(
    ctx: typer.Context, limit: Limit = _PAGE, url: UrlOption = None, token: TokenOption = None
) -> int:
    return _list(ctx.obj, limit, url, token)


@app.command("show", cls=Command, help="conversations.show")
def show(
    ctx: typer.Context,
    conversation: Annotated[str, typer.Argument(metavar="ID", help="conversations.id")],
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="conversations.thread")] = None,
    bot: Annotated[str | None, typer.Option("--bot", metavar="ID", help="conversations.bot")] = None,
    limit: Limit = _PAGE,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    asked = {"limit": _counted(limit), "thread": thread, "bot": bot}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    path = f"{_PATH}/{quote(conversation, safe='')}/messages?{query}"
    page = asyncio.run(find_host(url, token, os.environ).get(path))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    if page["has_more"]:
        shell.print(shell.text("conversations.more"))
    for item in reversed(cast("list[dict[str, Any]]", page["items"])):  # people read downwards
        said = printable(item.get("content") or "")
        shell.print(f"{day_of(item['created_at'])}  {printable(item['role'])}: {said}")
    return 0


def _counted(limit: int) -> str:
    if not 1 <= limit <= limits.PAGE_ITEMS:
        raise UsageProblem("error.limit", "hint.limit", option="--limit", value=limit)
    return str(limit)


def _list(shell: Shell, limit: int, url: str | None, token: str | None) -> int:
    import asyncio

    page = asyncio.run(find_host(url, token, os.environ).get(f"{_PATH}?limit={_counted(limit)}"))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    items = cast("list[dict[str, Any]]", page["items"])
    text = shell.text
    if not items:
        shell.print(text("conversations.none"))
        return 0
    from bollard.cli.tables import plain_table

    table = plain_table(
        text("conversations.column.conversation"),
        text("conversations.column.thread"),
        text("conversations.column.bot"),
        text("conversations.column.last"),
    )
    for item in items:
        names = (item["conversation_id"], item["thread_id"] or "", item["bot_id"] or "")
        table.add_row(*(printable(name) for name in names), day_of(item["last_message_at"]))
    shell.console().print(table)
    return 0
