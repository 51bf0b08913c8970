"""`bollard mcp …`: MCP servers of a host, and consent to their tools. Texts of a server are escaped, so that they
cannot imitate the command line."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

import typer

from bollard.cli.client.documents import SECRETS, Resource, read_json_document
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import given_values, one_of, pairs_of
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, printable, shorten
from bollard.cli.terminal.times import day_of

SERVERS: Final = Resource(path="/api/v1/mcp-servers", key="server_id")
_RISKS = ("low", "medium", "high", "critical")
_APPROVALS = ("never", "on_risk", "always")
_EFFECTS = ("none", "idempotent", "at_most_once")
_FLOW = {"private": "reads_private", "untrusted": "brings_untrusted", "out": "sends_out"}
_DESCRIPTION: Final = 300
_LOG_LINES: Final = 10
Name = Annotated[str, typer.Argument(metavar="NAME", help="mcp.name")]


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    return dict(pairs_of(given, "error.mcp_pair", "hint.mcp_pair", option=option))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of the connection to a server and of its allowed tools."""

    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="mcp.command_argument")] = None
    server_url: Annotated[str | None, typer.Option("--server-url", metavar="URL", help="mcp.server_url")] = None
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="mcp.header")] = None
    oauth: Annotated[bool, typer.Option("--oauth", help="mcp.oauth")] = False
    client_id: Annotated[str | None, typer.Option("--client-id", metavar="ID", help="mcp.client_id")] = None
    client_secret: Annotated[
        str | None, typer.Option("--client-secret", metavar="secret:NAME", help="mcp.client_secret")
    ] = None
    scope: Annotated[list[str] | None, typer.Option("--scope", metavar="SCOPE", help="mcp.scope")] = None
    env: Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="mcp.env")] = None
    allow: Annotated[list[str] | None, typer.Option("--allow", metavar="TOOL", help="mcp.allow_option")] = None
    timeout: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="mcp.timeout")] = None
    network: Annotated[list[str] | None, typer.Option("--network", metavar="NAME[:PORT]", help="mcp.network")] = None
    read: Annotated[list[str] | None, typer.Option("--read", metavar="PATH", help="mcp.read")] = None
    write: Annotated[list[str] | None, typer.Option("--write", metavar="PATH", help="mcp.write")] = None
    memory: Annotated[int | None, typer.Option("--memory", metavar="MIB", help="mcp.memory")] = None
    cpu: Annotated[float | None, typer.Option("--cpu", metavar="NUMBER", help="mcp.cpu")] = None
    legacy: Annotated[bool, typer.Option("--legacy", help="mcp.legacy")] = False

    def document(self) -> dict[str, Any]:
        """The document to save. Raises `UsageProblem`."""
        if (self.server_url is None) == (not self.command):
            raise UsageProblem("error.mcp_way", "hint.mcp_way")
        body: dict[str, Any] = {"protocol": "legacy" if self.legacy else "auto"}
        if self.command:
            body |= {"command": self.command[0], "args": self.command[1:], "env": _pairs("--env", self.env)}
        else:
            body |= {"url": self.server_url, "headers": _pairs("--header", self.header)}
        more = given_values({"allow": self.allow, "timeout_s": self.timeout, "sandbox": self._sandbox() or None})
        return body | self._login() | more

    def _sandbox(self) -> dict[str, Any]:
        network = self.network[0] if self.network in (["none"], ["open"]) else self.network
        wanted = {"network": network, "read": self.read, "write": self.write}
        return given_values({**wanted, "memory_mib": self.memory, "cpu": self.cpu})

    def _login(self) -> dict[str, Any]:
        named = {"client_id": self.client_id, "client_secret": self.client_secret}
        given = {name: value for name, value in named.items() if value}
        if self.oauth:
            return {"auth": "oauth", **given, "scopes": self.scope or []}
        if given or self.scope:
            raise UsageProblem("error.mcp_oauth", "hint.mcp_oauth")
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """Options that override the server's hints about a tool."""

    risk: Annotated[str | None, typer.Option("--risk", metavar="|".join(_RISKS), help="mcp.risk")] = None
    effects: Annotated[str | None, typer.Option("--effects", metavar="|".join(_EFFECTS), help="mcp.effects")] = None
    approval: Annotated[str | None, typer.Option("--approval", metavar="|".join(_APPROVALS), help="mcp.approval")] = (
        None
    )
    flow: Annotated[str | None, typer.Option("--flow", metavar="private,untrusted,out", help="mcp.flow")] = None

    def terms(self) -> dict[str, Any]:
        """The given terms. Raises `UsageProblem`."""
        terms: dict[str, Any] = {}
        for option, value, known in (
            ("risk", self.risk, _RISKS),
            ("effects", self.effects, _EFFECTS),
            ("approval", self.approval, _APPROVALS),
        ):
            if value is not None:
                terms[option] = one_of(f"--{option}", value, known)
        if self.flow is not None:
            asked = [] if self.flow == "none" else self.flow.split(",")
            bits = [one_of("--flow", bit, (*_FLOW, "none")) for bit in asked]
            terms["flow"] = {field: bit in bits for bit, field in _FLOW.items()}
        return terms


def _details(item: dict[str, Any]) -> dict[str, Any]:
    """The details of the problem; an older host sends none."""
    return {"problem": item["problem"], **item.get("problem_details", {})}


def _problem(item: dict[str, Any], text: Text) -> str:
    """The problem of a server or a tool, in the person's language."""
    return text.problem(_details(item))


def server_lines(server: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one server."""
    yield text("mcp.head", name=server["server_id"], status=text(f"mcp.status.{server['status']}"))
    if server["problem"]:
        yield text("mcp.problem", problem=printable(_problem(server, text)))
    if server["hint"]:
        details = {**_details(server), "server": server["server_id"]}
        yield text("mcp.hint", hint=printable(text.remedy(details, server["hint"])))
    if "url" in server:
        yield text("mcp.url", url=printable(server["url"]))
    else:
        yield text("mcp.command", command=printable(" ".join([server["command"], *server["args"]])))
    if server["protocol_version"] is not None:
        named = printable(f"{server['server_name']} {server['server_version']}").strip()
        yield text("mcp.speaks", named=named or "?", version=printable(server["protocol_version"]))
    if server["allow"] != ["*"]:
        yield text("mcp.allow", tools=", ".join(server["allow"]))
    for tool in server["tools"]:
        yield from tool_lines(tool, text)
    if server["log"]:
        yield text("mcp.log")
        yield from (f"  | {printable(line)}" for line in server["log"][-_LOG_LINES:])


def tool_lines(tool: dict[str, Any], text: Text, *, whole: bool = False) -> Iterator[str]:
    """One tool: its state, its terms, its own description, and its changes. `whole` is for consent: the complete text
    that a model reads, with invisible characters shown."""
    yield text("mcp.tool", name=printable(tool["name"]), state=text(f"mcp.state.{tool['state']}"))
    if tool["state"] in {"unusable", "missing"}:
        yield f"    {printable(_problem(tool, text))}"
    if "risk" not in tool:
        return
    flow = ", ".join(text(f"mcp.flow.{bit}") for bit, holds in tool["flow"].items() if holds) or text("mcp.flow.none")
    terms = {name: tool[name] for name in ("risk", "effects", "approval")}
    yield f"    {text('mcp.terms', **terms, flow=flow)}"
    if tool["agreed"] is not None:
        yield f"    {text('mcp.agreed', by=printable(tool['agreed']['by']), at=day_of(tool['agreed']['at']))}"
    if whole:
        yield f"    “{_visible(tool['description'])}”"
        yield f"    {json.dumps(tool['input_schema'])}"
    elif tool["description"]:
        yield f"    “{shorten(tool['description'], _DESCRIPTION)}”"
    yield from (f"    {printable(line)}" for line in tool["diff"])


def _visible(text: str) -> str:
    """The text on one line, with invisible characters escaped."""
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in line)


app = CommandGroup("mcp")
app.add_list(
    SERVERS,
    (
        Column("name", "server_id"),
        Column("status", lambda server, text: text(f"mcp.status.{server['status']}")),
        Column("offered", "offered"),
        Column("waiting", "waiting"),
        Column("problem", _problem),
    ),
    none="mcp.none",
)


@app.command("add")
def add(shell: HostShell, name: Name, options: ServerOptions) -> int:
    saved = shell.put(SERVERS.one(name), options.document())
    return shell.tell(saved, shell.text("mcp.added_login" if options.oauth else "mcp.added", name=name))


@app.command("login")
def login(
    shell: HostShell,
    name: Name,
    port: Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="mcp.port")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="mcp.no_browser")] = False,
) -> int:
    from bollard.cli.agents.mcp_login import log_in

    opens = shell.mode == "terminal" and not no_browser
    saved = shell.run(log_in(shell, shell.client, SERVERS.one(name), name, port=port, opens=opens))
    return shell.tell(saved, shell.text("mcp.logged_in", name=name))


@app.command("logout")
def logout(shell: HostShell, name: Name) -> int:
    saved = shell.post(SERVERS.one(name, "/logout"))
    return shell.tell(saved, shell.text("mcp.logged_out", name=name))


app.add_show(SERVERS, ("name", Name), server_lines)


@app.command("refresh")
def refresh(shell: HostShell, name: Name) -> int:
    found = shell.post(SERVERS.one(name, "/refresh"))
    return shell.show(found, server_lines(found, shell.text))


@app.command("consent")
def consent(
    shell: HostShell,
    name: Name,
    tools: Annotated[list[str] | None, typer.Argument(metavar="TOOL", help="mcp.tools")] = None,
    withdraw: Annotated[list[str] | None, typer.Option("--withdraw", metavar="TOOL", help="mcp.withdraw")] = None,
    *,
    options: TermOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="mcp.yes")] = False,
) -> int:
    terms = options.terms()
    # A server that was just added may still be connecting.
    found = shell.post(SERVERS.one(name, "/refresh"))
    chosen = [] if withdraw and not tools else _chosen(found, tools or [])
    if not chosen and not withdraw:
        raise UsageProblem("error.mcp_nothing", "hint.mcp_nothing", name=name)
    _agree(shell, [{**tool, **terms} for tool in chosen], yes=yes)
    agreed = [{"name": tool["name"], "definition_sha256": tool["definition_sha256"], **terms} for tool in chosen]
    answer = shell.post(SERVERS.one(name, "/consent"), {"tools": agreed, "withdraw": withdraw or []})
    return shell.tell(answer, shell.text("mcp.consented", name=name, offered=answer["offered"]))


app.add_delete(SERVERS, ("name", Name), "remove")


@app.command("import")
def import_servers(
    shell: HostShell, file: Annotated[str, typer.Argument(metavar="FILE.json|-", help="mcp.file")]
) -> int:
    servers = list(read_servers(read_json_document(file), file, os.environ))  # all are read before one is saved
    saved: list[dict[str, Any]] = []
    for server in servers:
        for secret, value in server.secrets.items():
            shell.put(SECRETS.one(secret), {"value": value})
        saved.append(shell.put(SERVERS.one(server.server_id), server.body))
        if shell.for_programs:
            continue
        shell.print(shell.text("mcp.added", name=server.server_id))
        for secret in server.secrets:
            shell.print(shell.text("mcp.hidden", secret=secret))
        if server.ignored:
            shell.print(shell.text("mcp.ignored", fields=", ".join(server.ignored)))
    return shell.show({"items": saved}, ())


def _chosen(server: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """The named tools, or all that wait for consent."""
    usable = {tool["name"]: tool for tool in server["tools"] if "definition_sha256" in tool}
    for name in names:
        if name not in usable:
            raise UsageProblem("error.mcp_tool", "hint.mcp_tool", tool=name, name=server["server_id"])
    waiting = [tool for tool in usable.values() if tool["state"] in {"new", "changed"}]
    return [usable[name] for name in names] if names else waiting


def _agree(shell: Shell, tools: list[dict[str, Any]], *, yes: bool) -> None:
    """Show the tools and ask for consent on a terminal; elsewhere require `--yes`."""
    if not tools:
        return
    if not shell.for_programs:
        for tool in tools:
            for line in tool_lines(tool, shell.text, whole=True):
                shell.print(line)
    if yes:
        return
    if not shell.has_person:
        raise UsageProblem("error.mcp_yes", "hint.mcp_yes")
    if not shell.confirm("mcp.question"):
        raise UsageProblem("error.mcp_refused", "hint.mcp_refused")


# Reads the file in which other programs keep their MCP servers, `{"mcpServers": {name: …}}`. Values that look like
# secrets go into the host's vault, and the server gets references to them.


_KNOWN: Final = frozenset(
    {"command", "args", "env", "url", "headers", "type", "disabled", "timeout"}
    | {"auth", "client_id", "client_secret", "scopes", "oauth"}
)
_LOGIN: Final = {"clientId": "client_id", "clientSecret": "client_secret", "scopes": "scopes"}
"""Names of fields in an `oauth` object, and our names."""
_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_ODD: Final = re.compile(r"[^a-z0-9._-]+")
_ODD_SECRET: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """One server of an imported file."""

    server_id: str
    body: dict[str, Any]
    secrets: Mapping[str, str] = field(repr=False)
    """Values for the vault, by the name of their reference."""
    ignored: tuple[str, ...]
    """Ignored fields."""


def read_servers(document: dict[str, Any], given: str, environment: Mapping[str, str]) -> Iterator[ImportedServer]:
    """Parse the file; `${NAME}` is a variable of the local environment. Raises `UsageProblem`."""
    servers = document.get("mcpServers")
    if not isinstance(servers, dict) or not servers:
        raise UsageProblem("error.mcp_file", "hint.mcp_file", path=given)
    for name, entry in cast("dict[str, Any]", servers).items():
        if not isinstance(entry, dict):
            raise UsageProblem("error.mcp_entry", "hint.mcp_file", name=name)
        yield _server(name, cast("dict[str, Any]", entry), environment)


def _server(name: str, entry: dict[str, Any], environment: Mapping[str, str]) -> ImportedServer:
    server_id = _ODD.sub("-", name.lower()).strip("-._")[:_NAME_CHARACTERS]
    if not server_id:
        raise UsageProblem("error.mcp_entry", "hint.mcp_file", name=name)
    if entry.get("type") == "sse":
        raise UsageProblem("error.mcp_sse", "hint.mcp_sse", name=name)
    filled = cast("dict[str, Any]", _filled(entry, name, environment))
    body: dict[str, Any] = {"enabled": filled.get("disabled") is not True}
    wanted = ("url", "headers") if "url" in filled or filled.get("type") in _HTTP else ("command", "args", "env")
    secrets: dict[str, str] = {}
    for part in wanted:
        if part in filled:
            value = filled[part]
            body[part] = _referred(server_id, value, secrets) if part in {"env", "headers"} else value
    if "url" in body:
        body |= _login(server_id, filled, secrets)
    ignored = tuple(sorted(filled.keys() - _KNOWN | ({"timeout"} & filled.keys())))
    return ImportedServer(server_id=server_id, body=body, secrets=secrets, ignored=ignored)


def _login(server_id: str, entry: dict[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    """`auth: "oauth"` with separate fields, or an object `oauth`: other programs use both."""
    nested = entry.get("oauth")
    if entry.get("auth") != "oauth" and not isinstance(nested, dict):
        return {} if entry.get("auth") is None else {"auth": entry["auth"]}  # the host rejects it with a reason
    given = {field: entry[field] for field in _LOGIN.values() if field in entry}
    if isinstance(nested, dict):
        inner = cast("dict[str, Any]", nested)
        given |= {field: inner[other] for other, field in _LOGIN.items() if other in inner}
    secret = given.get("client_secret")
    if isinstance(secret, str) and not secret.startswith("secret:"):
        name = f"mcp-{server_id}-client_secret"[:_NAME_CHARACTERS]
        secrets[name] = secret
        given["client_secret"] = f"secret:{name}"
    if isinstance(given.get("scopes"), str):
        given["scopes"] = given["scopes"].split()
    return {"auth": "oauth", **given}


def _referred(server_id: str, values: Any, secrets: dict[str, str]) -> Any:
    """The values with references in place of secrets."""
    from bollard.host.mcp.servers import looks_secret

    if not isinstance(values, dict):
        return values  # the host rejects it with a reason
    found: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", values).items():
        if isinstance(value, str) and looks_secret(name, value):
            word, space, rest = value.rpartition(" ")
            secret = _ODD_SECRET.sub("-", f"mcp-{server_id}-{name}")[:_NAME_CHARACTERS]
            secrets[secret] = rest
            found[name] = f"{word}{space}secret:{secret}"
        else:
            found[name] = value
    return found


def _filled(value: Any, name: str, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):

        def known(match: re.Match[str]) -> str:
            variable, _, otherwise = match[1].removeprefix("env:").partition(":-")
            if variable not in environment and not otherwise:
                raise UsageProblem("error.mcp_variable", "hint.mcp_variable", name=name, variable=match[0])
            return environment.get(variable, otherwise)

        return _VARIABLE.sub(known, value)
    if isinstance(value, list):
        return [_filled(each, name, environment) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _filled(each, name, environment) for key, each in cast("dict[str, Any]", value).items()}
    return value
