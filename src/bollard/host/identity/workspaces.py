"""Workspaces, which isolate every row. `default` exists from the first start; the admin token creates and closes
others.

A closed workspace keeps its data and refuses every caller. Its id is not reused, because a new workspace would inherit
the data.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from bollard.host.errors import Conflict, InvalidRequest, Overloaded
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.identity.entities import Workspace, read
from bollard.host.limits import WORKSPACES
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.protocol import JsonObject

WORKSPACE: Final = ResourceKind(kind="workspace", noun="workspace", listed_by="workspaces")
Listener = Callable[[str], None]


Changed = Callable[[Saved[Workspace] | None, Saved[Workspace] | None], None]


class _SavedWorkspaces(Repository[Workspace]):
    """A workspace is a saved resource in its own workspace."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, changed: Changed) -> None:
        super().__init__(
            WORKSPACE, changes, lambda body, _: read(Workspace, body, "workspace"), Workspace.to_wire, changing
        )
        self._listener = changed

    async def save(
        self, workspace: str, make: Callable[[Saved[Workspace] | None], Workspace], by: str, edited: int | None
    ) -> Saved[Workspace]:
        return await self._save(workspace, workspace, make, by=by, edited=edited)

    def changed(self, before: Saved[Workspace] | None, after: Saved[Workspace] | None) -> None:
        self._listener(before, after)


class Workspaces:
    """The workspaces of the host."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock) -> None:
        self._watchers: list[tuple[Listener, Listener]] = []
        self._saved = _SavedWorkspaces(changes, changing, self._changed)
        self.load: Final = self._saved.load

    def watch(self, opened: Listener, closed: Listener) -> None:
        """Call `opened` for each created workspace, and `closed` for each closed one, after the commit."""
        self._watchers.append((opened, closed))

    def is_open(self, workspace: str) -> bool:
        """Whether callers can use the workspace. Checked for every request, so it is cheap."""
        found = self._saved.find(workspace, workspace)
        return workspace == DEFAULT_WORKSPACE if found is None else not found.value.closed

    def open_ids(self) -> list[str]:
        """The open workspaces, `default` first."""
        others = (saved.id for saved in self._saved.everywhere() if not saved.value.closed)
        return [DEFAULT_WORKSPACE, *(each for each in others if each != DEFAULT_WORKSPACE)]

    def get(self, workspace: str) -> Saved[Workspace]:
        """Raises `NotFound`."""
        if not self.is_open(workspace):
            raise WORKSPACE.missing()
        found = self._saved.find(workspace, workspace)
        return found or Saved(workspace=workspace, id=workspace, revision=0, value=Workspace(workspace_id=workspace))

    def all(self) -> list[Saved[Workspace]]:
        """The open workspaces, by id."""
        return [self.get(workspace) for workspace in sorted(self.open_ids())]

    async def save(self, body: JsonObject, by: str, edited: int | None = None) -> Saved[Workspace]:
        """Create or rename a workspace."""
        wanted = read(Workspace, body, "workspace")
        if wanted.closed:
            raise InvalidRequest(
                "workspace.closed: this field is read-only",
                reason="workspace_closed_field",
                hint="delete the workspace",
                field="closed",
            )

        def make(before: Saved[Workspace] | None) -> Workspace:
            if before is not None and before.value.closed:
                raise Conflict(
                    f"the id {wanted.workspace_id} belonged to a deleted workspace",
                    reason="workspace_id_used",
                    hint="choose another id",
                    workspace=wanted.workspace_id,
                )
            if before is None and len(self._saved.everywhere()) >= WORKSPACES:
                raise Overloaded(
                    f"the host has {WORKSPACES} workspaces already",
                    reason="workspaces_limit",
                    hint="use another host",
                    limit=WORKSPACES,
                )
            return wanted

        return await self._saved.save(wanted.workspace_id, make, by, edited)

    async def close(self, workspace: str, by: str, edited: int | None = None) -> None:
        """Close a workspace. From the commit on, every caller is refused."""
        if workspace == DEFAULT_WORKSPACE:
            raise Conflict(
                "the first workspace cannot be deleted",
                reason="first_workspace",
                hint="delete its users, keys and agents instead",
            )
        self.get(workspace)

        def make(before: Saved[Workspace] | None) -> Workspace:
            if before is None or before.value.closed:
                raise WORKSPACE.missing()
            return before.value.model_copy(update={"closed": True})

        await self._saved.save(workspace, make, by, edited)

    def _changed(self, before: Saved[Workspace] | None, after: Saved[Workspace] | None) -> None:
        if after is None or after.id == DEFAULT_WORKSPACE:
            return
        for opened, closed in self._watchers:
            if after.value.closed:
                if before is not None:
                    closed(after.id)
            elif before is None:
                opened(after.id)
