"""Chat completions: the format of OpenAI and of everybody who is compatible with it. What is asked; see
`openai_chat_answers.py` for what is answered.
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from bollard.host.models.arguments import arguments_of
from bollard.host.models.boundary import ModelCall, ModelSpec
from bollard.host.models.content import elements_of, inline_file, inline_image, mention, readable, text_of
from bollard.host.models.openai_chat_answers import ChatReader, read_chat
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

__all__ = ["OpenAiChat", "bearer"]

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every server takes; another one is left out."""
_NEWER: Final = ("api.openai.com", ".openai.azure.com")
"""Where `max_tokens` has another name; everybody else knows the old one."""


class OpenAiChat:
    """One model behind `/chat/completions`."""

    path: Final = "/chat/completions"

    def __init__(self, spec: ModelSpec) -> None:
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
    """How most providers want the key."""
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
    """What tools showed: only users can, in this format, and only behind all results of one turn."""
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
    """`None` for content of a kind that nobody here knows: it is skipped."""
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
