"""The MCP servers that people saved, of every workspace, with what was agreed to of each. On disk first, then true."""

from collections.abc import Callable, Mapping
from typing import cast

import msgspec
from msgspec.structs import replace

from bollard.host.errors import Conflict, NotFound
from bollard.host.log.saved_resources import JointChange, Saved, SavedChanges, SavedResources
from bollard.host.mcp.consent import ToolConsent, agreed_from_store, agreed_to_wire
from bollard.host.mcp.limits import CONSENT_BYTES, CONSENT_TOOLS, SERVERS_OF_WORKSPACE
from bollard.host.mcp.servers import McpServer, server_from_wire, server_to_wire
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_AGREED = "agreed"


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One server, and the tools of it that somebody said yes to."""

    server: McpServer
    agreed: Mapping[str, ToolConsent]


Watch = Callable[[Saved[ServerRecord] | None, Saved[ServerRecord] | None], None]
Leaving = Callable[[str, str, str], JointChange]
"""What goes with a server of a workspace, and by whom."""


def _nothing_leaves(workspace: str, name: str, by: str) -> JointChange:
    del workspace, name, by
    return JointChange()


class McpServerRepository:
    """One per host."""

    def __init__(self, changes: SavedChanges, watch: Watch, leaving: Leaving = _nothing_leaves) -> None:
        """`watch` hears of what was there and what is there now."""
        self._leaving = leaving
        self._shelf: SavedResources[ServerRecord] = SavedResources(
            "mcp_server", changes=changes, read=_read, write=_written, watch=watch
        )

    async def load(self, store: Store) -> None:
        """What is on disk."""
        await self._shelf.load(store)

    def find(self, workspace: str, name: str) -> Saved[ServerRecord] | None:
        return self._shelf.get(workspace, name)

    def get(self, workspace: str, name: str) -> Saved[ServerRecord]:
        """Raises `NotFound`."""
        return _there(self._shelf.get(workspace, name))

    def all(self, workspace: str) -> list[Saved[ServerRecord]]:
        return self._shelf.all(workspace)

    async def save(
        self, body: JsonObject, workspace: str, name: str, *, by: str, edited: int | None
    ) -> Saved[ServerRecord]:
        """A server, or a new version of one. What was agreed to stays, and holds as far as the definitions do."""
        server = server_from_wire({**body, "server_id": name})

        def make(before: Saved[ServerRecord] | None) -> ServerRecord:
            if before is not None:
                return replace(before.thing, server=server)
            if self._shelf.count(workspace) >= SERVERS_OF_WORKSPACE:
                raise Conflict(
                    f"the workspace has {SERVERS_OF_WORKSPACE} MCP servers already", hint="remove one that is not used"
                )
            return ServerRecord(server=server, agreed={})

        return await self._shelf.save(workspace, name, make, by=by, edited=edited)

    async def agree(
        self, workspace: str, name: str, yes: Mapping[str, ToolConsent], withdrawn: frozenset[str], *, by: str
    ) -> Saved[ServerRecord]:
        """Add what somebody said yes to, and take away what nobody does any more."""

        def make(before: Saved[ServerRecord] | None) -> ServerRecord:
            kept = _there(before).thing
            agreed = {**{tool: old for tool, old in kept.agreed.items() if tool not in withdrawn}, **yes}
            made = replace(kept, agreed=dict(sorted(agreed.items())))
            if len(agreed) > CONSENT_TOOLS or len(msgspec.json.encode(_written(made))) > CONSENT_BYTES:
                raise Conflict(
                    f"what is agreed to of {name} would be more than {CONSENT_TOOLS} tools or {CONSENT_BYTES} bytes",
                    hint="say yes to fewer tools, or withdraw some that are not used",
                )
            return made

        return await self._shelf.save(workspace, name, make, by=by)

    async def delete(self, workspace: str, name: str, *, by: str, edited: int | None) -> None:
        """Forget a server, all that was agreed to, and who logged in for it."""

        def check(before: Saved[ServerRecord] | None) -> None:
            _there(before)

        def along() -> JointChange:
            return self._leaving(workspace, name, by)

        await self._shelf.delete(workspace, name, check, by=by, edited=edited, along=along)


def _there(saved: Saved[ServerRecord] | None) -> Saved[ServerRecord]:
    if saved is None:
        raise NotFound("there is no such MCP server", hint="`bollard mcp list` lists them")
    return saved


def _written(kept: ServerRecord) -> JsonObject:
    agreed: JsonObject = {tool: agreed_to_wire(yes) for tool, yes in kept.agreed.items()}
    return {**server_to_wire(kept.server), _AGREED: agreed}


def _read(body: JsonObject, workspace: str) -> ServerRecord:
    del workspace
    agreed = cast("dict[str, JsonObject]", body.get(_AGREED, {}))
    server = server_from_wire({name: value for name, value in body.items() if name != _AGREED})
    return ServerRecord(server=server, agreed={tool: agreed_from_store(yes) for tool, yes in agreed.items()})
