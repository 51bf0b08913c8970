"""`bollard mcp …`: MCP servers of a host, and saying yes to their tools."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.choices import one_of
from bollard.cli.documents import DocumentKind
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, at_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="mcp", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

SERVERS = DocumentKind(path="/api/v1/mcp-servers", key="server_id")
_RISKS = ("low", "medium", "high", "critical")
_APPROVALS = ("never", "on_risk", "always")
_EFFECTS = ("none", "idempotent", "at_most_once")
_FLOW = {"private": "reads_private", "untrusted": "brings_untrusted", "out": "sends_out"}
Name = Annotated[str, typer.Argument(metavar="NAME", help="mcp.name")]


@app.callback()
def mcp(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="mcp.list")
def list_servers(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="mcp.add")
def add(
    ctx: typer.Context,
    name: Name,
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="mcp.command_argument")] = None,
    server_url: Annotated[str | None, typer.Option("--server-url", metavar="URL", help="mcp.server_url")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="mcp.header")] = None,
    oauth: Annotated[bool, typer.Option("--oauth", help="mcp.oauth")] = False,
    client_id: Annotated[str | None, typer.Option("--client-id", metavar="ID", help="mcp.client_id")] = None,
    client_secret: Annotated[
        str | None, typer.Option("--client-secret", metavar="secret:NAME", help="mcp.client_secret")
    ] = None,
    scope: Annotated[list[str] | None, typer.Option("--scope", metavar="SCOPE", help="mcp.scope")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="mcp.env")] = None,
    allow: Annotated[list[str] | None, typer.Option("--allow", metavar="TOOL", help="mcp.allow_option")] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="mcp.timeout")] = None,
    legacy: Annotated[bool, typer.Option("--legacy", help="mcp.legacy")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    if (server_url is None) == (not command):
        raise UsageProblem("error.mcp_way", "hint.mcp_way")
    body: JsonObject = {"protocol": "legacy" if legacy else "auto"}
    if command:
        body |= {"command": command[0], "args": [*command[1:]], "env": _pairs("--env", env)}
    else:
        body |= {"url": server_url, "headers": _pairs("--header", header)}
    body |= _login_fields(client_id, client_secret, scope, oauth=oauth)
    body |= {} if allow is None else {"allow": [*allow]}
    body |= {} if timeout is None else {"timeout_s": timeout}
    saved = asyncio.run(client.put(_one(name), body))
    return shell.tell(saved, shell.text("mcp.added_login" if oauth else "mcp.added", name=name))


@app.command("login", cls=Command, help="mcp.login")
def login(
    ctx: typer.Context,
    name: Name,
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="mcp.port")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="mcp.no_browser")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.mcp_login import log_in

    shell, client = at_host(ctx, url, token)
    opens = shell.mode == "terminal" and not no_browser
    saved = asyncio.run(log_in(shell, client, _one(name), name, port=port, opens=opens))
    return shell.tell(saved, shell.text("mcp.logged_in", name=name))


@app.command("logout", cls=Command, help="mcp.logout")
def logout(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    saved = asyncio.run(client.post(f"{_one(name)}/logout", {}))
    return shell.tell(saved, shell.text("mcp.logged_out", name=name))


@app.command("show", cls=Command, help="mcp.show")
def show(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    return _shown(shell, asyncio.run(SERVERS.get(client, name)))


@app.command("refresh", cls=Command, help="mcp.refresh")
def refresh(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    return _shown(shell, asyncio.run(client.post(f"{_one(name)}/refresh", {})))


@app.command("consent", cls=Command, help="mcp.consent")
def consent(
    ctx: typer.Context,
    name: Name,
    tools: Annotated[list[str] | None, typer.Argument(metavar="TOOL", help="mcp.tools")] = None,
    withdraw: Annotated[list[str] | None, typer.Option("--withdraw", metavar="TOOL", help="mcp.withdraw")] = None,
    risk: Annotated[str | None, typer.Option("--risk", metavar="|".join(_RISKS), help="mcp.risk")] = None,
    effects: Annotated[str | None, typer.Option("--effects", metavar="|".join(_EFFECTS), help="mcp.effects")] = None,
    approval: Annotated[
        str | None, typer.Option("--approval", metavar="|".join(_APPROVALS), help="mcp.approval")
    ] = None,
    flow: Annotated[str | None, typer.Option("--flow", metavar="private,untrusted,out", help="mcp.flow")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="mcp.yes")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    terms = _terms(risk, effects, approval, flow)
    # A server that was added just now may be on its way: this waits for what comes of it.
    found = cast("dict[str, Any]", asyncio.run(client.post(f"{_one(name)}/refresh", {})))
    chosen = [] if withdraw and not tools else _chosen(found, tools or [])
    if not chosen and not withdraw:
        raise UsageProblem("error.mcp_nothing", "hint.mcp_nothing", name=name)
    _agree(shell, [{**tool, **terms} for tool in chosen], yes=yes)
    given: JsonObject = {
        "tools": [{"name": tool["name"], "definition_sha256": tool["definition_sha256"], **terms} for tool in chosen],
        "withdraw": [*(withdraw or [])],
    }
    answer = asyncio.run(client.post(f"{_one(name)}/consent", given))
    return shell.tell(answer, shell.text("mcp.consented", name=name, offered=answer["offered"]))


@app.command("remove", cls=Command, help="mcp.remove")
def remove(ctx: typer.Context, name: Name, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(SERVERS.delete(client, name))
    return shell.tell(answer, shell.text("mcp.removed", name=name))


@app.command("import", cls=Command, help="mcp.import")
def import_servers(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE.json|-", help="mcp.file")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.json_option import read_json_document
    from bollard.cli.mcp_import import read_servers

    shell, client = at_host(ctx, url, token)
    servers = list(read_servers(read_json_document(file), file, os.environ))  # all are read before one is saved
    saved: list[JsonObject] = []
    for server in servers:
        for secret, value in server.secrets.items():
            asyncio.run(client.put(f"/api/v1/secrets/{quote(secret, safe='')}", {"value": value}))
        saved.append(asyncio.run(client.put(_one(server.server_id), server.body)))
        if shell.for_programs:
            continue
        shell.print(shell.text("mcp.added", name=server.server_id))
        for secret in server.secrets:
            shell.print(shell.text("mcp.hidden", secret=secret))
        if server.ignored:
            shell.print(shell.text("mcp.ignored", fields=", ".join(server.ignored)))
    if shell.for_programs:
        shell.print_json({"items": saved})
    return 0


def _one(name: str) -> str:
    return f"{SERVERS.path}/{quote(name, safe='')}"


def _pairs(option: str, given: list[str] | None) -> "JsonObject":
    found: JsonObject = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UsageProblem("error.mcp_pair", "hint.mcp_pair", option=option, word=each)
        found[name] = value
    return found


def _login_fields(
    client_id: str | None, client_secret: str | None, scopes: list[str] | None, *, oauth: bool
) -> "JsonObject":
    if not oauth:
        if client_id or client_secret or scopes:
            raise UsageProblem("error.mcp_oauth", "hint.mcp_oauth")
        return {}
    named: JsonObject = {"client_id": client_id, "client_secret": client_secret}
    return {"auth": "oauth", **{key: value for key, value in named.items() if value}, "scopes": [*(scopes or [])]}


def _terms(risk: str | None, effects: str | None, approval: str | None, flow: str | None) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    if risk is not None:
        terms["risk"] = one_of("--risk", risk, _RISKS)
    if effects is not None:
        terms["effects"] = one_of("--effects", effects, _EFFECTS)
    if approval is not None:
        terms["approval"] = one_of("--approval", approval, _APPROVALS)
    if flow is not None:
        bits = [] if flow == "none" else [one_of("--flow", bit, (*_FLOW, "none")) for bit in flow.split(",")]
        terms["flow"] = {field: bit in bits for bit, field in _FLOW.items()}
    return terms


def _chosen(server: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """Those that were named, or all that wait for a yes."""
    usable = {tool["name"]: tool for tool in server["tools"] if "definition_sha256" in tool}
    for name in names:
        if name not in usable:
            raise UsageProblem("error.mcp_tool", "hint.mcp_tool", tool=name, name=server["server_id"])
    waiting = [tool for tool in usable.values() if tool["state"] in {"new", "changed"}]
    return [usable[name] for name in names] if names else waiting


def _agree(shell: Shell, tools: list[dict[str, Any]], *, yes: bool) -> None:
    """Show what is agreed to; on a terminal ask, elsewhere want `--yes`."""
    if not tools:
        return
    if not shell.for_programs:
        from bollard.cli.mcp_text import tool_lines

        for tool in tools:
            for line in tool_lines(tool, shell.text, whole=True):
                shell.print(line)
    if yes:
        return
    if shell.mode != "terminal" or not sys.stdin.isatty():
        raise UsageProblem("error.mcp_yes", "hint.mcp_yes")
    sys.stdout.write(shell.text("mcp.question"))
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes", "是", "好"):
        raise UsageProblem("error.mcp_refused", "hint.mcp_refused")


def _shown(shell: Shell, found: "JsonObject") -> int:
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.mcp_text import server_lines

    return shell.tell(found, *server_lines(cast("dict[str, Any]", found), shell.text))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, SERVERS, url, token, none="mcp.none")
    if not items:
        return 0
    text = shell.text
    from bollard.cli.columns import printable
    from bollard.cli.tables import plain_table

    table = plain_table()
    for column in ("name", "status", "offered", "waiting", "problem"):
        table.add_column(text(f"mcp.column.{column}"), overflow="fold")
    for item in items:
        status = text(f"mcp.status.{item['status']}")
        counts = str(item["offered"]), str(item["waiting"])
        table.add_row(item["server_id"], status, *counts, printable(item["problem"]))
    shell.console().print(table)
    return 0
