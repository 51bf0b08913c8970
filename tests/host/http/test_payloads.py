"""Large bodies: concurrency, limits per channel, and a full disk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from bollard.host.errors import Overloaded, StorageFull
from bollard.host.http.answers import BODY_BYTES
from bollard.host.http.events.payloads import Payloads
from bollard.host.limits import EVENT_BYTES, LARGE_EVENTS_OF_CHANNEL
from bollard.host.store.blobs import BlobStore


class Slow:
    """A body with a large beginning, whose end arrives on demand."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.end = asyncio.Event()
        self._told = False

    async def receive(self) -> Any:
        if not self._told:
            self._told = True
            return {"type": "http.request", "body": b"x" * (BODY_BYTES + 1), "more_body": True}
        self.began.set()
        await self.end.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
async def sent(tmp_path: Path) -> AsyncIterator[Callable[[str | None], asyncio.Task[None]]]:
    """`sent(channel)`: a slow body begins; its task ends when it has its place, or raises."""
    payloads, bodies, readers = Payloads(BlobStore(tmp_path), EVENT_BYTES), list[Slow](), list[asyncio.Task[None]]()

    async def read(body: Slow, channel: str | None) -> None:
        request = Request({"type": "http", "headers": []}, body.receive)
        async with payloads.received(request, None, channel):
            raise AssertionError("it never becomes whole")

    async def begin(channel: str | None) -> None:
        body = Slow()
        bodies.append(body)
        reader = asyncio.create_task(read(body, channel))
        readers.append(reader)
        began = asyncio.create_task(body.began.wait())
        await asyncio.wait({reader, began}, return_when=asyncio.FIRST_COMPLETED)
        began.cancel()
        if reader.done():
            await reader

    yield lambda channel: asyncio.create_task(begin(channel))
    for body in bodies:
        body.end.set()
    for outcome in await asyncio.gather(*readers, return_exceptions=True):
        assert isinstance(outcome, ClientDisconnect | Overloaded)
    async with AsyncExitStack() as again:  # the abandoned request freed its slot
        for _ in range(LARGE_EVENTS_OF_CHANNEL):
            payloads._enter("room")
            again.callback(payloads._leave, "room")


async def test_channels_of_one_name_do_not_take_every_slot(sent: Any) -> None:
    for _ in range(LARGE_EVENTS_OF_CHANNEL):
        await sent("room")
    with pytest.raises(Overloaded):
        await sent("room")
    await sent("other")
    await sent(None)


class FullBlobs(BlobStore):
    """Contents on a disk that takes so many pieces of uploads and is full then."""

    def __init__(self, root: Path, pieces: int) -> None:
        super().__init__(root)
        self.pieces = pieces

    def append(self, upload_id: str, offset: int, content: bytes, **more: Any) -> int:
        if not self.pieces:
            super().append(upload_id, offset, content[:100])  # what fitted is there
            raise StorageFull("the disk is full", reason="test", hint="free some space")
        self.pieces -= 1
        return super().append(upload_id, offset, content, **more)


def sending(content: bytes) -> Request:
    pieces = [content[at : at + 300_000] for at in range(0, len(content), 300_000)]

    async def receive() -> Any:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    return Request({"type": "http", "headers": []}, receive)


CONTENT = bytes(range(256)) * 12_000


@pytest.mark.parametrize("pieces", [0, 1, 2, 3])
async def test_a_body_of_a_possible_duplicate_stays_in_memory_on_a_full_disk(tmp_path: Path, pieces: int) -> None:
    payloads = Payloads(FullBlobs(tmp_path, pieces), EVENT_BYTES)
    async with payloads.received(sending(CONTENT), again=True) as payload:
        assert (payload.held, payload.size) == (CONTENT, len(CONTENT))
    assert not list((tmp_path / "uploads").iterdir())
    with pytest.raises(StorageFull):
        async with payloads.received(sending(CONTENT)):
            raise AssertionError("nobody said that it may be known")


async def test_the_number_of_bodies_in_memory_is_limited(tmp_path: Path) -> None:
    payloads = Payloads(FullBlobs(tmp_path, 0), EVENT_BYTES)
    for _ in range(2):  # places that were taken are free again
        async with AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(payloads.received(sending(CONTENT), again=True))
            with pytest.raises(StorageFull):
                await held.enter_async_context(payloads.received(sending(CONTENT), again=True))
