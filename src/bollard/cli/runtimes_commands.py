"""`bollard runtimes …`: the runtimes of other machines that a host lets in."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import DocumentKind
from bollard.cli.host_client import TokenOption, UrlOption, at_host
from bollard.cli.language import Text
from bollard.cli.listing import listed
from bollard.cli.moments import day_of
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="runtimes", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

RUNTIMES = DocumentKind(path="/api/v1/runtimes", key="runtime_id")
Name = Annotated[str, typer.Argument(metavar="NAME", help="runtimes.name")]


@app.callback()
def runtimes(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="runtimes.list")
def list_runtimes(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("enroll", cls=Command, help="runtimes.enroll")
def enroll(
    ctx: typer.Context,
    name: Name,
    plugin: Annotated[str | None, typer.Option("--plugin", metavar="AUTHOR/NAME", help="runtimes.plugin")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    body: JsonObject = {"name": name} if plugin is None else {"name": name, "plugin": plugin}
    made = cast("dict[str, Any]", asyncio.run(client.post(RUNTIMES.path, body)))
    if shell.for_programs:
        shell.print_json(made)
        return 0
    shell.print(shell.text("runtimes.enrolling", name=name, until=day_of(made["expires_at"])))
    dialled = client.address.replace("http", "ws", 1)
    shell.print(shell.text("runtimes.command", url=dialled, code=made["code"]))
    shell.print(shell.text("runtimes.once", name=name))
    return 0


@app.command("show", cls=Command, help="runtimes.show")
def show(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    found = cast("dict[str, Any]", asyncio.run(RUNTIMES.get(client, name)))
    if shell.for_programs:
        shell.print_json(found)
        return 0
    for line in _lines(found, shell.text):
        shell.print(line)
    return 0


@app.command("consent", cls=Command, help="runtimes.consent")
def consent(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="plugins.yes")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    from urllib.parse import quote

    from bollard.cli.plugin_host_commands import consenting
    from bollard.cli.plugin_requests import with_consent

    shell, client = at_host(ctx, url, token)
    path = f"{RUNTIMES.path}/{quote(name, safe='')}/consent"

    async def asked(given: str | None) -> "JsonObject":
        return await client.post(path, {} if given is None else {"consent": given})

    changed = asyncio.run(with_consent(asked, consenting(shell, yes=yes)))
    return shell.tell(changed, shell.text("runtimes.consented", name=name))


@app.command("enable", cls=Command, help="runtimes.enable")
def enable(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    return _switched(ctx, name, url, token, on=True)


@app.command("disable", cls=Command, help="runtimes.disable")
def disable(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    return _switched(ctx, name, url, token, on=False)


@app.command("revoke", cls=Command, help="runtimes.revoke")
def revoke(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    return shell.tell(asyncio.run(RUNTIMES.delete(client, name)), shell.text("runtimes.revoked", name=name))


def _switched(ctx: typer.Context, name: str, url: str | None, token: str | None, *, on: bool) -> int:
    import asyncio
    from urllib.parse import quote

    shell, client = at_host(ctx, url, token)
    changed = asyncio.run(client.patch(f"{RUNTIMES.path}/{quote(name, safe='')}", {"enabled": on}))
    return shell.tell(changed, shell.text("runtimes.enabled" if on else "runtimes.disabled", name=name))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, RUNTIMES, url, token, none="runtimes.none")
    if not items:
        return 0
    text = shell.text
    from bollard.cli.tables import plain_table

    table = plain_table()
    for column in ("name", "status", "plugin", "since", "ping", "runs"):
        table.add_column(text(f"runtimes.column.{column}"), overflow="fold")
    for item in items:
        table.add_row(*_cells(item, text))
    shell.console().print(table)
    return 0


def _cells(item: dict[str, Any], text: Text) -> tuple[str, ...]:
    there: dict[str, Any] = item["presence"] or {}
    brought = there.get("plugin") or item["consented"]
    return (
        item["runtime_id"],
        text(f"runtimes.status.{item['status']}"),
        "" if brought is None else printable(f"{brought['plugin_id']} {brought['version']}"),
        day_of(there["connected_at"]) if there else "",
        _ping(there.get("ping_ms")),
        str(there["runs"]) if there else "",
    )


def _ping(ping_ms: float | None) -> str:
    return "" if ping_ms is None else f"{ping_ms:g} ms"


def _lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    from bollard.cli.plugin_text import asked_lines

    yield text("runtimes.head", name=item["runtime_id"], status=text(f"runtimes.status.{item['status']}"))
    if item["problem"]:
        yield text("plugins.problem", problem=printable(item["problem"]))
    yield text("runtimes.key", key=item["public_key"])
    yield text("runtimes.enrolled", by=printable(item["enrolled_by"]), at=day_of(item["enrolled_at"]))
    if item["only_plugin"]:
        yield text("runtimes.only", plugin=item["only_plugin"])
    there = item["presence"]
    if there:
        seen, since = day_of(there["last_seen_at"]), day_of(there["connected_at"])
        yield text("runtimes.there", since=since, seen=seen, ping=_ping(there["ping_ms"]), runs=there["runs"])
        if there["worker"]:
            worker = {name: printable(value) for name, value in there["worker"].items()}
            yield text("runtimes.worker", **worker)
        if there["plugin"]:
            plugin = there["plugin"]
            version, digest = printable(plugin["version"]), plugin["digest"] or ""
            yield text("runtimes.brings", plugin=plugin["plugin_id"], version=version, digest=digest)
            yield from (f"  {line}" for line in asked_lines(there["asks"], text))
    if item["consented"]:
        agreed = item["consented"]
        yield text(
            "runtimes.agreed",
            plugin=agreed["plugin_id"],
            version=printable(agreed["version"]),
            digest=agreed["digest"][:12],
            by=printable(agreed["by"]),
            at=day_of(agreed["at"]),
        )
