"""`bollard channels …`: lists, shows, saves and deletes where events come from and replies go, and what was sent."""

import os
from typing import Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.documents import CHANNELS, DocumentFile
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="channels", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

ChannelId = Annotated[str, typer.Argument(metavar="ID", help="channels.id")]


@app.callback()
def channels(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="channels.list")
def list_channels(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("show", cls=Command, help="channels.show")
def show(ctx: typer.Context, channel: ChannelId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(CHANNELS.get(find_host(url, token, os.environ), channel))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.channels_text import channel_lines

    return shell.tell(found, *channel_lines(found, shell.text))


@app.command("save", cls=Command, help="channels.save")
def save(ctx: typer.Context, file: DocumentFile, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    saved = asyncio.run(CHANNELS.save(find_host(url, token, os.environ), file))
    if shell.for_programs:
        shell.print_json(saved)
        return 0
    shell.print(shell.text("channels.saved", channel=saved["channel_id"], revision=saved["revision"]))
    if str(saved["secret"]).startswith("whsec_"):  # only where it is new
        shell.print(shell.text("channels.secret", secret=saved["secret"]))
    return 0


@app.command("delete", cls=Command, help="channels.delete")
def delete(ctx: typer.Context, channel: ChannelId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(CHANNELS.delete(find_host(url, token, os.environ), channel))
    return shell.tell(answer, shell.text("channels.deleted", channel=channel))


@app.command("deliveries", cls=Command, help="channels.deliveries")
def deliveries(
    ctx: typer.Context,
    channel: Annotated[str | None, typer.Option("--channel", metavar="ID", help="channels.only")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="channels.limit")] = 20,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    from urllib.parse import urlencode

    shell: Shell = ctx.obj
    query: dict[str, Any] = {"limit": limit} | ({} if channel is None else {"channel": channel})
    page = asyncio.run(find_host(url, token, os.environ).get(f"/api/v1/deliveries?{urlencode(query)}"))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    items = cast("list[dict[str, Any]]", page["items"])
    if not items:
        shell.print(shell.text("channels.nothing_sent"))
        return 0
    from bollard.cli.channels_text import deliveries_table

    shell.console().print(deliveries_table(items, shell.text))
    return 0


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, CHANNELS, url, token, none="channels.none")
    if not items:
        return 0
    from bollard.cli.channels_text import channels_table

    shell.console().print(channels_table(items, shell.text))
    return 0
