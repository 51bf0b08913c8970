"""The saved MCP servers of every workspace, with the tools that a person consented to."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.errors import Conflict, caused_by
from bollard.host.log.saved_resources import JointChange, Repository, ResourceKind, Saved, SavedChanges
from bollard.host.mcp.consent import ToolConsent
from bollard.host.mcp.limits import CONSENT_BYTES, CONSENT_TOOLS, SERVERS_OF_WORKSPACE
from bollard.host.mcp.servers import SavedMcpServer
from bollard.protocol import JsonObject

MCP_SERVER: Final = ResourceKind(kind="mcp_server", noun="MCP server", listed_by="mcp list", limit=SERVERS_OF_WORKSPACE)
_AGREED: Final = "agreed"


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One server, and the consent to each of its tools."""

    server: SavedMcpServer
    agreed: Mapping[str, ToolConsent]


Watch = Callable[[Saved[ServerRecord] | None, Saved[ServerRecord] | None], None]
Leaving = Callable[[str, str, str], JointChange]
"""Deletes the data of a server: called with the workspace, the server and the caller."""


def _nothing_leaves(workspace: str, name: str, by: str) -> JointChange:
    del workspace, name, by
    return JointChange()


class McpServerRepository(Repository[ServerRecord]):
    """The saved MCP servers."""

    def __init__(self, changes: SavedChanges, watch: Watch, leaving: Leaving = _nothing_leaves) -> None:
        """`watch` is called with the server before and after each change."""
        super().__init__(MCP_SERVER, changes, _read, _written)
        self._watch = watch
        self._login_leaving = leaving

    def changed(self, before: Saved[ServerRecord] | None, after: Saved[ServerRecord] | None) -> None:
        self._watch(before, after)

    async def save(
        self, body: JsonObject, workspace: str, name: str, *, by: str, edited: int | None
    ) -> Saved[ServerRecord]:
        """Save a server. Consents stay, and are valid as long as the definitions of the tools do not change."""
        server = SavedMcpServer.read({**body, "server_id": name})

        def make(before: Saved[ServerRecord] | None) -> ServerRecord:
            return ServerRecord(server=server, agreed={} if before is None else before.value.agreed)

        return await self._save(workspace, name, make, by=by, edited=edited)

    async def agree(
        self, workspace: str, name: str, yes: Mapping[str, ToolConsent], withdrawn: frozenset[str], *, by: str
    ) -> Saved[ServerRecord]:
        """Add consents, and withdraw others."""

        def make(before: Saved[ServerRecord] | None) -> ServerRecord:
            kept = self._existing(before).value
            agreed = {**{tool: old for tool, old in kept.agreed.items() if tool not in withdrawn}, **yes}
            made = replace(kept, agreed=dict(sorted(agreed.items())))
            if len(agreed) > CONSENT_TOOLS or len(msgspec.json.encode(_written(made))) > CONSENT_BYTES:
                raise Conflict(
                    f"the consents for {name} exceed {CONSENT_TOOLS} tools or {CONSENT_BYTES} bytes",
                    reason="consents_too_large",
                    hint="consent to fewer tools, or withdraw some that are not used",
                    server=name,
                    tools=CONSENT_TOOLS,
                    bytes=CONSENT_BYTES,
                )
            return made

        return await self._save(workspace, name, make, by=by)

    async def delete(self, workspace: str, name: str, *, by: str, edited: int | None = None) -> None:
        """Delete a server with its consents and its logins."""

        def along() -> JointChange:
            return self._login_leaving(workspace, name, by)

        await self._delete(workspace, name, by=by, edited=edited, along=along)


def _written(record: ServerRecord) -> JsonObject:
    return {**record.server.to_wire(), _AGREED: msgspec.to_builtins(record.agreed)}


def _read(body: JsonObject, workspace: str) -> ServerRecord:
    del workspace
    server = SavedMcpServer.read({name: value for name, value in body.items() if name != _AGREED})
    try:
        agreed = msgspec.convert(body.get(_AGREED, {}), dict[str, ToolConsent])
    except msgspec.ValidationError as error:
        raise SavedMcpServer.invalid(
            "invalid_field", _AGREED, str(error), "save the server again", **caused_by(error)
        ) from error
    return ServerRecord(server=server, agreed=agreed)
