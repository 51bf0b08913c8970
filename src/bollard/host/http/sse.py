"""Server-sent events: a response of our own, because a stream is the hot path. What is ready leaves in one send."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.types import Receive, Scope, Send

from bollard.host.runs.hub import StreamRecord

__all__ = ["EventStream", "frame"]

KEEP_ALIVE_S: Final = 15.0
"""Time without a record after which a comment keeps proxies from closing the connection."""
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def frame(record: StreamRecord) -> bytes:
    """One record as an event. A gap carries no id: a reader that resumes must not step over it."""
    if record.type == "gap":
        return b"event: gap\ndata: %b\n\n" % record.json
    return b"id: %d.%d\nevent: %b\ndata: %b\n\n" % (record.epoch, record.seq, record.type.encode(), record.json)


class EventStream:
    """An ASGI response that sends batches of records until there are no more or the reader leaves."""

    def __init__(
        self, batches: AsyncIterator[Sequence[StreamRecord]], headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self._batches = batches
        self._headers = [*_HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        left = asyncio.ensure_future(_left(receive))
        try:
            await self._pump(send, left)
        finally:
            left.cancel()
            if isinstance(self._batches, _Closable):
                await self._batches.aclose()

    async def _pump(self, send: Send, left: "asyncio.Future[None]") -> None:
        step = asyncio.ensure_future(_next(self._batches))
        try:
            while True:
                done, _ = await asyncio.wait((step, left), timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if left in done:
                    return
                if not done:
                    await send({"type": "http.response.body", "body": b": alive\n\n", "more_body": True})
                    continue
                batch = step.result()
                if batch is None:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                body = b"".join([frame(record) for record in batch])
                step = asyncio.ensure_future(_next(self._batches))
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            step.cancel()


class _Closable:
    async def aclose(self) -> None: ...


async def _next(batches: AsyncIterator[Sequence[StreamRecord]]) -> Sequence[StreamRecord] | None:
    return await anext(batches, None)


async def _left(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
