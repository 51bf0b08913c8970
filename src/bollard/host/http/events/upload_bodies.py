"""The bodies of uploads: a whole file, or the next piece of one. Callers and channels share the limits."""

import asyncio
import contextlib
import hashlib
from typing import Final

from starlette.requests import ClientDisconnect, Request

from bollard.host.errors import InvalidRequest, Overloaded, PayloadTooLarge
from bollard.host.files.media_types import HEAD_BYTES
from bollard.host.files.message_file import MessageFile
from bollard.host.files.uploads import MessageUploads, NewUpload, OpenUpload, digest_differs
from bollard.host.http.events.payloads import Payload, Payloads, pieces_of
from bollard.host.limits import MESSAGE_FILE_BYTES
from bollard.host.scope import Place
from bollard.host.store.blobs import BlobStore
from bollard.host.store.keys import key_problem

_PIECE_BYTES: Final = 512 * 1024
"""The size of one write to the store."""


class UploadBodies:
    """Receives the contents of uploads."""

    def __init__(self, uploads: MessageUploads, blobs: BlobStore) -> None:
        self._uploads = uploads
        self._payloads = Payloads(blobs, MESSAGE_FILE_BYTES)

    async def whole(self, request: Request, new: NewUpload, channel: str | None = None) -> MessageFile:
        """Receive a whole file. `channel` is the channel that sends it. Raises `HostError`."""
        try:
            async with self._payloads.received(request, channel=channel) as payload:
                return await self._kept(new, payload)
        except PayloadTooLarge:
            raise PayloadTooLarge(
                f"a file of a message has at most {MESSAGE_FILE_BYTES} bytes",
                reason="message_file_too_large",
                hint="send a smaller file",
                field="body",
                limit=MESSAGE_FILE_BYTES,
            ) from None
        except Overloaded:
            raise Overloaded(
                "too many large files arrive at once", reason="too_many_files", hint="try again in a moment"
            ) from None

    async def _kept(self, new: NewUpload, payload: Payload) -> MessageFile:
        if not payload.size:
            raise InvalidRequest("the file is empty", reason="message_file_empty", hint="send its bytes", field="body")
        sha256, head = await asyncio.to_thread(self._digest, payload)
        if new.sha256 not in (None, sha256):
            raise digest_differs(new.sha256 or "")
        await asyncio.to_thread(self._uploads.check_content, new, head, lambda: self._payloads.pieces(payload))
        await self._payloads.store(payload)
        return await self._uploads.add(new, sha256, payload.size)

    def _digest(self, payload: Payload) -> tuple[str, bytes]:
        with contextlib.closing(self._payloads.pieces(payload)) as pieces:  # it may hold a lock
            head = next(pieces, b"")[:HEAD_BYTES]
        return payload.sha256 or hashlib.sha256(payload.held or b"").hexdigest(), head

    async def piece(self, request: Request, upload: OpenUpload, offset: int) -> int:
        """Receive the next piece of an upload; returns the next offset. Of an interrupted request, the received bytes
        stay."""
        held, here = bytearray(), offset
        try:
            async for piece in pieces_of(request):
                held += piece
                if len(held) >= _PIECE_BYTES:
                    await self._uploads.append(upload, here, bytes(held))
                    here += len(held)
                    held.clear()
        except ClientDisconnect:
            await self._uploads.append(upload, here, bytes(held))
            raise
        return await self._uploads.append(upload, here, bytes(held))


def check_place(place: Place) -> None:
    """Raises `InvalidRequest` for a name that cannot be stored."""
    for name in ("conversation", "thread", "bot"):
        if (problem := key_problem(getattr(place, name) or "")) is not None:
            raise InvalidRequest(
                f"{name} {problem}", reason="event_id", hint="choose another value", field=name, problem=problem
            )
