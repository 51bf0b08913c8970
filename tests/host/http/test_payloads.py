"""Large bodies that come in at the same time: who has how many places."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from bollard.host.errors import Overloaded
from bollard.host.http.answers import BODY_BYTES
from bollard.host.http.payloads import Payloads
from bollard.host.limits import EVENT_BYTES, LARGE_EVENTS_OF_CHANNEL
from bollard.host.store.blobs import BlobStore


class Slow:
    """A body whose beginning is large, and whose end comes when it is told to."""

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
    async with AsyncExitStack() as again:  # whoever left gave the place back
        for _ in range(LARGE_EVENTS_OF_CHANNEL):
            payloads._enter("room")
            again.callback(payloads._leave, "room")


async def test_the_channels_of_one_name_do_not_take_every_place(sent: Any) -> None:
    for _ in range(LARGE_EVENTS_OF_CHANNEL):
        await sent("room")
    with pytest.raises(Overloaded):
        await sent("room")
    await sent("other")
    await sent(None)
