"""Server-sent events: a response of our own, because a stream is the hot path. What is ready leaves in one send."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from starlette.types import Receive, Scope, Send

from bollard.host.runs.hub import StreamRecord

__all__ = ["EventStream", "frame"]

_ALIVE: Final = b": alive\n\n"
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
        self,
        batches: AsyncGenerator[list[StreamRecord]],
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        held: bool = False,
    ) -> None:
        self._batches = batches
        self._headers = [*_HEADERS, *headers]
        self._held = held
        """Whether the head waits for the first batch, because that is certain to come at once."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        head = {"type": "http.response.start", "status": 200, "headers": self._headers}
        held = self._held
        if not held:
            await send(head)
        pump = asyncio.current_task()
        left = asyncio.ensure_future(_left(receive))
        if pump is not None:
            left.add_done_callback(lambda done: None if done.cancelled() else pump.cancel())
        try:
            more = True
            async for batch in self._batches:
                if held:
                    held = False
                    await send(head)
                body = b"".join([frame(record) for record in batch]) or _ALIVE
                more = not batch or batch[-1].type != "run.ended"  # the last record and the end leave in one send
                await send({"type": "http.response.body", "body": body, "more_body": more})
            if held:
                await send(head)
            if more:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not left.done():
                raise  # the host is stopping; a reader that left is no error
        finally:
            left.cancel()
            await self._batches.aclose()


async def _left(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
