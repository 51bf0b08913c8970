"""The built-in model: needs no network, gives the same answer to the same question, streams, and calls tools on
command. It is not a language model. docs/reference/demo-model.md lists its commands; people and tests rely on them."""

import asyncio
import json
import re
import struct
from collections.abc import AsyncGenerator, Iterator, Sequence
from hashlib import blake2b
from math import sqrt
from typing import Final, NoReturn, cast

import msgspec

from bollard.host.errors import ModelFailed
from bollard.host.models.boundary import ModelCall, Vectors
from bollard.host.models.demo_reading import Ask, Language, ToolAsk, best_sentence, read_ask, text_of
from bollard.host.models.failures import failed
from bollard.host.models.specs import SavedModel
from bollard.protocol import (
    FunctionCall,
    FunctionCallChunk,
    FunctionTool,
    JsonObject,
    JsonValue,
    Message,
    MessageChunk,
    RerankScore,
    ToolCall,
    ToolCallChunk,
    Usage,
)
from bollard.segments import segment, terms

# --- answers, in the language of the question ---


SHOWN_CHARACTERS: Final = 400
"""Characters of a tool result, or of a repeated message."""
SCHEMA_DEPTH: Final = 8
STRING_CHARACTERS: Final = 80

_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE: Final = re.compile(rf"\s*(?:[{_CJK}]{{1,2}}|[^\s{_CJK}]+)\s*")
_TOKEN: Final = re.compile(rf"[{_CJK}]|\d{{1,3}}|[^\W\d_{_CJK}]{{1,6}}|[^\w\s]|_")

_SAID: Final[dict[str, dict[Language, str]]] = {
    "help": {
        "en": "I am the demo model: no network, no randomness. I know `call NAME {json}`, `then call NAME {json}`, "
        "`repeat`, `think …`, `json`, `fail`, and I answer from sources when there are any.",
        "zh": "我是演示模型：不联网，没有随机性。我认识 `调用 NAME {json}`、`然后调用 NAME {json}`、`重复`、"
        "`思考 …`、`json`、`失败`；有资料时，我从资料里回答。",
    },
    "talk": {"en": "You said: {text}", "zh": "你说：{text}"},
    "nothing": {
        "en": "You said nothing. Say `help` to see what I can do.",
        "zh": "消息是空的。说“帮助”可以看到我会什么。",
    },
    "seen": {"en": " (with {images} images and {files} files)", "zh": "（附有 {images} 张图片和 {files} 个文件）"},
    "repeat": {"en": "Before that you said: {text}", "zh": "在这之前你说：{text}"},
    "no_earlier": {"en": "You said nothing before that.", "zh": "在这之前你什么也没说。"},
    "think": {"en": "I thought about it: {text}", "zh": "我想过了：{text}"},
    "result": {"en": "{name} returned: {text}", "zh": "{name} 返回：{text}"},
    "no_tool": {
        "en": "There is no tool {name} here. Offered: {names}.",
        "zh": "这里没有工具 {name}。可用的有：{names}。",
    },
    "none": {"en": "none", "zh": "无"},
    "bad_arguments": {"en": "What follows {name} is not a JSON object.", "zh": "{name} 后面的内容不是 JSON 对象。"},
    "not_in_sources": {"en": "The sources say nothing about that.", "zh": "资料里没有提到这一点。"},
}


class DemoAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The text, the reasoning and the tool calls of an answer."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, JsonObject], ...] = ()


def plan_answer(ask: Ask, tools: Sequence[FunctionTool], extra_args: JsonObject) -> DemoAnswer:
    choice = extra_args.get("tool_choice")
    offered = {} if choice == "none" else {tool.function.name: tool.function.parameters for tool in tools}
    due = [call for call in ask.calls if call.round == ask.round]
    if due:
        return _calls(due, offered, ask.language)
    if ask.results:
        return DemoAnswer(content="\n".join(_returned(ask)))
    if (forced := _forced(choice, offered)) is not None:
        arguments = example_of(offered[forced], ask.text)
        return DemoAnswer(calls=((forced, arguments if isinstance(arguments, dict) else {}),))
    wanted = extra_args.get("response_format")
    if ask.command == "json" or (isinstance(wanted, dict) and wanted.get("type") in {"json_schema", "json_object"}):
        return DemoAnswer(content=_json(ask, wanted))
    return _words(ask)


def answer_to(messages: Sequence[Message], tools: Sequence[FunctionTool], extra_args: JsonObject) -> Message:
    """The whole answer to a request, without limits and usage."""
    ask = read_ask(messages)
    answer = plan_answer(ask, tools, extra_args)
    return Message(
        role="assistant",
        content=answer.content,
        reasoning=answer.reasoning or None,
        tool_calls=_tool_calls(answer, ask) or None,
        finish_reason="tool_calls" if answer.calls else "stop",
    )


def _words(ask: Ask) -> DemoAnswer:
    if ask.command == "help":
        return DemoAnswer(content=_said("help", ask.language))
    if ask.command == "repeat":
        if ask.earlier is None:
            return DemoAnswer(content=_said("no_earlier", ask.language))
        return DemoAnswer(content=_said("repeat", ask.language, text=_shown(ask.earlier)))
    if ask.command == "think":
        return DemoAnswer(content=_said("think", ask.language, text=ask.rest), reasoning=ask.rest)
    if ask.sources and ask.text:
        if (found := best_sentence(ask.text, ask.sources)) is None:
            return DemoAnswer(content=_said("not_in_sources", ask.language))
        sentence, source = found
        return DemoAnswer(content=f"{_shown(sentence)} [{source.source_id}]")
    if not ask.text and not ask.images + ask.files:
        return DemoAnswer(content=_said("nothing", ask.language))
    seen = _said("seen", ask.language, images=ask.images, files=ask.files) if ask.images + ask.files else ""
    return DemoAnswer(content=_said("talk", ask.language, text=_shown(ask.text)) + seen)


def _calls(due: Sequence[ToolAsk], offered: dict[str, JsonObject], language: Language) -> DemoAnswer:
    """All tool calls of a batch, or the problem of one: a batch is not split."""
    for call in due:
        if call.name not in offered:
            names = ", ".join(offered) or _said("none", language)
            return DemoAnswer(content=_said("no_tool", language, name=call.name, names=names))
        if call.arguments is None:
            return DemoAnswer(content=_said("bad_arguments", language, name=call.name))
    return DemoAnswer(calls=tuple((call.name, call.arguments or {}) for call in due))


def _returned(ask: Ask) -> Iterator[str]:
    for name, text in ask.results:
        yield _said("result", ask.language, name=name, text=_shown(text))


def _forced(choice: JsonValue, offered: dict[str, JsonObject]) -> str | None:
    if choice == "required":
        return next(iter(offered), None)
    if isinstance(choice, dict) and isinstance(function := choice.get("function"), dict):
        name = function.get("name")
        return name if isinstance(name, str) and name in offered else None
    return None


def _json(ask: Ask, wanted: JsonValue) -> str:
    if ask.command == "json" and ask.rest.startswith("{"):
        return ask.rest  # unchanged, even if it does not match the schema: tests of repairs need that
    schema: JsonValue = {}
    if isinstance(wanted, dict) and isinstance(inner := wanted.get("json_schema"), dict):
        schema = inner.get("schema", {})
    made = example_of(schema, ask.text) if schema else {"text": ask.text[:STRING_CHARACTERS]}
    return json.dumps(made, ensure_ascii=False)


def example_of(schema: JsonValue, text: str, depth: int = 0) -> JsonValue:
    """The smallest value that fits a simple schema (types, properties, items, enum, const, default, bounds)."""
    if not isinstance(schema, dict) or depth > SCHEMA_DEPTH:
        return None
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    if isinstance(choices := schema.get("enum"), list) and choices:
        return choices[0]
    for several in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(several), list) and options:
            return example_of(options[0], text, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind == "object" or "properties" in schema:
        return _object(schema, text, depth)
    if kind == "array":
        return [example_of(schema.get("items", {}), text, depth + 1) for _ in range(_whole(schema.get("minItems"), 0))]
    return _scalar(kind, schema, text)


def _object(schema: JsonObject, text: str, depth: int) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: example_of(inner, text, depth + 1) for name, inner in properties.items()}


def _scalar(kind: JsonValue, schema: JsonObject, text: str) -> JsonValue:
    if kind in {"integer", "number"}:
        lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        number = lowest if isinstance(lowest, int | float) else 0
        number += 1 if "exclusiveMinimum" in schema else 0
        highest = schema.get("maximum")
        return min(number, highest) if isinstance(highest, int | float) else number
    if kind == "boolean":
        return True
    if kind == "string":
        longest = min(_whole(schema.get("maxLength"), STRING_CHARACTERS), STRING_CHARACTERS)
        return text[:longest].ljust(min(_whole(schema.get("minLength"), 0), STRING_CHARACTERS), "-")
    return None


def _whole(value: JsonValue, otherwise: int) -> int:
    return max(0, min(value, STRING_CHARACTERS)) if isinstance(value, int) else otherwise


def pieces_of(text: str) -> list[str]:
    """The text in the pieces that it streams in: words with the space after them, one or two Chinese characters."""
    return cast("list[str]", _PIECE.findall(text))


def count_tokens(text: str) -> int:
    """An estimate of tokens: one for a Chinese character, six letters, three digits, or a mark."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _said(key: str, language: Language, **values: object) -> str:
    text = _SAID[key][language]
    return text.format(**values) if values else text


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


DIMENSIONS: Final = 64
"""Dimensions of its vectors."""
MESSAGE_TOKENS: Final = 4
"""Tokens of a message besides its words."""


class DemoBackend:
    """Answers from the question alone. Stateless."""

    def __init__(self, spec: SavedModel) -> None:
        self._spec = spec

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        del key
        asked = _prompt_tokens(call)
        self._check_window(asked)
        ask = read_ask(call.messages)
        emitted = False
        if ask.command == "fail":
            if ask.rest.endswith("late"):
                emitted = True
                yield MessageChunk(content="I begin ")
            _fail(ask, emitted=emitted)
        answer = plan_answer(ask, call.tools, call.extra_args)
        sent = 0
        room = _room(call, self._spec)
        for kind, text in _pieces(answer):
            await asyncio.sleep(0)  # other tasks run between two words
            sent += max(1, count_tokens(text))
            if sent > room:
                break
            yield MessageChunk(content=text) if kind == "content" else MessageChunk(reasoning=text)
        if sent > room:
            yield MessageChunk(finish_reason="length", usage=_usage(asked, room))
            return
        for index, made in enumerate(_tool_calls(answer, ask)):
            sent += count_tokens(made.function.name) + count_tokens(made.function.arguments)
            for chunk in _call_increments(index, made):
                await asyncio.sleep(0)
                yield MessageChunk(tool_calls=(chunk,))
        yield MessageChunk(finish_reason="tool_calls" if answer.calls else "stop", usage=_usage(asked, sent))

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        content: list[str] = []
        reasoning: list[str] = []
        last = MessageChunk()
        async for chunk in self.stream(call, key):
            content.append(chunk.content if isinstance(chunk.content, str) else "")
            reasoning.append(chunk.reasoning or "")
            last = chunk
        ask = read_ask(call.messages)
        made: tuple[ToolCall, ...] = ()
        if last.finish_reason == "tool_calls":
            made = _tool_calls(plan_answer(ask, call.tools, call.extra_args), ask)
        return Message(
            role="assistant",
            content="".join(content),
            reasoning="".join(reasoning) or None,
            tool_calls=made or None,
            finish_reason=last.finish_reason,
            usage=last.usage,
        )

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        """Scores by the share of the query words in a document."""
        del key
        wanted = set(terms(query))
        scores = [
            RerankScore(index=index, score=len(wanted.intersection(segment(document).split())) / max(1, len(wanted)))
            for index, document in enumerate(documents)
        ]
        return tuple(sorted(scores, key=lambda score: (-score.score, score.index))[:top_k])

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:
        """Feature hashing: each word adds to the dimension of its hash, so texts that share words are close."""
        del key
        return Vectors(DIMENSIONS, tuple(_vector(text) for text in texts))

    async def close(self) -> None:
        """A no-op: nothing is open."""

    def _check_window(self, prompt_tokens: int) -> None:
        window = self._spec.context_window
        if window is not None and prompt_tokens > window:
            raise failed(
                "context_length",
                f"the prompt has {prompt_tokens} tokens, the context window of {self._spec.model_id} is {window}",
                "model.window",
                hint="shorten the history, or use a model with a larger context window",
                tokens=prompt_tokens,
                window=window,
            )


def _fail(ask: Ask, *, emitted: bool) -> NoReturn:
    message, reason = "the demo model was told to fail", ask.rest.removesuffix("late").strip() or "overloaded"
    raise ModelFailed(
        message,
        hint="say something other than `fail`",
        reason=reason,
        emitted=emitted,
        problem=message,
        problem_type="model.told_to_fail",
    )


def _pieces(answer: DemoAnswer) -> list[tuple[str, str]]:
    thought = [("reasoning", piece) for piece in pieces_of(answer.reasoning)]
    return thought + [("content", piece) for piece in pieces_of(answer.content)]


def _tool_calls(answer: DemoAnswer, ask: Ask) -> tuple[ToolCall, ...]:
    """Ids differ between batches, so that a result is never matched to an earlier batch."""
    return tuple(
        ToolCall(
            id=f"call_{ask.round + 1}_{index + 1}",
            function=FunctionCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False)),
        )
        for index, (name, arguments) in enumerate(answer.calls)
    )


def _call_increments(index: int, call: ToolCall) -> list[ToolCallChunk]:
    """The name, then the arguments in two parts, as providers send them."""
    half = len(call.function.arguments) // 2
    parts = (call.function.arguments[:half], call.function.arguments[half:])
    named = FunctionCallChunk(name=call.function.name, arguments="")
    return [
        ToolCallChunk(index=index, id=call.id, type="function", function=named),
        *(ToolCallChunk(index=index, function=FunctionCallChunk(arguments=part)) for part in parts),
    ]


def _prompt_tokens(call: ModelCall) -> int:
    tools = sum(count_tokens(tool.model_dump_json()) for tool in call.tools)
    return tools + sum(MESSAGE_TOKENS + count_tokens(text_of(message)) for message in call.messages)


def _room(call: ModelCall, spec: SavedModel) -> int:
    asked = call.extra_args.get("max_tokens")
    limits = [limit for limit in (asked, spec.max_output_tokens) if isinstance(limit, int) and limit > 0]
    return min(limits, default=1 << 30)


def _usage(prompt: int, completion: int) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _vector(text: str) -> bytes:
    values = [0.0] * DIMENSIONS
    for word in segment(text).split():
        digest = blake2b(word.encode(), digest_size=2).digest()
        values[digest[0] % DIMENSIONS] += 1.0 if digest[1] & 1 else -1.0
    length = sqrt(sum(value * value for value in values))
    if length == 0.0:  # no words, or words that cancelled each other out: any unit vector will do
        values[0] = length = 1.0
    return struct.pack(f"<{DIMENSIONS}f", *(value / length for value in values))
