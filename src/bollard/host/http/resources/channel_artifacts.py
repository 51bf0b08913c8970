"""Downloads of a channel: the artifacts of the messages that it got, with its own signature, and nothing else."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.channels.channel import SavedChannel
from bollard.host.clock import Clock
from bollard.host.delivery.message_content import MessageContents
from bollard.host.errors import NotFound
from bollard.host.http.auth.channel_signatures import TARGET_SIGNATURE, ChannelSignatures
from bollard.host.http.downloads import CONTENT_ANSWERS, CONTENT_HEADERS, content_of
from bollard.host.http.operations import QueryField
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.log.saved_resources import Saved
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow
from bollard.host.store.store import Store

_DELIVERY_CHARACTERS: Final = 128


class ChannelArtifacts(DeclaredResource):
    """Downloads artifacts for channels."""

    tag = "channels"

    def __init__(self, store: Store, blobs: BlobStore, clock: Clock, signatures: ChannelSignatures) -> None:
        self._store = store
        self._blobs = blobs
        self._contents = MessageContents(store, clock)
        self._signatures = signatures

    @operation(
        "GET /api/v1/channels/{channel_id}/artifacts/{artifact_id}",
        name="getChannelArtifact",
        summary="Download an artifact of a message that the channel got.",
        description="Needs no token: the secret of the channel signs `webhook-id`, `webhook-timestamp`, and `GET` with "
        "the path and the query in place of the body. Every artifact that the delivery does not have is `not_found`.",
        open=True,
        query=(
            QueryField(
                name="delivery",
                summary="The delivery: the `webhook-id` of the message without its last part.",
                most=_DELIVERY_CHARACTERS,
                required=True,
                example="dlv_01",
            ),
        ),
        headers=(*TARGET_SIGNATURE, *CONTENT_HEADERS),
        answers=CONTENT_ANSWERS,
        errors=("unauthenticated", "not_found", "range_not_satisfiable"),
    )
    async def artifact(self, request: Request) -> Response:
        saved = self._signatures.signer(request)
        row = await asyncio.to_thread(self._delivered, saved, request)
        if row is None or row.sha256 is None:
            raise NotFound(
                "the delivery has no such artifact",
                reason="no_delivered_artifact",
                hint="use the ids in the contents of the message",
            )
        return await content_of(request, self._blobs, row.sha256, row.name, row.mime_type)

    def _delivered(self, saved: Saved[SavedChannel], request: Request) -> ArtifactRow | None:
        delivery = self._store.delivery(saved.workspace, request.query_params["delivery"])
        if delivery is None or delivery.channel != saved.id:
            return None
        return self._contents.artifact(delivery, request.path_params["artifact_id"])
