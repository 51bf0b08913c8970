"""Server-sent events. A response class of our own, because streams are the hot path: ready records go out in one
send."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from bollard.host.http.auth.presence import AccessRevoked
from bollard.host.runs.hub import StreamRecord

ALIVE: Final = b": alive\n\n"
"""A comment, so that proxies keep a silent stream open."""
STREAM_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
_HEADERS: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), *STREAM_HEADERS)


def frame(record: StreamRecord) -> bytes:
    """One record as an event. A gap has no id, so that a client that resumes does not skip it."""
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
        last_type: str | None = "run.ended",
        last_word: Callable[[int | None], StreamRecord] | None = None,
    ) -> None:
        """`last_type` is the type of the record that ends the stream, if there is one. `last_word` builds the final
        record when the host ends the stream, from the number of the last record."""
        self._batches = batches
        self._last_type = last_type
        self._last_word = last_word
        self._pump: asyncio.Task[object] | None = None
        self._is_ended = False
        self._headers = [*_HEADERS, *headers]
        self._joins_head = held
        """Whether the head is sent with the first batch, which is about to come."""
        self._head: Message | None = None
        """The head until it is sent."""
        self._seen: int | None = None

    def end(self) -> None:
        """End the stream: the reader has lost access."""
        self._is_ended = True
        if self._pump is not None:
            self._pump.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._head = {"type": "http.response.start", "status": 200, "headers": self._headers}
        if scope["method"] == "HEAD":
            await self._send_last(send, b"")
            await self._batches.aclose()
            return
        self._pump = pump = asyncio.current_task()
        if not self._joins_head:
            await self._send_head(send)
        disconnect = asyncio.create_task(hung_up(receive))
        if pump is not None:
            disconnect.add_done_callback(lambda done: None if done.cancelled() else pump.cancel())
        try:
            await self._send_all(send)
        except AccessRevoked:
            await self._send_last_word(send)
        except asyncio.CancelledError:
            if self._is_ended and not disconnect.done():
                await self._send_last_word(send)
            elif not disconnect.done():
                raise  # the host is stopping; a client that disconnects is not an error
        finally:
            self._pump = None
            disconnect.cancel()
            await self._batches.aclose()

    async def _send_all(self, send: Send) -> None:
        async for batch in self._batches:
            if self._head is not None:
                await self._send_head(send)
            ended = bool(batch) and batch[-1].type == self._last_type
            if ended:  # the last record and the end in one send
                await self._send_last(send, self._encode(batch))
                return
            await send({"type": "http.response.body", "body": self._encode(batch), "more_body": True})
        await self._send_last(send, b"")

    def _encode(self, batch: list[StreamRecord]) -> bytes:
        """The batch as events, or a comment if it is empty. Clears the batch, so that a slow reader does not keep it in
        memory twice."""
        if not batch:
            return ALIVE
        self._seen = batch[-1].seq
        body = b"".join([frame(record) for record in batch])
        batch.clear()
        return body

    async def _send_last_word(self, send: Send) -> None:
        if self._pump is not None:
            self._pump.uncancel()  # the cancellation was for the records
        self._pump = None
        await self._send_last(send, b"" if self._last_word is None else frame(self._last_word(self._seen)))

    async def _send_head(self, send: Send) -> None:
        head, self._head = self._head, None
        if head is not None:
            await send(head)

    async def _send_last(self, send: Send, body: bytes) -> None:
        await self._send_head(send)
        await send({"type": "http.response.body", "body": body, "more_body": False})


async def hung_up(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
