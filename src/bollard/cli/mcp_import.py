"""The file that other programs keep their MCP servers in, `{"mcpServers": {name: …}}`, read as servers of a host.

What looks like a secret there goes into the host's vault, and the server gets a reference to it. Prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["ImportedServer", "read_servers"]

_KNOWN: Final = frozenset(
    {"command", "args", "env", "url", "headers", "type", "disabled", "timeout"}
    | {"auth", "client_id", "client_secret", "scopes", "oauth"}
)
_LOGIN: Final = {"clientId": "client_id", "clientSecret": "client_secret", "scopes": "scopes"}
"""How fields are called in an object `oauth`, and here."""
_HTTP: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_ODD: Final = re.compile(r"[^a-z0-9._-]+")
_ODD_SECRET: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """One server of the file."""

    server_id: str
    body: JsonObject
    secrets: Mapping[str, str] = field(repr=False)
    """Values that belong into the vault, by the name that the body refers to them by."""
    ignored: tuple[str, ...]
    """Fields that mean nothing here."""


def read_servers(document: JsonObject, given: str, environment: Mapping[str, str]) -> Iterator[ImportedServer]:
    """Raises `UsageProblem`. `${NAME}` stands for a variable of the environment of whoever imports."""
    servers = document.get("mcpServers")
    if not isinstance(servers, dict) or not servers:
        raise UsageProblem("error.mcp_file", "hint.mcp_file", path=given)
    for name, entry in servers.items():
        if not isinstance(entry, dict):
            raise UsageProblem("error.mcp_entry", "hint.mcp_file", name=name)
        yield _server(name, entry, environment)


def _server(name: str, entry: JsonObject, environment: Mapping[str, str]) -> ImportedServer:
    server_id = _ODD.sub("-", name.lower()).strip("-._")[:_NAME_CHARACTERS]
    if not server_id:
        raise UsageProblem("error.mcp_entry", "hint.mcp_file", name=name)
    if entry.get("type") == "sse":
        raise UsageProblem("error.mcp_sse", "hint.mcp_sse", name=name)
    filled = cast("dict[str, Any]", _filled(entry, name, environment))
    body: JsonObject = {"enabled": filled.get("disabled") is not True}
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


def _login(server_id: str, entry: dict[str, Any], secrets: dict[str, str]) -> JsonObject:
    """`auth: "oauth"` with its fields beside it, or an object `oauth`, as other programs have it."""
    nested = entry.get("oauth")
    if entry.get("auth") != "oauth" and not isinstance(nested, dict):
        return {} if entry.get("auth") is None else {"auth": entry["auth"]}  # the host says what is wrong with it
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
    """The same with references where secrets were written out."""
    from bollard.host.mcp.servers import looks_secret

    if not isinstance(values, dict):
        return values  # the host says what is wrong with it
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
