"""MCP servers and their tools as the API shows them: shapes, examples, and how a tool becomes one."""

from typing import Final

import msgspec

from bollard.host.capabilities.capability import RISKS
from bollard.host.http.openapi.schemas import (
    ANY,
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    array_of,
    choice,
    fields,
    map_of,
    maybe,
    named,
)
from bollard.host.mcp.consent import ServerTool, terms_on
from bollard.protocol import JsonObject

_TOOL: Final = named(
    "McpTool",
    fields(
        {
            "id": TEXT,
            "description": TEXT,
            "input_schema": ANY,
            "output_schema": maybe(ANY),
            "definition_sha256": TEXT,
            "risk": choice(*RISKS),
            "flow": fields(reads_private=FLAG, brings_untrusted=FLAG, sends_out=FLAG),
            "effects": choice("none", "idempotent", "at_most_once"),
            "approval": choice("never", "on_risk", "always"),
        },
        name=TEXT,
        state=choice("offered", "new", "changed", "missing", "refused", "unusable"),
        problem=TEXT,
        agreed=maybe(fields(definition_sha256=TEXT, by=TEXT, at=TIME)),
        diff=array_of(TEXT),
    ),
)
_WAY: Final[JsonObject] = {
    "command": TEXT,
    "args": array_of(TEXT),
    "env": map_of(TEXT),
    "url": TEXT,
    "headers": map_of(TEXT),
    "auth": choice("oauth"),
    "client_id": TEXT,
    "client_secret": TEXT,
    "scopes": array_of(TEXT),
}
_BRIEF: Final[JsonObject] = {
    "server_id": TEXT,
    "enabled": FLAG,
    "protocol": choice("auto", "legacy"),
    "timeout_s": {"type": "number"},
    "allow": array_of(TEXT),
    "status": choice("disabled", "connecting", "connected", "waiting", "needs_login"),
    "problem": TEXT,
    "hint": TEXT,
    "protocol_version": maybe(TEXT),
    "server_name": maybe(TEXT),
    "server_version": maybe(TEXT),
    "offered": NUMBER,
    "waiting": NUMBER,
    "revision": NUMBER,
}
MCP_SERVER_SCHEMA: Final = named("McpServer", fields(_WAY, **_BRIEF))
MCP_SERVER_WHOLE: Final = named("McpServerWhole", fields(_WAY, **_BRIEF, tools=array_of(_TOOL), log=array_of(TEXT)))

MCP_SERVER_EXAMPLE: Final[JsonObject] = {
    "server_id": "github",
    "enabled": True,
    "url": "https://mcp.example.org/mcp",
    "headers": {"Authorization": "Bearer secret:github"},
    "protocol": "auto",
    "timeout_s": 60.0,
    "allow": ["*"],
    "status": "connected",
    "problem": "",
    "hint": "",
    "protocol_version": "2026-07-28",
    "server_name": "github",
    "server_version": "1.4.0",
    "offered": 0,
    "waiting": 1,
    "revision": 1,
}
MCP_WHOLE_EXAMPLE: Final[JsonObject] = {
    **MCP_SERVER_EXAMPLE,
    "tools": [
        {
            "name": "create_issue",
            "state": "new",
            "problem": "nobody has said yes to create_issue of the server github yet",
            "agreed": None,
            "diff": [],
            "id": "mcp:github/create_issue",
            "description": "Create an issue.",
            "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}},
            "output_schema": None,
            "definition_sha256": "0" * 64,
            "risk": "high",
            "flow": {"reads_private": True, "brings_untrusted": True, "sends_out": True},
            "effects": "at_most_once",
            "approval": "on_risk",
        }
    ],
    "log": [],
}


def tool_shown(tool: ServerTool) -> JsonObject:
    """One tool; what is suggested stands where nothing was agreed to."""
    agreed, capability = tool.agreed, tool.capability
    shown: JsonObject = {
        "name": tool.name,
        "state": tool.state,
        "problem": tool.problem,
        "agreed": None
        if agreed is None
        else {"definition_sha256": agreed.definition_sha256, "by": agreed.by, "at": agreed.at},
        "diff": [*tool.diff],
    }
    if capability is None:
        return shown
    return {
        **shown,
        "id": capability.id,
        "description": capability.description,
        "input_schema": capability.input_schema,
        "output_schema": capability.output_schema,
        "definition_sha256": capability.definition_sha256,
        **msgspec.to_builtins(terms_on(capability)),
    }
