"""The Messages format of Anthropic: requests and answers.

System messages are separate from the others, turns alternate, results of tools are user messages, and the length of the
answer must be given.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import msgspec

from bollard.host.egress.sse import SseEvent
from bollard.host.models.boundary import ModelCall
from bollard.host.models.content import (
    Inline,
    elements_of,
    inline_file,
    inline_image,
    inline_url,
    mention,
    readable,
    text_of,
)
from bollard.host.models.failures import ProviderError, failed
from bollard.host.models.formats import argument_chunk, arguments_of, count, finish_of, parsed, summed, tool_chunk
from bollard.host.models.limits import ANTHROPIC_MAX_TOKENS, THINKING_MIN_TOKENS, THINKING_TOKENS
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
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode, encode

# --- answers, complete and streamed: blocks of text, thoughts and tool calls ---


THINKING: Final = "anthropic_thinking"
"""The field of a message that holds the thoughts as the provider signed them. The provider requires them with the
results of the tools."""


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
        raise ProviderError.read(body.error)
    if body.content is None or not body.stop_reason:
        raise failed("broken_answer", "the answer has no content or no stop reason", "model.no_content")
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
    """One streamed answer. Blocks arrive one after the other, each with its own index."""

    def __init__(self) -> None:
        self._finish = ""
        self._usage: JsonObject = {}
        self._calls: dict[int, int] = {}
        """Index of the block → index of the tool call."""
        self._silent: dict[int, JsonValue] = {}
        """Tool calls without arguments so far, with their initial arguments."""
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
                # A call without arguments gets an empty object: an empty text is not JSON.
                yield argument_chunk(self._calls[index], encode(self._silent.pop(index) or {}).decode())
            case "message_start" if body.message is not None:
                self._usage |= body.message.usage or {}
            case "message_delta" if body.delta is not None:
                self._finish = body.delta.stop_reason or self._finish
            case "message_stop":
                self.finished = True
            case "error":
                raise ProviderError.read(body.error)
            case _:
                return  # a ping, or an event of a later version

    def end(self) -> MessageChunk:
        if not self._finish:
            raise failed("broken_answer", "the answer ended without a stop reason", "model.no_end")
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
    """The signed form of a thought."""
    if block.type == "thinking" and block.signature:
        return {"type": "thinking", "thinking": block.thinking or "", "signature": block.signature}
    if block.type == "redacted_thinking" and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    return None


def _whole_call(block: _Block) -> ToolCall:
    if not block.name or not block.id:
        raise failed("broken_answer", "a tool call in the answer has no name or no id", "model.tool_call")
    arguments = encode(block.input if block.input is not None else {}).decode()
    return ToolCall(id=block.id, function=FunctionCall(name=block.name, arguments=arguments))


def _metadata(counted: JsonObject | None, thoughts: list[JsonObject]) -> JsonObject | None:
    return {**(counted or {}), THINKING: [*thoughts]} if thoughts else counted


def _counted(usage: JsonObject) -> tuple[Usage | None, JsonObject | None]:
    """The token counts. The provider counts tokens read from and written to the cache apart; they belong to the
    prompt."""
    fresh = count(usage.get("input_tokens"))
    read, written = (count(usage.get(f"cache_{each}_input_tokens")) for each in ("read", "creation"))
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    counted = summed(prompt, count(usage.get("output_tokens")))
    return counted, None if read is None else {"cached_tokens": read}


_VERSION: Final = "2023-06-01"
_NOBODY: Final[JsonObject] = {"role": "user", "content": [{"type": "text", "text": "…"}]}
"""The first message if the conversation does not begin with the user, for example after its history was shortened. The
format requires a user message."""
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


class Anthropic:
    """One model behind `/messages`."""

    path: Final = "/messages"

    def __init__(self, spec: SavedModel) -> None:
        self._spec = spec

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]:
        version = ("anthropic-version", _VERSION)
        return (version,) if key is None else (version, ("x-api-key", key))

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        arguments = arguments_of(self._spec, call)
        length = arguments.pop("max_tokens", None) or self._spec.max_output_tokens or ANTHROPIC_MAX_TOKENS
        system = "\n\n".join(text for each in call.messages if each.role == "system" and (text := text_of(each)))
        turns = _turns([each for each in call.messages if each.role != "system"])
        body: JsonObject = {"model": self._spec.model, "max_tokens": length, "messages": [*turns]}
        if system:
            body["system"] = system
        if call.tools:
            body["tools"] = [_tool(tool) for tool in call.tools]
        if stream:
            body["stream"] = True
        body |= _translated(arguments, cast("int", length), has_tools=bool(call.tools))
        if "thinking" in body and not _keeps_thinking(call.messages):
            del body["thinking"]
        return {name: value for name, value in body.items() if value is not None}

    def whole(self, answer: bytes) -> Message:
        return read_anthropic(answer)

    def reader(self) -> AnthropicReader:
        return AnthropicReader()


def _translated(arguments: JsonObject, length: int, *, has_tools: bool) -> JsonObject:
    """Arguments under the names of this format."""
    found = dict(arguments)
    if "stop" in found:
        stop = found.pop("stop")
        found["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    choice, parallel = found.pop("tool_choice", None), found.pop("parallel_tool_calls", None)
    if has_tools and (choice is not None or parallel is False):
        found["tool_choice"] = _choice(choice, at_once=parallel is not False)
    if (user := found.pop("user", None)) is not None:
        found["metadata"] = {"user_id": user}
    if (wanted := found.pop("response_format", None)) is not None:
        found |= _output(wanted)
    effort = found.pop("reasoning_effort", None)
    if isinstance(effort, str) and "thinking" not in found and effort in THINKING_TOKENS:
        budget = min(THINKING_TOKENS[effort], length // 2)
        if budget >= THINKING_MIN_TOKENS:
            found["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return found


def _choice(choice: JsonValue, *, at_once: bool) -> JsonObject:
    chosen: JsonObject = {"type": "auto"}
    if isinstance(choice, str):
        chosen = {"type": _CHOICES.get(choice, choice)}
    elif isinstance(choice, dict):
        function = choice.get("function")
        chosen = {"type": "tool", "name": function.get("name")} if isinstance(function, dict) else dict(choice)
    if not at_once and chosen["type"] != "none":
        chosen["disable_parallel_tool_use"] = True
    return chosen


def _output(wanted: JsonValue) -> JsonObject:
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return {}
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    if kind != "json_schema" or not isinstance(described, dict):
        raise failed(
            "not_supported",
            "this model needs a schema for JSON answers",
            "model.needs_schema",
            hint="use response_format of type json_schema",
        )
    return {"output_config": {"format": {"type": "json_schema", "schema": described.get("schema")}}}


def _tool(tool: FunctionTool) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {}, **tool.function.parameters}
    body: JsonObject = {"name": tool.function.name, "input_schema": schema}
    return {**body, "description": tool.function.description} if tool.function.description else body


def _turns(messages: Sequence[Message]) -> list[JsonObject]:
    """Alternating turns, beginning with the user. Results of tools precede other content of the user."""
    turns: list[tuple[str, list[JsonObject]]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _assistant(message) if role == "assistant" else _user(message)
        if not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    for _, blocks in turns:
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    found: list[JsonObject] = [{"role": role, "content": [*blocks]} for role, blocks in turns]
    return found if found and found[0]["role"] == "user" else [_NOBODY, *found]


def _assistant(message: Message) -> list[JsonObject]:
    blocks = _thinking(message)
    # The format refuses empty text, and a last turn that ends with a space.
    if text := text_of(message).rstrip():
        blocks.append({"type": "text", "text": text})
    for call in message.tool_calls or ():
        asked: JsonObject = {"type": "tool_use", "id": call.id, "name": call.function.name}
        blocks.append({**asked, "input": _input(call.function.arguments)})
    return blocks


def _thinking(message: Message) -> list[JsonObject]:
    """The thoughts before a tool call, with the provider's signature."""
    kept = (message.metadata or {}).get(THINKING)
    if not message.tool_calls or not isinstance(kept, list):
        return []
    return [dict(block) for block in kept if isinstance(block, dict) and block.get("type") in _THOUGHTS]


_THOUGHTS: Final = ("thinking", "redacted_thinking")


def _keeps_thinking(messages: Sequence[Message]) -> bool:
    """Whether an unfinished turn still has its first thoughts; without them the provider refuses to continue
    thinking."""
    last = next((each for each in reversed(messages) if each.role == "assistant"), None)
    return last is None or not last.tool_calls or bool(_thinking(last))


def _input(arguments: str) -> JsonObject:
    try:
        value = decode(arguments.encode()) if arguments.strip() else {}
    except (FrameError, UnicodeEncodeError):
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def _user(message: Message) -> list[JsonObject]:
    blocks = [block for each in elements_of(message) if (block := _block(each)) is not None]
    if message.role != "tool":
        return blocks
    return [{"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": [*blocks]}]


def _block(element: ContentElement) -> JsonObject | None:
    """`None` for an unknown kind of content, which is skipped."""
    match element:
        case TextContent(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case ImageUrlContent(image_url=image):
            held = inline_url(image.url)
            return _inline(held) if held else {"type": "image", "source": {"type": "url", "url": image.url}}
        case ImageBase64Content():
            return _inline(inline_image(element))
        case FileBase64Content():
            return _inline(inline_file(element))
        case FileUrlContent(file_url=url, file_name=name):
            if (name or url).lower().endswith(".pdf"):
                return {"type": "document", "source": {"type": "url", "url": url}}
            return {"type": "text", "text": mention(name, url)}
        case _:
            return None


def _inline(content: Inline) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": content.mime, "data": content.base64}
    if content.is_image:
        return {"type": "image", "source": source}
    if (text := readable(content)) is not None:
        return {"type": "text", "text": text}
    if content.mime != "application/pdf":
        raise failed(
            "not_supported",
            f"this model does not read {content.mime}",
            "model.media_type",
            hint="send its text, or a PDF",
            media_type=content.mime,
        )
    titled: JsonObject = {"title": content.name} if content.name else {}
    return {"type": "document", "source": source, **titled}
