"""The resources of people, programs and workspaces, over one identity book."""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, Resource, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.resources.keys import Keys
from bollard.host.http.resources.session import SessionRoutes
from bollard.host.http.resources.users import ActorLinks, Users, revision_in
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.identity.caller import Caller
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ShownName, Workspace
from bollard.host.identity.workspaces import no_workspace
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject, Strict

# `/workspaces`: those that the caller can use. Only the installation makes and deletes them.


_WORKSPACE: Final = named("Workspace", fields({"name": TEXT}, workspace_id=TEXT, revision=NUMBER))
_EXAMPLE: Final[JsonObject] = {"workspace_id": "north", "name": "North", "revision": 1}


class SaveWorkspace(Strict):
    """`PUT /api/v1/workspaces/{workspace_id}`."""

    workspace_id: str = Field(default="", description="That of the path.")
    name: ShownName | None = None
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


class Workspaces:
    """What isolates every row."""

    def __init__(self, book: IdentityDirectory, pages: Pages) -> None:
        self._workspaces = book.workspaces
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        workspaces, workspace = "/api/v1/workspaces", "/api/v1/workspaces/{workspace_id}"
        saved = Answer(summary="The workspace as it is now.", schema=_WORKSPACE, example=_EXAMPLE)
        return [
            Operation(
                method="GET",
                path=workspaces,
                handler=Workspaces.list,
                name="listWorkspaces",
                tag="workspaces",
                summary="The workspaces that you can use.",
                right="workspaces.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of workspaces.", schema=page_of(_WORKSPACE), example=page_example(_EXAMPLE)
                    )
                },
            ),
            Operation(
                method="GET",
                path=workspace,
                handler=Workspaces.get,
                name="getWorkspace",
                tag="workspaces",
                summary="One workspace.",
                right="workspaces.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=workspace,
                handler=Workspaces.put,
                name="saveWorkspace",
                tag="workspaces",
                summary="Make a workspace, or rename one.",
                right="workspaces.write",
                body=SaveWorkspace,
                body_example={"name": "North"},
                editable=True,
                answers={
                    200: saved,
                    201: Answer(
                        summary="The workspace is new.",
                        links=leads_to("workspace_id", getWorkspace="Read it again.", deleteWorkspace="Close it."),
                        schema=_WORKSPACE,
                        example=_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=workspace,
                handler=Workspaces.delete,
                name="deleteWorkspace",
                tag="workspaces",
                summary="Close a workspace: nobody gets in, its runs are stopped, its id is not given again.",
                right="workspaces.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="It is closed.",
                        schema=fields(workspace_id=TEXT, deleted=FLAG),
                        example={"workspace_id": "north", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        caller = caller_of(request)
        found = [saved for saved in self._workspaces.all() if _is_seen(caller, saved.id)]
        return self._pages.of_all(request, "workspaces.list", found, _saved_id, _shown)

    async def get(self, request: Request) -> Response:
        workspace_id: str = request.path_params["workspace_id"]
        if not _is_seen(caller_of(request), workspace_id):
            raise no_workspace()
        saved = self._workspaces.get(workspace_id)
        return revised(request, _shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, workspace_id = caller_of(request), request.path_params["workspace_id"]
        if not _is_seen(caller, workspace_id):
            raise no_workspace()
        body = named_by_path(await read_body(request), "workspace_id", workspace_id)
        wanted = parsed(SaveWorkspace, body)
        before = self._revision(workspace_id)
        edited = revision_in(request, before, body, wanted.revision)
        thing: JsonObject = {name: body[name] for name in ("workspace_id", "name") if name in body}
        with held_to_match(request):
            saved = await self._workspaces.save(thing, caller.name, edited)
        return revised(request, _shown(saved), saved.revision, status_code=201 if before is None else 200)

    async def delete(self, request: Request) -> Response:
        caller, workspace_id = caller_of(request), request.path_params["workspace_id"]
        if not _is_seen(caller, workspace_id):
            raise no_workspace()
        edited = edited_revision(request, self._revision(workspace_id))
        with held_to_match(request):
            await self._workspaces.close(workspace_id, caller.name, edited)
        return JsonAnswer({"workspace_id": workspace_id, "deleted": True})

    def _revision(self, workspace_id: str) -> int | None:
        return self._workspaces.get(workspace_id).revision if self._workspaces.is_open(workspace_id) else None


def _is_seen(caller: Caller, workspace_id: str) -> bool:
    """The installation sees all of them; who is in one sees that one."""
    return caller.kind == "installation" or caller.workspace == workspace_id


def _saved_id(saved: Saved[Workspace]) -> str:
    return saved.id


def _shown(saved: Saved[Workspace]) -> JsonObject:
    body: JsonObject = {"workspace_id": saved.id, "revision": saved.revision}
    return body if saved.thing.name is None else {**body, "name": saved.thing.name}


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
