"""`artifacts.begin`, `.append` and `.finish`: contents that come in pieces, each upload of one run alone.

An upload is dropped when its run ends; one that a killed host left behind is swept with the blobs when it has been
idle for a day. Nothing of it is an artifact before `finish`, whose record is on disk before its answer.
"""

import asyncio
import base64
import contextlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from bollard.host.errors import Conflict, HostError, NotFound
from bollard.host.runapi.artifacts import metadata_of
from bollard.host.runapi.names import check_name, check_type
from bollard.host.runapi.reach import FindArtifact
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runapi.writing import write_down
from bollard.host.runs.live import LiveRun
from bollard.host.runs.payloads import artifact_id_of
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BLOB_BYTES, BlobStore
from bollard.protocol import (
    ArtifactMetadata,
    ArtifactsAppend,
    ArtifactsBegin,
    ArtifactsFinish,
    ArtifactUpload,
    JsonObject,
)

__all__ = ["UPLOADS_PER_RUN", "Uploads"]

UPLOADS_PER_RUN: Final = 16
"""Uploads that one run may have open."""


class Uploads:
    """The open uploads of this host's live runs."""

    def __init__(
        self,
        blobs: BlobStore,
        find: FindArtifact,
        *,
        terms: ArtifactTerms = ANY_TERMS,
        max_bytes: int = BLOB_BYTES,
    ) -> None:
        self._blobs = blobs
        self._find_artifact = find
        self._terms = terms
        self._max_bytes = max_bytes
        self._open: dict[str, dict[str, ArtifactsBegin]] = {}
        """By run, then by upload."""
        self._dropping: set[asyncio.Task[None]] = set()

    async def begin(self, run: LiveRun, params: ArtifactsBegin) -> ArtifactUpload:
        check_name("name", params.name)
        check_name("artifact_type", params.artifact_type)
        check_type(self._terms, params.mime_type)
        self._check_room(run)
        upload_id = await asyncio.to_thread(self._blobs.begin)
        try:
            self._check_room(run)  # others may have begun, or the run ended, meanwhile
        except ApiRefused:
            self._drop([upload_id])
            raise
        self._of(run)[upload_id] = params
        return ArtifactUpload(upload_id=upload_id)

    async def append(self, run: LiveRun, params: ArtifactsAppend) -> ArtifactUpload:
        self._find(run, params.upload_id)
        content = base64.b64decode(params.content_base64)
        if params.offset + len(content) > self._max_bytes:
            raise ApiRefused("payload_too_large", f"an artifact has {self._max_bytes} bytes at most")
        with _upload_errors("offset"):
            here = await asyncio.to_thread(self._append, run, params.upload_id, params.offset, content)
        return ArtifactUpload(upload_id=params.upload_id, offset=here)

    def _append(self, run: LiveRun, upload_id: str, offset: int, content: bytes) -> int:
        """Unless a secret would be whole: the pieces of one may come one by one, and at once."""

        def judge(joined: bytes) -> None:
            if run.withholds(joined):
                raise ApiRefused("invalid_argument", "the content has a secret of the workspace in it")

        return self._blobs.append(upload_id, offset, content, reach=run.secret_bytes, judge=judge)

    async def finish(self, run: LiveRun, params: ArtifactsFinish) -> ArtifactMetadata:
        begun = self._find(run, params.upload_id)
        with _upload_errors("sha256"):  # of two at once, the blobs let one through
            size = await asyncio.to_thread(self._keep, params.upload_id, params.sha256)
        await self._record(run, params, begun, size)
        self._forget(run, params.upload_id)
        row = await asyncio.to_thread(self._find_artifact, run, _artifact_id(run, params.upload_id))
        if row is None:
            raise _no_upload()
        return metadata_of(row)

    def _keep(self, upload_id: str, sha256: str) -> int:
        return self._blobs.size(self._blobs.finish(upload_id, sha256))

    async def _record(self, run: LiveRun, params: ArtifactsFinish, begun: ArtifactsBegin, size: int) -> None:
        data: JsonObject = {
            "artifact_id": _artifact_id(run, params.upload_id),
            "artifact_type": begun.artifact_type,
            "mime_type": begun.mime_type,
            "name": begun.name,
            "size_bytes": size,
            "sha256": params.sha256,
        }
        await write_down(run, "artifact.created", data)

    # --- whose they are ---

    def _check_room(self, run: LiveRun) -> None:
        if run.done.done():
            raise ApiRefused("not_found", "there is no such run")
        if len(self._open.get(run.facts.run_id, ())) >= UPLOADS_PER_RUN:
            raise ApiRefused("rate_limited", f"{UPLOADS_PER_RUN} uploads of this run are open; finish one first")

    def _of(self, run: LiveRun) -> dict[str, ArtifactsBegin]:
        run_id = run.facts.run_id
        if run_id not in self._open:
            self._open[run_id] = {}
            run.done.add_done_callback(lambda _: self._drop(self._open.pop(run_id, {})))
        return self._open[run_id]

    def _find(self, run: LiveRun, upload_id: str) -> ArtifactsBegin:
        """The run's own open upload; that of another run looks like none."""
        begun = self._open.get(run.facts.run_id, {}).get(upload_id)
        if begun is None:
            raise _no_upload()
        return begun

    def _forget(self, run: LiveRun, upload_id: str) -> None:
        self._open.get(run.facts.run_id, {}).pop(upload_id, None)

    def _drop(self, upload_ids: Iterable[str]) -> None:
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._abandon, list(upload_ids)))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    def _abandon(self, upload_ids: list[str]) -> None:
        for upload_id in upload_ids:
            with contextlib.suppress(HostError):  # it was finished meanwhile, or the sweep will take it
                self._blobs.abandon(upload_id)


def _artifact_id(run: LiveRun, upload_id: str) -> str:
    return artifact_id_of(run.facts.run_id, upload_id)  # random, so nobody guesses it and nothing else has it


def _no_upload() -> ApiRefused:
    return ApiRefused("not_found", "this run has no such upload")


@contextmanager
def _upload_errors(field: str) -> Generator[None]:
    """What the blobs say of an upload, as a runner gets it."""
    try:
        yield
    except NotFound:
        raise _no_upload() from None
    except Conflict as error:
        details: JsonObject = {"field": field}
        if field == "offset":
            details["offset"] = error.details["expected"]
        raise ApiRefused("invalid_argument", f"{field}: {error.message}; {error.hint}", details=details) from None
