"""`bollard conversations …`: list them, show the messages of one, and search in all."""

import os
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.client.host_client import find_host
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.limits import SEARCH_PAGES
from bollard.cli.options import page_limit
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.times import day_of

CONVERSATIONS: Final = Resource(path="/api/v1/conversations", key="conversation_id")
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="conversations.limit")]
_PAGE: Final = 20
_COLUMNS: Final = (
    Column("conversation", "conversation_id"),
    Column("thread", "thread_id"),
    Column("bot", "bot_id"),
    Column("last", lambda conversation, _: day_of(conversation["last_message_at"])),
)
_FOUND_COLUMNS: Final = (
    Column("when", lambda message, _: day_of(message["created_at"])),
    Column("conversation", "conversation_id"),
    Column("role", "role"),
    Column("text", "snippet"),
)

app = CommandGroup("conversations")


@app.command("list")
def list_conversations(shell: HostShell, limit: Limit = _PAGE) -> int:
    return shell.show_items(
        shell.get(CONVERSATIONS.path, limit=page_limit(limit)), "conversations", _COLUMNS, none="conversations.none"
    )


@app.default
def list_newest(shell: Shell) -> int:
    # The group takes neither `--url` nor `--token`; `bollard conversations list` does.
    client = find_host(None, None, os.environ)
    return list_conversations(HostShell(text=shell.text, mode=shell.mode, client=client))


@app.command("show")
def show(
    shell: HostShell,
    conversation: Annotated[str, typer.Argument(metavar="ID", help="conversations.id")],
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="conversations.thread")] = None,
    bot: Annotated[str | None, typer.Option("--bot", metavar="ID", help="conversations.bot")] = None,
    limit: Limit = _PAGE,
) -> int:
    path = CONVERSATIONS.one(conversation, "/messages")
    page = shell.get(path, limit=page_limit(limit), thread=thread, bot=bot)
    return shell.show(page, _message_lines(page, shell.text))


@app.command("delete")
def delete(
    shell: HostShell,
    conversation: Annotated[str, typer.Argument(metavar="ID", help="conversations.id")],
    bot: Annotated[str | None, typer.Option("--bot", metavar="ID", help="conversations.bot")] = None,
) -> int:
    query = "" if bot is None else f"?{urlencode({'bot': bot})}"
    gone = shell.delete(CONVERSATIONS.one(conversation) + query)
    return shell.tell(gone, shell.text("conversations.deleted", conversation=conversation, records=gone["records"]))


@app.command("search")
def search(
    shell: HostShell,
    words: Annotated[list[str], typer.Argument(metavar="TEXT", help="conversations.words")],
    limit: Limit = _PAGE,
) -> int:
    page = _found(shell, " ".join(words), page_limit(limit))
    shell.show_items(page, "conversations", _FOUND_COLUMNS, none="conversations.none_found")
    if page["has_more"] and not shell.for_programs:
        shell.print(shell.text("conversations.more_found"))
    return 0


def _found(shell: HostShell, words: str, limit: int) -> dict[str, Any]:
    """The first page with messages. A page is empty if the person may see none of its messages: the next one follows,
    up to `SEARCH_PAGES`."""
    path = f"{CONVERSATIONS.path}/search"
    page = shell.get(path, q=words, limit=limit)
    for _ in range(SEARCH_PAGES - 1):
        if page["items"] or not page["has_more"]:
            break
        page = shell.get(path, q=words, limit=limit, cursor=page["next_cursor"])
    return page


def _message_lines(page: dict[str, Any], text: Text) -> Iterator[str]:
    if page["has_more"]:
        yield text("conversations.more")
    for item in reversed(page["items"]):  # people read downwards
        content = printable(item.get("content") or "")
        yield f"{day_of(item['created_at'])}  {printable(item['role'])}: {content}"
