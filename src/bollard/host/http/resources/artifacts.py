"""`/artifacts`: show, download and delete artifacts. Content is always sent as a download, because its author is not
trusted."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.files.message_file import MessageFile
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.downloads import CONTENT_ANSWERS, CONTENT_HEADERS, content_of
from bollard.host.http.openapi.examples import ARTIFACT_EXAMPLE
from bollard.host.http.openapi.schemas import FLAG, TEXT, fields
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.identity.audience import Audience
from bollard.host.log.journal import Journal
from bollard.host.log.removal import remove_artifact
from bollard.host.run_api.artifacts import metadata_of
from bollard.host.run_api.reach import FetchContent, as_stored
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import MESSAGE_SOURCE, ArtifactRow, EventRow
from bollard.host.store.store import Store
from bollard.protocol import ArtifactMetadata

_ID_CHARACTERS: Final = 256


_ARTIFACT: Final = "/api/v1/artifacts/{artifact_id}"


class Artifacts(DeclaredResource):
    """Reads artifacts for people and programs, and deletes them."""

    tag = "artifacts"

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        clock: Clock,
        audience: Audience,
        journal: Journal,
        fetch: FetchContent = as_stored,
    ) -> None:
        self._fetch = fetch
        self._store = store
        self._journal = journal
        self._audience = audience
        self._blobs = blobs
        self._clock = clock

    @operation(
        f"GET {_ARTIFACT}",
        name="getArtifact",
        summary="Show the metadata of an artifact.",
        right="artifacts.read",
        answers={200: Answer(summary="The artifact.", schema=ArtifactMetadata, example=ARTIFACT_EXAMPLE)},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        return JsonAnswer(metadata_of(await self._readable(request)).to_wire())

    @operation(
        f"GET {_ARTIFACT}/content",
        name="getArtifactContent",
        summary="Download the content of an artifact, or one range of its bytes.",
        description="Always a download, never a page. One `Range` of bytes is supported.",
        right="artifacts.read",
        headers=CONTENT_HEADERS,
        answers=CONTENT_ANSWERS,
        errors=("not_found", "range_not_satisfiable"),
    )
    async def content(self, request: Request) -> Response:
        row = await self._fetch(await self._readable(request))
        if row.sha256 is None:
            raise NotFound(
                "the artifact has no content here",
                reason="artifact_elsewhere",
                hint="read its metadata to see the location",
            )
        return await content_of(request, self._blobs, row.sha256, row.name, row.mime_type)

    @operation(
        f"DELETE {_ARTIFACT}",
        name="deleteArtifact",
        summary="Delete an artifact. References to it are then not found.",
        description="The next housekeeping deletes the content, unless another artifact or file has the same content. "
        "The log keeps its name and digest. Delete files of the workspace with `/files`.",
        right="artifacts.write",
        answers={
            200: Answer(
                summary="The artifact is deleted.",
                schema=fields(artifact_id=TEXT, deleted=FLAG),
                example={"artifact_id": ARTIFACT_EXAMPLE["artifact_id"], "deleted": True},
            )
        },
        errors=("not_found",),
    )
    async def delete(self, request: Request) -> Response:
        caller, row = caller_of(request), await self._readable(request)
        await remove_artifact(
            self._journal, caller.workspace, row.artifact_id, by=caller.name, now_ms=self._clock.now_ms()
        )
        return JsonAnswer({"artifact_id": row.artifact_id, "deleted": True})

    async def _readable(self, request: Request) -> ArtifactRow:
        """Files of the workspace are excluded: they have a right of their own."""
        row = await self._found(request)
        if row.source == "upload":
            raise _absent()
        return row

    async def _found(self, request: Request) -> ArtifactRow:
        artifact_id: str = request.path_params["artifact_id"]
        caller, row = caller_of(request), None
        if len(artifact_id) <= _ID_CHARACTERS:
            row, event = await asyncio.to_thread(self._look_up, caller.workspace, artifact_id)
            if row is not None and row.source == MESSAGE_SOURCE and event is None:
                own = MessageFile.of_row(row).by == caller.name  # no message uses it yet
                row = row if own or self._audience.is_free(caller) else None
            elif event is not None:
                row = row if await self._audience.sees_event(caller, event) else None
            elif row is not None and not await self._audience.sees_run(caller, row.run_id):
                row = None
        if row is None or (row.expires_ms is not None and row.expires_ms <= self._clock.now_ms()):
            raise _absent()
        return row

    def _look_up(self, workspace: str, artifact_id: str) -> tuple[ArtifactRow | None, EventRow | None]:
        """The artifact, and the event that brought it. Callers that see the event see its files and its payload."""
        row = self._store.artifact(workspace, artifact_id)
        if row is not None and row.source == MESSAGE_SOURCE:
            return row, self._store.event(workspace, MessageFile.of_row(row).event_id or "")
        if row is None or row.run_id is not None or row.source != "event":
            return row, None
        return row, self._store.event(workspace, row.name or "")


def _absent() -> NotFound:
    return NotFound("there is no such artifact", reason="no_artifact", hint="records and messages name artifacts")
