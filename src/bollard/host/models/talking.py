"""Talking to a model in any format: one request, and its answer as it comes. The formats say what is in both."""

import contextlib
from collections.abc import AsyncGenerator

from bollard.host.models.answer import Answer
from bollard.host.models.backend_limits import WHOLE_IDLES
from bollard.host.models.boundary import ModelCall
from bollard.host.models.endpoint import Endpoint
from bollard.host.models.formats import TalkFormat, chunks_of
from bollard.host.models.sse import SseDecoder, SseEvent
from bollard.host.models.unable import Unable
from bollard.protocol import Message, MessageChunk

__all__ = ["Talker"]


class Talker(Unable):
    """A model that talks. A `ModelBackend`."""

    def __init__(self, endpoint: Endpoint, wanted: TalkFormat) -> None:
        self._endpoint = endpoint
        self._format = wanted

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        wanted = self._format
        body = wanted.body(call, stream=True)
        headers = (*wanted.headers(key), ("accept", "text/event-stream"))
        async with self._endpoint.asked(wanted.path, body, headers, key) as answer:
            if not answer.is_events:  # some servers answer whole, whatever they are asked
                for chunk in chunks_of(wanted.whole(await answer.whole())):
                    yield chunk
                return
            reader = wanted.reader()
            async with contextlib.aclosing(_events(answer)) as events:
                async for event in events:
                    for chunk in reader.take(event):
                        answer.begun()
                        yield chunk
                    if reader.finished:
                        break
            yield reader.end()
            await answer.settle()

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        wanted = self._format
        body = wanted.body(call, stream=False)
        headers = (*wanted.headers(key), ("accept", "application/json"))
        async with self._endpoint.asked(wanted.path, body, headers, key, WHOLE_IDLES) as answer:
            return wanted.whole(await answer.whole())

    async def close(self) -> None:
        await self._endpoint.close()


async def _events(answer: Answer) -> AsyncGenerator[SseEvent]:
    decoder = SseDecoder()
    while piece := await answer.read():
        for event in decoder.feed(piece):
            yield event
    for event in decoder.end():
        yield event
