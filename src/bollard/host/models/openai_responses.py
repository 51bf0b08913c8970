"""The Responses format of OpenAI: what is asked; see `openai_responses_answers.py` for what is answered.

A conversation is a list of items: messages, calls of functions and their results. Nothing is kept at the provider.
"""

from collections.abc import Sequence
from typing import Final

from bollard.host.models.arguments import arguments_of
from bollard.host.models.boundary import ModelCall, ModelSpec
from bollard.host.models.content import elements_of, inline_file, inline_image, readable, text_of
from bollard.host.models.openai_chat import bearer
from bollard.host.models.openai_responses_answers import ResponsesReader, read_responses
from bollard.protocol import (
    ContentElement,
    FileBase64Content,
    FileUrlContent,
    FunctionTool,
    ImageBase64Content,
    ImageUrlContent,
    JsonObject,
    JsonValue,
    Message,
    TextContent,
)

__all__ = ["OpenAiResponses"]

_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


class OpenAiResponses:
    """One model behind `/responses`."""

    path: Final = "/responses"

    def __init__(self, spec: ModelSpec) -> None:
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
    """Arguments by the names that this format has for them."""
    found = dict(arguments)
    if "max_tokens" in found:
        found["max_output_tokens"] = found.pop("max_tokens")
    effort = found.pop("reasoning_effort", None)
    if effort is not None:
        given = found.get("reasoning")
        found["reasoning"] = {**(given if isinstance(given, dict) else {}), "effort": effort}
    text = found.pop("text", None)
    said: JsonObject = {**text} if isinstance(text, dict) else {}
    if (wanted := found.pop("response_format", None)) is not None:
        said["format"] = _output(wanted)
    if (verbosity := found.pop("verbosity", None)) is not None:
        said["verbosity"] = verbosity
    if said:
        found["text"] = said
    choice = found.get("tool_choice")
    if isinstance(choice, dict) and isinstance(function := choice.get("function"), dict):
        found["tool_choice"] = {"type": "function", "name": function.get("name")}
    return found


def _output(wanted: JsonValue) -> JsonValue:
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    return {"type": "json_schema", **described} if isinstance(described, dict) else wanted


def _tool(tool: FunctionTool) -> JsonObject:
    # Strict would be the default here, and refuses most schemas that people write.
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
            said: list[JsonValue] = [{"role": "assistant", "content": text}] if (text := text_of(message)) else []
            asked = [_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
            return [*said, *asked]
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
    """`None` for content of a kind that nobody here knows: it is skipped."""
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
