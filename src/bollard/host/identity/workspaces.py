"""Workspaces: what isolates every row. One is there from the first start on; the installation makes and closes others.

Closing keeps what is on disk and lets nobody in. The id of a closed workspace is not given again: what it left would
be the newcomer's.
"""

import asyncio
from collections.abc import Callable

from bollard.host.errors import Conflict, InvalidRequest, NotFound, Overloaded
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.identity.entities import Workspace, read
from bollard.host.limits import WORKSPACES
from bollard.host.log.saved_resources import Saved, SavedChanges, SavedResources
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

Told = Callable[[str], None]


def no_workspace() -> NotFound:
    """What is said of a workspace that is not there, or not the caller's: the same bytes."""
    return NotFound("there is no such workspace", hint="`bollard workspaces` lists those you can use")


class Workspaces:
    """One per host."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock) -> None:
        self._watchers: list[tuple[Told, Told]] = []
        self._shelf: SavedResources[Workspace] = SavedResources(
            "workspace",
            changes=changes,
            read=lambda body, _: read(Workspace, body, "workspace"),
            write=Workspace.to_wire,
            changing=changing,
            watch=self._changed,
        )

    def watch(self, opened: Told, closed: Told) -> None:
        """Hear of each workspace that is made, and of each that is closed, once it is on disk."""
        self._watchers.append((opened, closed))

    async def load(self, store: Store) -> None:
        await self._shelf.load(store)

    def is_open(self, workspace: str) -> bool:
        """Cheap: asked for every request that names one."""
        found = self._shelf.get(workspace, workspace)
        return workspace == DEFAULT_WORKSPACE if found is None else not found.thing.closed

    def open_ids(self) -> list[str]:
        """Every workspace that can be used, the first one first."""
        others = (saved.id for saved in self._shelf.everywhere() if not saved.thing.closed)
        return [DEFAULT_WORKSPACE, *(each for each in others if each != DEFAULT_WORKSPACE)]

    def get(self, workspace: str) -> Saved[Workspace]:
        """Raises `NotFound`."""
        if not self.is_open(workspace):
            raise no_workspace()
        found = self._shelf.get(workspace, workspace)
        return found or Saved(workspace=workspace, id=workspace, revision=0, thing=Workspace(workspace_id=workspace))

    def all(self) -> list[Saved[Workspace]]:
        """Those that can be used, by id."""
        return [self.get(workspace) for workspace in sorted(self.open_ids())]

    async def save(self, body: JsonObject, by: str, edited: int | None = None) -> Saved[Workspace]:
        """Make a workspace, or rename one."""
        wanted = read(Workspace, body, "workspace")
        if wanted.closed:
            raise InvalidRequest("workspace.closed: nobody saves this", hint="delete the workspace", field="closed")

        def make(before: Saved[Workspace] | None) -> Workspace:
            if before is not None and before.thing.closed:
                raise Conflict(
                    f"there was a workspace {wanted.workspace_id}, and its id is not given again",
                    hint="choose another id",
                )
            if before is None and len(self._shelf.everywhere()) >= WORKSPACES:
                raise Overloaded("there are too many workspaces", hint="use another host", limit=WORKSPACES)
            return wanted

        return await self._shelf.save(wanted.workspace_id, wanted.workspace_id, make, by=by, edited=edited)

    async def close(self, workspace: str, by: str, edited: int | None = None) -> None:
        """Nobody gets in any more, from the commit on."""
        if workspace == DEFAULT_WORKSPACE:
            raise Conflict("the first workspace stays", hint="delete its users, keys and agents instead")
        self.get(workspace)

        def make(before: Saved[Workspace] | None) -> Workspace:
            if before is None or before.thing.closed:
                raise no_workspace()
            return before.thing.model_copy(update={"closed": True})

        await self._shelf.save(workspace, workspace, make, by=by, edited=edited)

    def _changed(self, before: Saved[Workspace] | None, after: Saved[Workspace] | None) -> None:
        if after is None or after.id == DEFAULT_WORKSPACE:
            return
        for opened, closed in self._watchers:
            if after.thing.closed:
                if before is not None:
                    closed(after.id)
            elif before is None:
                opened(after.id)
