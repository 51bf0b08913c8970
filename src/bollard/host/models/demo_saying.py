"""What the demo model says, in the language it was asked in. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, cast

import msgspec

from bollard.host.models.demo_reading import Ask, Language, ToolAsk, best_sentence
from bollard.protocol import FunctionTool, JsonObject, JsonValue

__all__ = ["Answer", "count_tokens", "example_of", "pieces_of", "plan_answer"]

SHOWN_CHARACTERS: Final = 400
"""Of what a tool returned, or of a message that is said again."""
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
        "zh": "你什么也没说。说“帮助”看看我会什么。",
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
    "bad_arguments": {
        "en": "What follows {name} is not a JSON object.",
        "zh": "{name} 后面的内容不是 JSON 对象。",
    },
    "not_in_sources": {"en": "The sources say nothing about that.", "zh": "资料里没有提到这一点。"},
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is said, thought and asked for."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, JsonObject], ...] = ()


def plan_answer(ask: Ask, tools: Sequence[FunctionTool], extra_args: JsonObject) -> Answer:
    choice = extra_args.get("tool_choice")
    offered = {} if choice == "none" else {tool.function.name: tool.function.parameters for tool in tools}
    due = [call for call in ask.calls if call.round == ask.round]
    if due:
        return _calls(due, offered, ask.language)
    if ask.results:
        return Answer(content="\n".join(_returned(ask)))
    if (forced := _forced(choice, offered)) is not None:
        arguments = example_of(offered[forced], ask.text)
        return Answer(calls=((forced, arguments if isinstance(arguments, dict) else {}),))
    wanted = extra_args.get("response_format")
    if ask.command == "json" or (isinstance(wanted, dict) and wanted.get("type") in {"json_schema", "json_object"}):
        return Answer(content=_json(ask, wanted))
    return _words(ask)


def _words(ask: Ask) -> Answer:
    if ask.command == "help":
        return Answer(content=_said("help", ask.language))
    if ask.command == "repeat":
        if ask.earlier is None:
            return Answer(content=_said("no_earlier", ask.language))
        return Answer(content=_said("repeat", ask.language, text=_shown(ask.earlier)))
    if ask.command == "think":
        return Answer(content=_said("think", ask.language, text=ask.rest), reasoning=ask.rest)
    if ask.sources and ask.text:
        if (found := best_sentence(ask.text, ask.sources)) is None:
            return Answer(content=_said("not_in_sources", ask.language))
        sentence, source = found
        return Answer(content=f"{_shown(sentence)} [{source.source_id}]")
    if not ask.text and not ask.images + ask.files:
        return Answer(content=_said("nothing", ask.language))
    seen = _said("seen", ask.language, images=ask.images, files=ask.files) if ask.images + ask.files else ""
    return Answer(content=_said("talk", ask.language, text=_shown(ask.text)) + seen)


def _calls(due: Sequence[ToolAsk], offered: dict[str, JsonObject], language: Language) -> Answer:
    """Either all of them are made, or what is wrong with one is said: a batch is not torn."""
    for call in due:
        if call.name not in offered:
            names = ", ".join(offered) or _said("none", language)
            return Answer(content=_said("no_tool", language, name=call.name, names=names))
        if call.arguments is None:
            return Answer(content=_said("bad_arguments", language, name=call.name))
    return Answer(calls=tuple((call.name, call.arguments or {}) for call in due))


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
        return ask.rest  # as it was written, also where it does not fit: that is how a repair is tried
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
    """About what a tokenizer counts: one for a Chinese character, for six letters, three digits, or a mark."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _said(key: str, language: Language, **values: object) -> str:
    said = _SAID[key][language]
    return said.format(**values) if values else said


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
