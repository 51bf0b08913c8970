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

from bollard.host.errors import Overloaded, PayloadTooLarge
from bollard.host.http.answers import BODY_BYTES
from bollard.host.limits import LARGE_EVENTS_AT_ONCE, LARGE_EVENTS_OF_CHANNEL
from bollard.host.runs.event import RawPayload
from bollard.host.runs.ids import IdMaker
from bollard.host.store.blobs import BlobStore

__all__ = ["Payload", "Payloads"]

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
        self, request: Request, seen: Callable[[bytes], None] | None = None, channel: str | None = None
    ) -> AsyncGenerator[Payload]:
        """The body of a request; `seen` is shown every piece. What was not kept by the end of the block is dropped.
        `channel` names the channel whose signature it claims to have."""
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self._limit:
            raise self._too_large()
        coming = _Coming(self._blobs)
        try:
            async for piece in _pieces(request):
                if seen is not None:
                    seen(piece)
                if coming.size + len(piece) > self._limit:
                    raise self._too_large()
                if not coming.upload_id and coming.size + len(piece) > BODY_BYTES:
                    await self._begin(coming, channel)
                await coming.take(piece)
            payload = await coming.whole()
            async with self._dealing if coming.upload_id else contextlib.nullcontext():
                yield payload
        finally:
            if coming.upload_id:
                self._leave(channel)
                with contextlib.suppress(Exception):  # kept by now, or swept later
                    await asyncio.to_thread(self._blobs.abandon, coming.upload_id)

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
        self._held = bytearray()
        self._digest = hashlib.sha256()
        self._written = 0
        self.upload_id = ""

    @property
    def size(self) -> int:
        return self._written + len(self._held)

    async def take(self, piece: bytes) -> None:
        self._held += piece
        if self.upload_id and len(self._held) >= _PIECE_BYTES:
            await self._write()

    async def _write(self) -> None:
        piece, self._held = bytes(self._held), bytearray()
        await asyncio.to_thread(self._append, piece)

    def _append(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._written = self._blobs.append(self.upload_id, self._written, piece)

    async def whole(self) -> Payload:
        if not self.upload_id:
            return Payload(size=len(self._held), held=bytes(self._held))
        if self._held:
            await self._write()
        return Payload(size=self._written, upload_id=self.upload_id, sha256=self._digest.hexdigest())


async def _pieces(request: Request) -> AsyncGenerator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)
