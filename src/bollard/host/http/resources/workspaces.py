"""`/workspaces`: the workspaces that a caller can use. Also lists the other resources of identity."""

from typing import Final

from pydantic import Field

from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT
from bollard.host.http.operations import Resource
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body
from bollard.host.http.resources.keys import Keys
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes
from bollard.host.http.resources.session import SessionRoutes
from bollard.host.http.resources.users import ActorLinks, Users
from bollard.host.identity.caller import Caller
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ShownName, Workspace
from bollard.host.identity.workspaces import WORKSPACE
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject, Strict


class SaveWorkspace(Strict):
    """`PUT /api/v1/workspaces/{workspace_id}`."""

    workspace_id: str = Field(default="", description="That of the path.")
    name: ShownName | None = None
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


_WORKSPACE: Final = SavedResource(
    kind=WORKSPACE,
    path="/api/v1/workspaces",
    id="workspace_id",
    names=("Workspace", "Workspaces"),
    right="workspaces",
    body=SaveWorkspace,
    body_example={"name": "North"},
    shown=answer_body("Workspace", {"workspace_id": "north", "name": "North", "revision": 1}, {"name": TEXT}),
    summaries={
        "list": "List the workspaces that you can use.",
        "save": "Make a workspace, or rename one.",
        "delete": "Close a workspace: its callers are refused, its runs are stopped, and its id is not used again.",
    },
)


class Workspaces(SavedRoutes[Workspace]):
    """Only the installation makes and deletes workspaces."""

    resource = _WORKSPACE

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        self._workspaces = directory.workspaces
        self._pages = pages

    def all(self, caller: Caller) -> list[Saved[Workspace]]:
        return [saved for saved in self._workspaces.all() if _is_seen(caller, saved.id)]

    def find(self, caller: Caller, resource_id: str) -> Saved[Workspace] | None:
        if not _is_seen(caller, resource_id):
            raise WORKSPACE.missing()
        return self._workspaces.get(resource_id) if self._workspaces.is_open(resource_id) else None

    def show_item(self, saved: Saved[Workspace]) -> JsonObject:
        body: JsonObject = {"workspace_id": saved.id, "revision": saved.revision}
        return body if saved.thing.name is None else {**body, "name": saved.thing.name}

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Workspace], JsonObject]:
        wanted = parsed(SaveWorkspace, body)
        workspace: JsonObject = {"workspace_id": resource_id, **({} if wanted.name is None else {"name": wanted.name})}
        return await self._workspaces.save(workspace, caller.name, edited), {}

    def is_created(self, before: Saved[Workspace] | None, saved: Saved[Workspace]) -> bool:
        del saved  # the first workspace exists before anybody saves it
        return before is None

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._workspaces.close(resource_id, caller.name, edited)
        return {}


def _is_seen(caller: Caller, workspace_id: str) -> bool:
    """The installation sees all of them; who is in one sees that one."""
    return caller.kind == "installation" or caller.workspace == workspace_id


IDENTITY_RESOURCES: Final[tuple[type[Resource], ...]] = (SessionRoutes, Users, ActorLinks, Keys, Workspaces)


def identity_resources(book: IdentityDirectory, cursor_secret: bytes) -> tuple[Resource, ...]:
    pages = Pages(cursor_secret)
    return (
        SessionRoutes(book),
        Users(book, pages),
        ActorLinks(book, pages),
        Keys(book, pages),
        Workspaces(book, pages),
    )
