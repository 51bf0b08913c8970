"""Answers of the Responses format, whole and streamed: items of text, thoughts and calls of functions. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from bollard.host.models.failures import ProviderSaid, failed
from bollard.host.models.formats import argument_chunk, count, finish_of, parsed, summed, tool_chunk
from bollard.host.models.sse import DONE, SseEvent
from bollard.protocol import FunctionCall, JsonObject, Message, MessageChunk, ToolCall, Usage

__all__ = ["ResponsesReader", "read_responses"]

_SAYS: Final = ("response.output_text.delta", "response.refusal.delta")
_THINKS: Final = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class _Text(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Text] | None = None
    summary: list[_Text] | None = None


class _Why(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str = ""
    output: list[_Item] | None = None
    incomplete_details: _Why | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: Any = None
    item: _Item | None = None
    arguments: str | None = None
    response: _Response | None = None
    error: Any = None
    code: str | None = None
    message: str | None = None


def read_responses(answer: bytes) -> Message:
    """A whole answer."""
    response = parsed(answer, _Response, "the answer")
    items = response.output or []
    calls = tuple(_whole_call(item) for item in items if item.type == "function_call")
    finish = _finish(response, called=bool(calls))
    usage, metadata = _counted(response.usage)
    return Message(
        role="assistant",
        content="".join(text for item in items if item.type == "message" for text in _texts(item.content)),
        reasoning="".join(_thought(item) for item in items if item.type == "reasoning") or None,
        tool_calls=calls or None,
        finish_reason=finish,
        usage=usage,
        metadata=metadata,
    )


class ResponsesReader:
    """One streamed answer. Items have an index of their own; tool calls are counted among themselves."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        """The index of an item to that of the tool call which it is."""
        self._argued: set[int] = set()
        """Items of which arguments came."""
        self._response: _Response | None = None
        self.finished = False

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        if event.data.strip() == DONE:
            self.finished = True
            return
        body = parsed(event.data, _Event, "an event of the answer")
        if body.type in _SAYS and isinstance(body.delta, str) and body.delta:
            yield MessageChunk(content=body.delta)
        elif body.type in _THINKS and isinstance(body.delta, str) and body.delta:
            yield MessageChunk(reasoning=body.delta)
        elif body.type == "response.reasoning_summary_part.added" and body.summary_index:
            yield MessageChunk(reasoning="\n\n")
        elif body.type == "response.output_item.added" and body.item is not None:
            yield from self._added(body.output_index, body.item)
        elif body.type == "response.function_call_arguments.delta" and isinstance(body.delta, str):
            yield from self._argue(body.output_index, body.delta)
        elif body.type == "response.function_call_arguments.done":
            yield from self._argued_whole(body.output_index, body.arguments)
        elif body.type == "response.output_item.done" and body.item is not None:
            yield from self._added(body.output_index, body.item)
            yield from self._argued_whole(body.output_index, body.item.arguments)
        elif body.type in _ENDS:
            self._response = body.response
            self.finished = True
        elif body.type == "error" or (not body.type and body.error):
            raise ProviderSaid.read(body.error or {"code": body.code, "message": body.message})

    def end(self) -> MessageChunk:
        if self._response is None:
            raise failed("broken_answer", "the answer ended without saying why")
        finish = _finish(self._response, called=bool(self._calls))
        usage, metadata = _counted(self._response.usage)
        return MessageChunk(finish_reason=finish, usage=usage, metadata=metadata)

    def _added(self, index: int, item: _Item) -> Iterable[MessageChunk]:
        if item.type == "function_call" and index not in self._calls:
            self._calls[index] = len(self._calls)
            yield tool_chunk(self._calls[index], call_id=item.call_id or "", name=item.name or "")

    def _argue(self, index: int, arguments: str) -> Iterable[MessageChunk]:
        if arguments and index in self._calls:
            self._argued.add(index)
            yield argument_chunk(self._calls[index], arguments)

    def _argued_whole(self, index: int, arguments: str | None) -> Iterable[MessageChunk]:
        """All of them at once, where no increments came."""
        if index not in self._argued:
            yield from self._argue(index, arguments or "{}")


def _finish(response: _Response, *, called: bool) -> str:
    """Raises `ProviderSaid` and `ModelFailed`."""
    if response.error or response.status in ("failed", "cancelled"):
        raise ProviderSaid.read(response.error or {"code": "server_error", "message": response.status})
    if response.status == "incomplete":
        why = response.incomplete_details.reason if response.incomplete_details else None
        return finish_of(why or "length")
    if response.status != "completed":
        raise failed("broken_answer", "the answer does not say that it is complete")
    return "tool_calls" if called else "stop"


def _texts(parts: Sequence[_Text] | None) -> Iterable[str]:
    return (part.text or part.refusal or "" for part in parts or ())


def _thought(item: _Item) -> str:
    return "".join(_texts(item.content)) or "\n\n".join(_texts(item.summary))


def _whole_call(item: _Item) -> ToolCall:
    if not item.name or not item.call_id:
        raise failed("broken_answer", "a tool call in the answer has no name or no id")
    return ToolCall(id=item.call_id, function=FunctionCall(name=item.name, arguments=item.arguments or "{}"))


def _counted(usage: JsonObject | None) -> tuple[Usage | None, JsonObject | None]:
    if usage is None:
        return None, None
    details = usage.get("input_tokens_details")
    cached = count(details.get("cached_tokens")) if isinstance(details, dict) else None
    counted = summed(*(count(usage.get(f"{part}_tokens")) for part in ("input", "output", "total")))
    return counted, None if cached is None else {"cached_tokens": cached}
