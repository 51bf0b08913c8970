"""Bodies of events: small ones in memory, large ones on their way to the blob store while they come in.

Of the large ones two at a time are dealt with once they are whole: some must be read to be understood (an event as one
JSON document, a batch). One whose meaning is in its headers is never in memory.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from bollard.host.errors import Overloaded, PayloadTooLarge, StorageFull
from bollard.host.http.answers import BODY_BYTES
from bollard.host.limits import LARGE_EVENTS_AT_ONCE, LARGE_EVENTS_OF_CHANNEL
from bollard.host.runs.event import RawPayload
from bollard.host.runs.ids import IdMaker
from bollard.host.store.blobs import BlobStore

_PIECE_BYTES: Final = 512 * 1024
"""What is written to the store at once."""
_DEALT_WITH_AT_ONCE: Final = 2
_MIME_CHARACTERS: Final = 255


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A body that has come in. Either it is held, or the store has it."""

    size: int
    held: bytes | None = None
    upload_id: str = ""
    sha256: str = ""


class Payloads:
    """The bodies that come in at one door."""

    def __init__(self, blobs: BlobStore, limit: int) -> None:
        self._blobs = blobs
        self._limit = limit
        self._ids = IdMaker()
        self._large = 0
        self._of_channels: Counter[str] = Counter()
        """Those that come through a channel, by its name: until they are whole nobody knows who signed them."""
        self._dealing = asyncio.Semaphore(_DEALT_WITH_AT_ONCE)

    @contextlib.asynccontextmanager
    async def received(
        self,
        request: Request,
        seen: Callable[[bytes], None] | None = None,
        channel: str | None = None,
        *,
        again: bool = False,
    ) -> AsyncGenerator[Payload]:
        """The body of a request; `seen` is shown every piece. What was not kept by the end of the block is dropped.
        `channel` names the channel whose signature it claims to have. With `again` it may be of something that was
        taken before, whose sender is told so also by a full disk: it is in memory then, while there is a place."""
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self._limit:
            raise self._too_large()
        coming = _Coming(self._blobs)
        async with contextlib.AsyncExitStack() as place:
            try:
                async for piece in _pieces(request):
                    if seen is not None:
                        seen(piece)
                    if coming.size + len(piece) > self._limit:
                        raise self._too_large()
                    coming.held += piece
                    await self._spill(coming, channel, place if again else None, _PIECE_BYTES)
                await self._spill(coming, channel, place if again else None, 1)
                if coming.upload_id and not coming.stays:
                    await place.enter_async_context(self._dealing)
                yield coming.whole()
            finally:
                if coming.upload_id:
                    self._leave(channel)
                    with contextlib.suppress(Exception):  # kept by now, or swept later
                        await asyncio.to_thread(self._blobs.abandon, coming.upload_id)

    async def _spill(
        self, coming: "_Coming", channel: str | None, place: contextlib.AsyncExitStack | None, least: int
    ) -> None:
        """What is held of a large body goes to the disk, where it is `least` bytes. Where the disk is full the body
        stays in memory, if there is a `place` among those that are dealt with; else raises `StorageFull`."""
        if coming.stays or coming.size <= BODY_BYTES or len(coming.held) < least:
            return
        try:
            if not coming.upload_id:
                await self._begin(coming, channel)
            await coming.write()
        except StorageFull:
            if place is None or self._dealing.locked():
                raise
            await place.enter_async_context(self._dealing)
            await coming.stay()

    async def _begin(self, coming: "_Coming", channel: str | None) -> None:
        self._enter(channel)
        try:
            coming.upload_id = await asyncio.to_thread(self._blobs.begin)
        except BaseException:
            self._leave(channel)
            raise

    def _enter(self, channel: str | None) -> None:
        """A stranger who knows the name of one channel does not take the places of the others."""
        of_channel = 0 if channel is None else self._of_channels[channel]
        if self._large >= LARGE_EVENTS_AT_ONCE or of_channel >= LARGE_EVENTS_OF_CHANNEL:
            raise Overloaded("too many large events come in at once", hint="try again in a moment")
        self._large += 1
        if channel is not None:
            self._of_channels[channel] += 1

    def _leave(self, channel: str | None) -> None:
        self._large -= 1
        if channel is not None:
            self._of_channels[channel] -= 1
            self._of_channels += Counter()  # forget those that have none

    def _too_large(self) -> PayloadTooLarge:
        hint = "send a reference, or raise event_bytes in the settings"
        return PayloadTooLarge(f"the body is larger than {self._limit} bytes", hint=hint, field="body")

    async def read(self, payload: Payload) -> bytes:
        """The whole body."""
        if payload.held is not None:
            return payload.held
        return await asyncio.to_thread(self._blobs.received_bytes, payload.upload_id)

    def pieces(self, payload: Payload) -> Iterable[bytes]:
        """The whole body, never at once in memory where it is large. Blocks."""
        return self._blobs.received_pieces(payload.upload_id) if payload.held is None else (payload.held,)

    async def store(self, payload: Payload) -> str:
        """Make a body a blob; returns its digest. On disk when this returns."""
        if payload.held is not None:
            return await asyncio.to_thread(self._blobs.put, payload.held)
        return await asyncio.to_thread(self._blobs.finish, payload.upload_id, payload.sha256)

    async def keep(self, payload: Payload | bytes, mime_type: str | None) -> RawPayload:
        """Make a body, or a part of one, the content of an artifact. On disk when this returns."""
        if isinstance(payload, bytes):
            payload = Payload(size=len(payload), held=payload)
        sha256 = await self.store(payload)
        return RawPayload(
            artifact_id=f"art_evt_{self._ids.next(0)}",
            sha256=sha256,
            size_bytes=payload.size,
            mime_type=None if mime_type is None else mime_type[:_MIME_CHARACTERS],
        )


class _Coming:
    """A body that is coming in."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._digest = hashlib.sha256()
        self._written = 0
        self.held = bytearray()
        """What has come and is not on disk."""
        self.upload_id = ""
        self.stays = False
        """Whether all of it stays in memory, because the disk is full."""

    @property
    def size(self) -> int:
        return self._written + len(self.held)

    async def write(self) -> None:
        """What is held goes to the disk, or stays where it is."""
        piece = bytes(self.held)
        await asyncio.to_thread(self._append, piece)
        self._written += len(piece)
        del self.held[: len(piece)]

    def _append(self, piece: bytes) -> None:
        self._blobs.append(self.upload_id, self._written, piece)
        self._digest.update(piece)

    async def stay(self) -> None:
        """All of it is held from now on, also what is on disk."""
        if self._written:
            written = await asyncio.to_thread(self._blobs.received_bytes, self.upload_id)
            self.held[:0] = written[: self._written]  # a write that failed may have left more
        self._written, self.stays = 0, True

    def whole(self) -> Payload:
        if self.stays or not self.upload_id:
            return Payload(size=self.size, held=bytes(self.held))
        return Payload(size=self._written, upload_id=self.upload_id, sha256=self._digest.hexdigest())


async def _pieces(request: Request) -> AsyncGenerator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)
