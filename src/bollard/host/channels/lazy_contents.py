"""Contents that a channel keeps until they are read. The first read fetches the content with a signed request,
stores it, and records it; later reads use the stored content."""

import asyncio
from typing import Final

import msgspec

from bollard.host.channels.registry import ChannelRepository
from bollard.host.clock import Clock
from bollard.host.errors import EgressDenied, HostError, NotFound, OutcomeUnknown, ToolFailed
from bollard.host.files.media_types import HEAD_BYTES, fits
from bollard.host.files.message_file import MessageFile
from bollard.host.limits import LAZY_FILE_BYTES
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import MESSAGE_SOURCE, ArtifactRow

CHANNEL_CALLER: Final = "channel:"
"""The prefix of the name of a channel as a caller."""
_OK: Final = 200


class LazyContents:
    """Fetches the contents of artifacts. Concurrent readers share one request."""

    def __init__(self, channels: ChannelRepository, journal: Journal, blobs: BlobStore, clock: Clock) -> None:
        self._channels = channels
        self._journal = journal
        self._blobs = blobs
        self._clock = clock
        self._fetching: dict[tuple[str, str], asyncio.Task[ArtifactRow]] = {}

    async def fetched(self, row: ArtifactRow) -> ArtifactRow:
        """The artifact with its content. Raises `NotFound` if its channel does not provide it."""
        if row.sha256 is not None or row.source != MESSAGE_SOURCE:
            return row
        key = (row.workspace, row.artifact_id)
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch(row))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    def _forget(self, key: tuple[str, str], task: "asyncio.Task[ArtifactRow]") -> None:
        self._fetching.pop(key, None)
        if not task.cancelled():
            task.exception()  # the readers got it, or have gone

    async def _fetch(self, row: ArtifactRow) -> ArtifactRow:
        file = MessageFile.of_row(row)
        channel = self._channels.file_source(row.workspace, file.by.removeprefix(CHANNEL_CALLER))
        if channel is None or file.fetch is None:
            raise _unfetched("its channel is gone or disabled")
        if not channel.serves(file.fetch):
            raise _unfetched("its channel has another address now")
        try:
            reply = await channel.fetch(file.fetch, row.artifact_id)
        except (EgressDenied, ToolFailed, OutcomeUnknown) as error:
            raise _unfetched(error.message) from error
        if reply.status != _OK:
            raise _unfetched(f"the channel answered with status {reply.status}")
        if reply.truncated:
            raise _unfetched(f"the file has more than {LAZY_FILE_BYTES} bytes")
        if not reply.body or not fits(file.mime_type, reply.body[:HEAD_BYTES]):
            raise _unfetched(f"the content is empty, or is not {file.mime_type}")
        sha256 = await asyncio.to_thread(self._blobs.put, reply.body)
        whole = msgspec.structs.replace(file, sha256=sha256, size_bytes=len(reply.body))
        record = whole.record(self._clock.now_ms(), run_id=row.run_id)
        await self._journal.commit(Entry(records=[record], size=len(record.data)))
        return msgspec.structs.replace(row, sha256=sha256, size_bytes=len(reply.body))


def _unfetched(problem: str) -> HostError:
    return NotFound(
        f"the file could not be fetched: {problem}",
        reason="file_not_fetched",
        hint="ask for the file again, or send it with the message",
        problem=problem,
    )
