"""Chat completions: the format of OpenAI and of compatible servers. Requests and answers."""

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bollard.host.egress.sse import SseEvent
from bollard.host.models.boundary import ModelCall
from bollard.host.models.content import elements_of, inline_file, inline_image, mention, readable, text_of
from bollard.host.models.failures import ProviderError, failed
from bollard.host.models.formats import DONE, argument_chunk, arguments_of, count, finish_of, parsed, summed, tool_chunk
from bollard.host.models.specs import SavedModel
from bollard.protocol import (
    ContentElement,
    FileBase64Content,
    FileUrlContent,
    FunctionCall,
    FunctionTool,
    ImageBase64Content,
    ImageUrlContent,
    JsonObject,
    JsonValue,
    Message,
    MessageChunk,
    TextContent,
    ToolCall,
    Usage,
)
from bollard.wire.strict_json import encode

# --- answers, complete and streamed ---
#
# Some servers omit the index of a tool call or number all calls 0, repeat the name of a call, send arguments as an
# object, send `finish_reason: ""` in each chunk, and use two names for reasoning. All of that is accepted; a stream
# without an end is not.


class _Piece(msgspec.Struct):
    """An element of content, for servers that send a list."""

    type: str = ""
    text: str | None = None
    thinking: str | list["_Piece"] | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    """A delta, or a whole message."""

    content: str | list[_Piece] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[_Call] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(piece.text or "" for piece in self.content if piece.type != "thinking")
        return self.content or self.refusal or ""

    @property
    def thought(self) -> str:
        if isinstance(self.content, list):
            return "".join(map(_thinking, self.content))
        return self.reasoning_content or (self.reasoning if isinstance(self.reasoning, str) else "")


def _thinking(piece: _Piece) -> str:
    if isinstance(piece.thinking, list):
        return "".join(each.text or "" for each in piece.thinking)
    return piece.thinking or ""


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


def read_chat(answer: bytes) -> Message:
    """A complete answer."""
    body = _read(answer, "the answer")
    choice = next(iter(body.choices or ()), None)
    if choice is None or choice.message is None:
        raise failed("broken_answer", "the answer has no choices", "model.no_choices")
    message = choice.message
    usage, metadata = _counted(body.usage)
    return Message(
        role="assistant",
        content=message.text,
        reasoning=message.thought or None,
        tool_calls=tuple(_whole_call(call) for call in message.tool_calls or ()) or None,
        finish_reason=finish_of(choice.finish_reason or "stop"),
        usage=usage,
        metadata=metadata,
    )


class ChatReader:
    """One streamed answer."""

    def __init__(self) -> None:
        self._finish = ""
        self._usage: dict[str, JsonValue] | None = None
        self._calls = _Calls()
        self.finished = False

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        if event.data.strip() == DONE:
            self.finished = True
            return
        body = _read(event.data, "an event of the answer")
        self._usage = body.usage or self._usage
        # Some servers send a chunk with the usage or a filter result only: it has no choices.
        for choice in body.choices or ():
            if choice.index:
                continue
            message = choice.delta or choice.message
            if message is not None:
                yield from self._said(message)
            if choice.finish_reason:
                self._finish = choice.finish_reason

    def end(self) -> MessageChunk:
        if self._finish in ("", "error"):
            raise failed("broken_answer", "the answer ended without a stop reason", "model.no_end")
        usage, metadata = _counted(self._usage)
        return MessageChunk(finish_reason=finish_of(self._finish), usage=usage, metadata=metadata)

    def _said(self, message: _Said) -> Iterable[MessageChunk]:
        if thought := message.thought:
            yield MessageChunk(reasoning=thought)
        if text := message.text:
            yield MessageChunk(content=text)
        for call in message.tool_calls or ():
            yield from self._calls.take(call)


class _Calls:
    """The tool calls of one stream, numbered by the host."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._names: list[str] = []
        self._places: dict[int, int] = {}
        """Index of the provider → index of the host."""

    def take(self, call: _Call) -> Iterable[MessageChunk]:
        function = call.function or _Function()
        place = self._place(call)
        arguments = _arguments(function.arguments)
        if place is None:
            yield self._begin(call, function.name, arguments)
            return
        if function.name and not self._names[place]:
            self._names[place] = function.name
            yield tool_chunk(place, call_id=None, name=function.name, arguments=arguments or None)
        elif arguments:
            yield argument_chunk(place, arguments)

    def _begin(self, call: _Call, name: str | None, arguments: str) -> MessageChunk:
        place = len(self._ids)
        self._ids.append(call.id or call_id())
        self._names.append(name or "")
        if call.index is not None:
            self._places[call.index] = place
        return tool_chunk(place, call_id=self._ids[place], name=name or None, arguments=arguments or None)

    def _place(self, call: _Call) -> int | None:
        """The call that this chunk continues; `None` for a new one."""
        if call.index is None:
            if call.id:
                return self._ids.index(call.id) if call.id in self._ids else None
            # Without an index and an id, a name begins a call, and the rest belongs to the last call.
            begins = not self._ids or (call.function is not None and bool(call.function.name))
            return None if begins else len(self._ids) - 1
        place = self._places.get(call.index)
        # Another id is another call, also if a server numbers all calls 0.
        if place is not None and call.id and call.id != self._ids[place]:
            return self._ids.index(call.id) if call.id in self._ids else None
        return place


def call_id() -> str:
    """The id of a call without one: results must name their call."""
    return f"call_{secrets.token_hex(8)}"


def _whole_call(call: _Call) -> ToolCall:
    function = call.function or _Function()
    if not function.name:
        raise failed("broken_answer", "a tool call in the answer has no name or no id", "model.tool_call")
    arguments = _arguments(function.arguments) or "{}"
    return ToolCall(id=call.id or call_id(), function=FunctionCall(name=function.name, arguments=arguments))


def _arguments(value: JsonValue) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return encode(value).decode()


def _read(data: bytes, what: str) -> _Answer:
    body = parsed(data, _Answer, what)
    if body.error:
        raise ProviderError.read(body.error)
    return body


def _counted(usage: dict[str, JsonValue] | None) -> tuple[Usage | None, JsonObject | None]:
    """The usage, and the prompt tokens that came from a cache."""
    if usage is None:
        return None, None
    details = usage.get("prompt_tokens_details")
    cached = count(details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens"))
    counted = summed(*(count(usage.get(f"{part}_tokens")) for part in ("prompt", "completion", "total")))
    return counted, None if cached is None else {"cached_tokens": cached}


_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every server accepts; other names are left out."""
_NEWER: Final = ("api.openai.com", ".openai.azure.com")
"""Hosts with another name for `max_tokens`."""


class OpenAiChat:
    """One model behind `/chat/completions`."""

    path: Final = "/chat/completions"

    def __init__(self, spec: SavedModel) -> None:
        self._spec = spec
        host = urlsplit(spec.base_url).hostname or ""
        self._length = "max_completion_tokens" if host.endswith(_NEWER) else "max_tokens"

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]:
        return bearer(key)

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        arguments = arguments_of(self._spec, call)
        if (length := arguments.pop("max_tokens", None)) is not None:
            arguments[self._length] = length
        body: JsonObject = {"model": self._spec.model, "messages": _messages(call.messages)}
        if call.tools:
            body["tools"] = [_tool(tool) for tool in call.tools]
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        else:
            arguments.pop("stream_options", None)
        body |= arguments
        return {name: value for name, value in body.items() if value is not None}

    def whole(self, answer: bytes) -> Message:
        return read_chat(answer)

    def reader(self) -> ChatReader:
        return ChatReader()


def bearer(key: str | None) -> tuple[tuple[str, str], ...]:
    """The header with the key, as most providers expect it."""
    return () if key is None else (("authorization", f"Bearer {key}"),)


def _tool(tool: FunctionTool) -> JsonObject:
    function: JsonObject = {"name": tool.function.name, "parameters": tool.function.parameters or _NOTHING}
    if tool.function.description:
        function["description"] = tool.function.description
    return {"type": "function", "function": function}


_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


def _messages(messages: Sequence[Message]) -> list[JsonValue]:
    found: list[JsonValue] = []
    shown: list[JsonValue] = []
    """Images and files of tool results. In this format only a user message can hold them, after all results of the
    turn."""
    for message in messages:
        if message.role != "tool":
            found += _shown(shown)
            shown = []
        if message.role == "tool":
            found.append({"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text_of(message)})
            shown += [_part(each) for each in elements_of(message) if not isinstance(each, TextContent)]
        elif message.role == "assistant":
            found.append(_assistant(message))
        elif message.role == "system":
            found.append({"role": "system", "content": text_of(message)})
        else:
            found.append(_user(message))
    return found + _shown(shown)


def _shown(parts: Sequence[JsonValue]) -> list[JsonValue]:
    seen = [part for part in parts if part is not None]
    if not seen:
        return []
    return [{"role": "user", "content": [{"type": "text", "text": "What the tools returned besides text:"}, *seen]}]


def _assistant(message: Message) -> JsonObject:
    text = text_of(message)
    body: JsonObject = {"role": "assistant", "content": text or None}
    if message.tool_calls:
        body["tool_calls"] = [call.to_wire() for call in message.tool_calls]
    elif not text:
        body["content"] = ""
    return body


def _user(message: Message) -> JsonObject:
    elements = elements_of(message)
    body: JsonObject = {"role": "user", "content": [part for each in elements if (part := _part(each)) is not None]}
    if all(isinstance(each, TextContent) for each in elements) and len(elements) <= 1:
        body["content"] = text_of(message)
    if message.name and _NAME.fullmatch(message.name):
        body["name"] = message.name
    return body


def _part(element: ContentElement) -> JsonObject | None:
    """`None` for an unknown kind of content, which is skipped."""
    match element:
        case TextContent(text=text):
            return {"type": "text", "text": text}
        case ImageUrlContent(image_url=image):
            return {"type": "image_url", "image_url": {"url": image.url}}
        case ImageBase64Content():
            return {"type": "image_url", "image_url": {"url": inline_image(element).data_url}}
        case FileBase64Content():
            return _file(element)
        case FileUrlContent(file_url=url, file_name=name):
            return {"type": "text", "text": mention(name, url)}
        case _:
            return None


def _file(element: FileBase64Content) -> JsonObject:
    file = inline_file(element)
    if file.is_image:
        return {"type": "image_url", "image_url": {"url": file.data_url}}
    if (text := readable(file)) is not None:
        return {"type": "text", "text": text}
    return {"type": "file", "file": {"filename": file.name or "file", "file_data": file.data_url}}
