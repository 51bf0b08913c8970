"""MCP servers and their tools as lines for people. What a server says of itself is shown such that it cannot pretend
to be the command line."""

import json
from collections.abc import Iterator
from typing import Any, Final

from bollard.cli.columns import printable, shorten
from bollard.cli.language import Text
from bollard.cli.moments import day_of

__all__ = ["server_lines", "terms_line", "tool_lines"]

_DESCRIPTION: Final = 300
_LOG_LINES: Final = 10


def server_lines(server: dict[str, Any], text: Text) -> Iterator[str]:
    """Everything about one."""
    yield text("mcp.head", name=server["server_id"], status=text(f"mcp.status.{server['status']}"))
    if server["problem"]:
        yield text("mcp.problem", problem=printable(server["problem"]))
    if server["hint"]:
        yield text("mcp.hint", hint=printable(server["hint"]))
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
    """One tool: its state, what it is taken to be, what it says of itself, what changed. `whole` for who agrees to it:
    all that a model reads, with nothing cut off and nothing invisible."""
    yield text("mcp.tool", name=printable(tool["name"]), state=text(f"mcp.state.{tool['state']}"))
    if tool["state"] in {"unusable", "missing"}:
        yield f"    {printable(tool['problem'])}"
    if "risk" not in tool:
        return
    yield f"    {terms_line(tool, text)}"
    if tool["agreed"] is not None:
        yield f"    {text('mcp.agreed', by=printable(tool['agreed']['by']), at=day_of(tool['agreed']['at']))}"
    if whole:
        yield f"    “{_visible(tool['description'])}”"
        yield f"    {json.dumps(tool['input_schema'])}"
    elif tool["description"]:
        yield f"    “{shorten(tool['description'], _DESCRIPTION)}”"
    yield from (f"    {printable(line)}" for line in tool["diff"])


def terms_line(tool: dict[str, Any], text: Text) -> str:
    """What it is taken to be."""
    flow = [text(f"mcp.flow.{bit}") for bit, holds in tool["flow"].items() if holds]
    return text(
        "mcp.terms",
        risk=tool["risk"],
        effects=tool["effects"],
        approval=tool["approval"],
        flow=", ".join(flow) or text("mcp.flow.none"),
    )


def _visible(text: str) -> str:
    """On one line, and with a number in the place of each character that nobody sees."""
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in line)
