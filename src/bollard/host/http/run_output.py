"""The answer of a run, for clients that wait for it: an MCP call, a webhook."""

import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from bollard.host.capabilities.sources import Progress
from bollard.host.events.acceptance import Accepted
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream import RunReader, StreamPosition
from bollard.protocol import JsonObject

ANSWER_MESSAGES: Final = 8
"""The number of last messages of an agent in an answer."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class RunOutput:
    """The output of a run so far."""

    messages: deque[JsonObject] = field(default_factory=lambda: deque[JsonObject](maxlen=ANSWER_MESSAGES))
    pieces: int = 0
    status: str | None = None
    code: str | None = None
    place: StreamPosition | None = None
    closing: bool = False

    async def follow(
        self, reader: RunReader, accepted: Accepted, run_id: str, progress: Progress | None = None
    ) -> None:
        """Read until the run has ended. A reader that falls behind continues from the store."""
        self.place = None if accepted.place is None else StreamPosition(*accepted.place)
        subscription = accepted.subscription
        while self.status is None and not self.closing:
            before, replayed = self.place, subscription is None
            batches: AsyncGenerator[list[StreamRecord]] = (
                reader.read(run_id, before) if subscription is None else reader.follow(run_id, subscription, 0)
            )
            subscription = None
            async with contextlib.aclosing(batches):
                async for batch in batches:
                    for record in batch:
                        self._collect(record, progress)
            self.closing = self.closing or (replayed and self.place == before)  # this host does not continue it

    def _collect(self, record: StreamRecord, progress: Progress | None) -> None:
        body = _decode(record.json)
        data = body["data"]
        if record.type == "gap":
            self.closing = data.get("reason") == "closing"
            return
        self.place = StreamPosition(record.epoch, record.seq)
        match record.type:
            case "message.delta":
                self.pieces += 1
                if progress is not None:
                    progress(self.pieces, None, str(data["chunk"].get("content") or ""))
            case "message.completed":
                self.messages.append(data["message"])
            case "run.ended":
                self.status, self.code = str(data["status"]), data.get("code")
            case _:
                pass

    @property
    def text(self) -> str:
        """The text of the last messages."""
        texts = [_text_of(message.get("content")) for message in self.messages]
        return "\n\n".join(text for text in texts if text)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    elements = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return "".join(str(element.get("text") or "") for element in elements if element.get("type") == "text")
