"""Bodies of events: small ones stay in memory, large ones are streamed to the blob store.

At most two large bodies are processed at once, because a JSON document or a batch must be read into memory. The body of
a binary CloudEvent is never in memory as a whole.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from bollard.host.errors import HostError, Overloaded, PayloadTooLarge, StorageFull
from bollard.host.http.answers import BODY_BYTES, body_too_large
from bollard.host.limits import LARGE_EVENTS_AT_ONCE, LARGE_EVENTS_OF_CHANNEL
from bollard.host.runs.event import RawPayload
from bollard.host.runs.ids import IdMaker
from bollard.host.store.blobs import BlobStore

_PIECE_BYTES: Final = 512 * 1024
"""The size of one write to the store."""
_PROCESSED_AT_ONCE: Final = 2
_MIME_CHARACTERS: Final = 255
_EVENT_HINT: Final = "send a reference, or raise the setting event_bytes"
MESSAGE_HINT: Final = (
    "upload files with `bollard chat --agent AGENT --file PATH` or POST /api/v1/artifacts, and attach them"
)


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A received body, either in memory (`held`) or in the store (`upload_id`)."""

    size: int
    held: bytes | None = None
    upload_id: str = ""
    sha256: str = ""


class Payloads:
    """Receives bodies of events, within limits that its users share."""

    def __init__(self, blobs: BlobStore, limit: int, *, reason: str = "event_body", hint: str = _EVENT_HINT) -> None:
        """`reason` and `hint` are those of the error for a body that is larger than `limit`."""
        self._reason = reason
        self._hint = hint
        self._blobs = blobs
        self._limit = limit
        self._ids = IdMaker()
        self._large = 0
        self._of_channels: Counter[str] = Counter()
        """Large bodies by channel: their signatures are unknown until they are complete."""
        self._processing = asyncio.Semaphore(_PROCESSED_AT_ONCE)

    @contextlib.asynccontextmanager
    async def received(
        self,
        request: Request,
        on_piece: Callable[[bytes], None] | None = None,
        channel: str | None = None,
        *,
        again: bool = False,
    ) -> AsyncGenerator[Payload]:
        """Receive the body of a request and pass every piece to `on_piece`. A body that is not stored by the end of the
        block is dropped. `channel` names the channel of the claimed signature. With `again`, the event may be a repeat,
        which is answered even when the disk is full: its body then stays in memory if there is capacity."""
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self._limit:
            raise self._too_large()
        body = _IncomingBody(self._blobs)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async for piece in pieces_of(request):
                    if on_piece is not None:
                        on_piece(piece)
                    if body.size + len(piece) > self._limit:
                        raise self._too_large()
                    body.held += piece
                    await self._spill(body, channel, stack if again else None, _PIECE_BYTES)
                await self._spill(body, channel, stack if again else None, 1)
                await self._spill(body, channel, stack if again else None, 0)
                if body.upload_id and not body.in_memory:
                    await stack.enter_async_context(self._processing)
                yield body.finish()
            finally:
                if body.upload_id:
                    await body.settled()
                    self._leave(channel)
                    with contextlib.suppress(Exception):  # stored by now, or swept later
                        await asyncio.to_thread(self._blobs.abandon, body.upload_id)

    async def _spill(
        self, body: "_IncomingBody", channel: str | None, stack: contextlib.AsyncExitStack | None, least: int
    ) -> None:
        """Begin to write the buffer of a large body to disk when it has `least` bytes, after the write before. With a
        `least` of 0, also wait for the end of the write. If the disk is full, the body stays in memory when a `stack`
        is passed and there is capacity; otherwise raises `StorageFull`."""
        if body.in_memory or body.size <= BODY_BYTES or len(body.held) < least:
            return
        try:
            if not body.upload_id:
                await self._begin(body, channel)
            await body.write()
            if not least:
                await body.written()
        except StorageFull:
            if stack is None or self._processing.locked():
                raise
            await stack.enter_async_context(self._processing)
            await body.move_to_memory()

    async def _begin(self, body: "_IncomingBody", channel: str | None) -> None:
        self._enter(channel)
        try:
            body.upload_id = await asyncio.to_thread(self._blobs.begin)
        except BaseException:
            self._leave(channel)
            raise

    def _enter(self, channel: str | None) -> None:
        """Count a large body. The limit per channel keeps a client that knows one channel from blocking the others."""
        of_channel = 0 if channel is None else self._of_channels[channel]
        if self._large >= LARGE_EVENTS_AT_ONCE or of_channel >= LARGE_EVENTS_OF_CHANNEL:
            raise Overloaded(
                "too many large events are being received", reason="large_events", hint="retry in a moment"
            )
        self._large += 1
        if channel is not None:
            self._of_channels[channel] += 1

    def _leave(self, channel: str | None) -> None:
        self._large -= 1
        if channel is not None:
            self._of_channels[channel] -= 1
            self._of_channels += Counter()  # drops zero counts

    def _too_large(self) -> PayloadTooLarge:
        return body_too_large(self._limit, reason=self._reason, hint=self._hint)

    async def read(self, payload: Payload) -> bytes:
        """Read the whole body into memory."""
        if payload.held is not None:
            return payload.held
        return await asyncio.to_thread(self._blobs.received_bytes, payload.upload_id)

    def pieces(self, payload: Payload) -> Generator[bytes]:
        """The body in pieces, never in memory as a whole if it is large. Blocks."""
        if payload.held is None:
            yield from self._blobs.received_pieces(payload.upload_id)
        else:
            yield payload.held

    async def store(self, payload: Payload) -> str:
        """Store a body as a blob and return its digest. Durable when this returns."""
        if payload.held is not None:
            return await asyncio.to_thread(self._blobs.put, payload.held)
        return await asyncio.to_thread(self._blobs.keep, payload.upload_id, payload.sha256)

    async def keep(self, payload: Payload | bytes, mime_type: str | None) -> RawPayload:
        """Store a body, or a part of one, as the content of an artifact. Durable when this returns."""
        if isinstance(payload, bytes):
            payload = Payload(size=len(payload), held=payload)
        sha256 = await self.store(payload)
        return RawPayload(
            artifact_id=f"art_evt_{self._ids.next(0)}",
            sha256=sha256,
            size_bytes=payload.size,
            mime_type=None if mime_type is None else mime_type[:_MIME_CHARACTERS],
        )


class _IncomingBody:
    """A body that is being received."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._digest = hashlib.sha256()
        self._written = 0
        self._piece = b""
        """Bytes that are being written."""
        self._writing: asyncio.Task[None] | None = None
        self.held = bytearray()
        """Bytes that are not on disk."""
        self.upload_id = ""
        self.in_memory = False
        """Whether the whole body stays in memory because the disk is full."""

    @property
    def size(self) -> int:
        return self._written + len(self._piece) + len(self.held)

    async def write(self) -> None:
        """Begin to write the buffer to disk, after the write before. The next bytes arrive meanwhile."""
        await self.written()
        if self.held:
            self._piece, self.held = bytes(self.held), bytearray()
            self._writing = asyncio.create_task(asyncio.to_thread(self._append, self._piece))

    async def written(self) -> None:
        """Wait for the write. After a failure its bytes are in the buffer again."""
        if self._writing is None:
            return
        try:
            await asyncio.shield(self._writing)
        except HostError:
            self.held[:0] = self._piece
            self._piece, self._writing = b"", None
            raise
        self._written += len(self._piece)
        self._piece, self._writing = b"", None

    async def settled(self) -> None:
        """Wait until no thread uses the upload."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    def _append(self, piece: bytes) -> None:
        self._blobs.append(self.upload_id, self._written, piece)
        self._digest.update(piece)

    async def move_to_memory(self) -> None:
        """Move the body from disk back into memory, and keep it there."""
        if self._written:
            written = await asyncio.to_thread(self._blobs.received_bytes, self.upload_id)
            self.held[:0] = written[: self._written]  # a write that failed may have left more
        self._written, self.in_memory = 0, True

    def finish(self) -> Payload:
        if self.in_memory or not self.upload_id:
            return Payload(size=self.size, held=bytes(self.held))
        return Payload(size=self._written, upload_id=self.upload_id, sha256=self._digest.hexdigest())


async def pieces_of(request: Request) -> AsyncGenerator[bytes]:
    """The body of a request as it arrives. Raises `ClientDisconnect`."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)
