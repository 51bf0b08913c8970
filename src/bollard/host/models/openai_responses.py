"""The Responses format of OpenAI: requests and answers.

A conversation is a list of items: messages, function calls and their results. The provider stores nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from bollard.host.egress.sse import SseEvent
from bollard.host.models.boundary import ModelCall
from bollard.host.models.content import elements_of, inline_file, inline_image, readable, text_of
from bollard.host.models.failures import ProviderError, failed
from bollard.host.models.formats import DONE, argument_chunk, arguments_of, count, finish_of, parsed, summed, tool_chunk
from bollard.host.models.openai_chat import bearer
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

# --- answers, complete and streamed: items of text, reasoning and function calls ---


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
    """A complete answer."""
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
        """Index of the item → index of the tool call."""
        self._argued: set[int] = set()
        """Items whose arguments have arrived."""
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
            raise ProviderError.read(body.error or {"code": body.code, "message": body.message})

    def end(self) -> MessageChunk:
        if self._response is None:
            raise failed("broken_answer", "the answer ended without a stop reason", "model.no_end")
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
        """All arguments at once, if no increments came."""
        if index not in self._argued:
            yield from self._argue(index, arguments or "{}")


def _finish(response: _Response, *, called: bool) -> str:
    """Raises `ProviderError` and `ModelFailed`."""
    if response.error or response.status in ("failed", "cancelled"):
        raise ProviderError.read(response.error or {"code": "server_error", "message": response.status})
    if response.status == "incomplete":
        why = response.incomplete_details.reason if response.incomplete_details else None
        return finish_of(why or "length")
    if response.status != "completed":
        raise failed("broken_answer", "the answer is not marked as complete", "model.incomplete")
    return "tool_calls" if called else "stop"


def _texts(parts: Sequence[_Text] | None) -> Iterable[str]:
    return (part.text or part.refusal or "" for part in parts or ())


def _thought(item: _Item) -> str:
    return "".join(_texts(item.content)) or "\n\n".join(_texts(item.summary))


def _whole_call(item: _Item) -> ToolCall:
    if not item.name or not item.call_id:
        raise failed("broken_answer", "a tool call in the answer has no name or no id", "model.tool_call")
    return ToolCall(id=item.call_id, function=FunctionCall(name=item.name, arguments=item.arguments or "{}"))


def _counted(usage: JsonObject | None) -> tuple[Usage | None, JsonObject | None]:
    if usage is None:
        return None, None
    details = usage.get("input_tokens_details")
    cached = count(details.get("cached_tokens")) if isinstance(details, dict) else None
    counted = summed(*(count(usage.get(f"{part}_tokens")) for part in ("input", "output", "total")))
    return counted, None if cached is None else {"cached_tokens": cached}


_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


class OpenAiResponses:
    """One model behind `/responses`."""

    path: Final = "/responses"

    def __init__(self, spec: SavedModel) -> None:
        self._spec = spec

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]:
        return bearer(key)

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        body: JsonObject = {
            "model": self._spec.model,
            "input": [item for message in call.messages for item in _items(message)],
            "store": False,
        }
        if call.tools:
            body["tools"] = [_tool(tool) for tool in call.tools]
        if stream:
            body["stream"] = True
        body |= _translated(arguments_of(self._spec, call))
        return {name: value for name, value in body.items() if value is not None}

    def whole(self, answer: bytes) -> Message:
        return read_responses(answer)

    def reader(self) -> ResponsesReader:
        return ResponsesReader()


def _translated(arguments: JsonObject) -> JsonObject:
    """Arguments under the names of this format."""
    found = dict(arguments)
    if "max_tokens" in found:
        found["max_output_tokens"] = found.pop("max_tokens")
    effort = found.pop("reasoning_effort", None)
    if effort is not None:
        given = found.get("reasoning")
        found["reasoning"] = {**(given if isinstance(given, dict) else {}), "effort": effort}
    text = found.pop("text", None)
    body: JsonObject = {**text} if isinstance(text, dict) else {}
    if (wanted := found.pop("response_format", None)) is not None:
        body["format"] = _output(wanted)
    if (verbosity := found.pop("verbosity", None)) is not None:
        body["verbosity"] = verbosity
    if body:
        found["text"] = body
    choice = found.get("tool_choice")
    if isinstance(choice, dict) and isinstance(function := choice.get("function"), dict):
        found["tool_choice"] = {"type": "function", "name": function.get("name")}
    return found


def _output(wanted: JsonValue) -> JsonValue:
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    return {"type": "json_schema", **described} if isinstance(described, dict) else wanted


def _tool(tool: FunctionTool) -> JsonObject:
    # The default is strict, which refuses most schemas in use.
    body: JsonObject = {"type": "function", "name": tool.function.name, "strict": False}
    if tool.function.description:
        body["description"] = tool.function.description
    return {**body, "parameters": tool.function.parameters or _NOTHING}


def _items(message: Message) -> Sequence[JsonValue]:
    match message.role:
        case "tool":
            return [
                {"type": "function_call_output", "call_id": message.tool_call_id or "", "output": _output_of(message)}
            ]
        case "system":
            return [{"role": "system", "content": text_of(message)}]
        case "assistant":
            items: list[JsonValue] = [{"role": "assistant", "content": text}] if (text := text_of(message)) else []
            asked = [_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            return [*items, *asked]
        case _:
            return [{"role": "user", "content": _content(message)}]


def _call(call_id: str, name: str, arguments: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments or "{}"}


def _output_of(message: Message) -> JsonValue:
    elements = elements_of(message)
    return text_of(message) if all(isinstance(each, TextContent) for each in elements) else _parts(elements)


def _content(message: Message) -> JsonValue:
    elements = elements_of(message)
    single = len(elements) <= 1 and all(isinstance(each, TextContent) for each in elements)
    return text_of(message) if single else _parts(elements)


def _parts(elements: Sequence[ContentElement]) -> list[JsonValue]:
    return [part for each in elements if (part := _part(each)) is not None]


def _part(element: ContentElement) -> JsonObject | None:
    """`None` for an unknown kind of content, which is skipped."""
    match element:
        case TextContent(text=text):
            return {"type": "input_text", "text": text}
        case ImageUrlContent(image_url=image):
            return {"type": "input_image", "image_url": image.url}
        case ImageBase64Content():
            return {"type": "input_image", "image_url": inline_image(element).data_url}
        case FileBase64Content():
            return _file(element)
        case FileUrlContent(file_url=url):
            return {"type": "input_file", "file_url": url}
        case _:
            return None


def _file(element: FileBase64Content) -> JsonObject:
    file = inline_file(element)
    if file.is_image:
        return {"type": "input_image", "image_url": file.data_url}
    if (text := readable(file)) is not None:
        return {"type": "input_text", "text": text}
    return {"type": "input_file", "filename": file.name or "file", "file_data": file.data_url}
