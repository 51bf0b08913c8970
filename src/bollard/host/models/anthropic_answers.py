"""Answers of Anthropic, whole and streamed: blocks of text, thoughts and tool calls. Pure."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from bollard.host.models.failures import ProviderSaid, failed
from bollard.host.models.formats import argument_chunk, count, finish_of, parsed, summed, tool_chunk
from bollard.host.models.sse import SseEvent
from bollard.protocol import FunctionCall, JsonObject, JsonValue, Message, MessageChunk, ToolCall, Usage
from bollard.wire.strict_json import encode

__all__ = ["THINKING", "AnthropicReader", "read_anthropic"]

THINKING: Final = "anthropic_thinking"
"""Where a message keeps its thoughts as the provider signed them: it wants them back with the results of the tools."""


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


def read_anthropic(answer: bytes) -> Message:
    """A whole answer."""
    body = parsed(answer, _Message, "the answer")
    if body.error:
        raise ProviderSaid.read(body.error)
    if body.content is None or not body.stop_reason:
        raise failed("broken_answer", "the answer has no content, or does not say why it ended")
    usage, metadata = _counted(body.usage or {})
    thoughts = [thought for block in body.content if (thought := _thought(block)) is not None]
    calls = [_whole_call(block) for block in body.content if block.type == "tool_use"]
    return Message(
        role="assistant",
        content="".join(block.text or "" for block in body.content if block.type == "text"),
        reasoning="".join(block.thinking or "" for block in body.content if block.type == "thinking") or None,
        tool_calls=tuple(calls) or None,
        finish_reason=finish_of(body.stop_reason),
        usage=usage,
        metadata=_metadata(metadata, thoughts if calls else []),
    )


class AnthropicReader:
    """One streamed answer. Blocks come one after the other, each with its own index."""

    def __init__(self) -> None:
        self._finish = ""
        self._usage: JsonObject = {}
        self._calls: dict[int, int] = {}
        """The index of a block to that of the tool call which it is."""
        self._silent: dict[int, JsonValue] = {}
        """Tool calls of which no argument came yet, with those that they began with."""
        self._thoughts: dict[int, _Block] = {}
        self.finished = False

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        body = parsed(event.data, _Event, "an event of the answer")
        self._usage |= {name: value for name, value in (body.usage or {}).items() if value is not None}
        index = body.index or 0
        match body.type:
            case "content_block_start" if body.content_block is not None:
                yield from self._start(index, body.content_block)
            case "content_block_delta" if body.delta is not None:
                yield from self._delta(index, body.delta)
            case "content_block_stop" if index in self._silent:
                # A call without arguments is one with none: an empty text would be no JSON.
                yield argument_chunk(self._calls[index], encode(self._silent.pop(index) or {}).decode())
            case "message_start" if body.message is not None:
                self._usage |= body.message.usage or {}
            case "message_delta" if body.delta is not None:
                self._finish = body.delta.stop_reason or self._finish
            case "message_stop":
                self.finished = True
            case "error":
                raise ProviderSaid.read(body.error)
            case _:
                return  # a ping, or what later versions say

    def end(self) -> MessageChunk:
        if not self._finish:
            raise failed("broken_answer", "the answer ended without saying why")
        usage, metadata = _counted(self._usage)
        thoughts = [thought for block in self._thoughts.values() if (thought := _thought(block)) is not None]
        metadata = _metadata(metadata, thoughts if self._calls else [])
        return MessageChunk(finish_reason=finish_of(self._finish), usage=usage, metadata=metadata)

    def _start(self, index: int, block: _Block) -> Iterable[MessageChunk]:
        if block.type in ("thinking", "redacted_thinking"):
            self._thoughts[index] = block
        if block.type == "tool_use":
            self._calls[index] = len(self._calls)
            self._silent[index] = block.input
            yield tool_chunk(self._calls[index], call_id=block.id or "", name=block.name or "")
        elif block.type == "text" and block.text:
            yield MessageChunk(content=block.text)
        elif block.type == "thinking" and block.thinking:
            yield MessageChunk(reasoning=block.thinking)

    def _delta(self, index: int, delta: _Delta) -> Iterable[MessageChunk]:
        if delta.type == "text_delta" and delta.text:
            yield MessageChunk(content=delta.text)
        elif delta.type == "input_json_delta" and delta.partial_json and index in self._calls:
            self._silent.pop(index, None)
            yield argument_chunk(self._calls[index], delta.partial_json)
        elif delta.type == "thinking_delta" and delta.thinking:
            if (block := self._thoughts.get(index)) is not None:
                block.thinking = (block.thinking or "") + delta.thinking
            yield MessageChunk(reasoning=delta.thinking)
        elif delta.type == "signature_delta" and (block := self._thoughts.get(index)) is not None:
            block.signature = (block.signature or "") + (delta.signature or "")


def _thought(block: _Block) -> JsonObject | None:
    """A thought that the provider would know again."""
    if block.type == "thinking" and block.signature:
        return {"type": "thinking", "thinking": block.thinking or "", "signature": block.signature}
    if block.type == "redacted_thinking" and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    return None


def _whole_call(block: _Block) -> ToolCall:
    if not block.name or not block.id:
        raise failed("broken_answer", "a tool call in the answer has no name or no id")
    arguments = encode(block.input if block.input is not None else {}).decode()
    return ToolCall(id=block.id, function=FunctionCall(name=block.name, arguments=arguments))


def _metadata(counted: JsonObject | None, thoughts: list[JsonObject]) -> JsonObject | None:
    return {**(counted or {}), THINKING: [*thoughts]} if thoughts else counted


def _counted(usage: JsonObject) -> tuple[Usage | None, JsonObject | None]:
    """The tokens. What was read from and written to the cache belongs to the prompt, and is not in its own number."""
    fresh = count(usage.get("input_tokens"))
    read, written = (count(usage.get(f"cache_{each}_input_tokens")) for each in ("read", "creation"))
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    counted = summed(prompt, count(usage.get("output_tokens")))
    return counted, None if read is None else {"cached_tokens": read}
