"""What a vendor's format is: a pure reading and writing of JSON. The one way to call any of them is in `talking.py`."""

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

import msgspec

from bollard.host.models.backend_limits import EVENT_BYTES, TOOL_CALLS
from bollard.host.models.boundary import ModelCall
from bollard.host.models.failures import failed
from bollard.host.models.sse import SseEvent
from bollard.protocol import (
    FunctionCallChunk,
    JsonObject,
    Message,
    MessageChunk,
    ToolCallChunk,
    Usage,
)
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode

__all__ = [
    "AnswerReader",
    "TalkFormat",
    "argument_chunk",
    "chunks_of",
    "count",
    "finish_of",
    "parsed",
    "summed",
    "tool_chunk",
]

Shape = TypeVar("Shape")
_FINISHES: Final = {
    "end_turn": "stop",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
"""One word for each way to end, whoever says it; those that nobody knows here stay as they are."""


class AnswerReader(Protocol):
    """One streamed answer. Every method raises `ModelFailed`, `take` also `ProviderSaid`."""

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        """What an event adds. Nothing of it is empty: a chunk that was handed on cannot be taken back."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the provider said that nothing more comes."""
        ...

    def end(self) -> MessageChunk:
        """The last chunk; where the answer has no end, that is a failure."""
        ...


class TalkFormat(Protocol):
    """How one style asks and answers."""

    @property
    def path(self) -> str: ...

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]: ...

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        """Raises `ModelFailed` for what cannot be said in this format."""
        ...

    def whole(self, answer: bytes) -> Message:
        """Raises `ModelFailed` and `ProviderSaid`."""
        ...

    def reader(self) -> AnswerReader: ...


def parsed(data: bytes, shape: type[Shape], what: str) -> Shape:
    """A part of an answer; what the shape does not know is skipped. Raises `ModelFailed`."""
    try:
        return msgspec.convert(decode(data, frame_bytes=EVENT_BYTES), shape)
    except (FrameError, msgspec.ValidationError) as error:
        raise failed("broken_answer", f"{what} cannot be read: {error}") from None


def count(value: object) -> int | None:
    """A number of tokens, where it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def summed(prompt: int | None, completion: int | None, total: int | None = None) -> Usage | None:
    """What is known of the tokens; `None` where nothing is."""
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    if prompt is None and completion is None and total is None:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def finish_of(word: str) -> str:
    return _FINISHES.get(word, word)


def tool_chunk(index: int, *, call_id: str | None, name: str | None, arguments: str | None = None) -> MessageChunk:
    """The beginning of a tool call. Raises `ModelFailed` for one too many."""
    if index >= TOOL_CALLS:
        raise failed("broken_answer", f"the answer has more than {TOOL_CALLS} tool calls")
    function = FunctionCallChunk(name=name, arguments=arguments)
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, id=call_id, type="function", function=function),))


def argument_chunk(index: int, arguments: str) -> MessageChunk:
    """More of a tool call's arguments."""
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, function=FunctionCallChunk(arguments=arguments)),))


def chunks_of(message: Message) -> Iterable[MessageChunk]:
    """A whole answer as a stream of it, for a provider that does not stream although it was asked to."""
    if message.reasoning:
        yield MessageChunk(reasoning=message.reasoning)
    if message.content:
        yield MessageChunk(content=message.content)
    for index, call in enumerate(message.tool_calls or ()):
        yield tool_chunk(index, call_id=call.id, name=call.function.name, arguments=call.function.arguments)
    yield MessageChunk(finish_reason=message.finish_reason, usage=message.usage, metadata=message.metadata)
