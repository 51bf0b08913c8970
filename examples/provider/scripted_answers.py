"""What the loopback provider answers: a script that a test queued, or what the last user message asks for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, Final, cast

from cited_sources import Source, brings_sources, cited_sentence, sources_of, without_sources

__all__ = ["Answer", "BadScript", "Question", "Scripts", "ToolCall", "default_answer", "read_question", "read_script"]

QUEUED: Final = 10_000
"""Scripts that may wait."""
TOKENS: Final = 1_000_000
"""Tokens of one answer."""
SAID: Final = 300
"""Characters of a message that are said again."""
FAULTS: Final = (
    "broken_sse",  # an event whose JSON is cut, then the end
    "half_utf8",  # the bytes end inside a character
    "empty_choices",  # an answer without any choice
    "no_finish",  # the stream ends properly, and nobody said that the answer does
    "disconnect",  # the connection is cut
    "error_event",  # the vendor's error, inside a stream that began well
    "hang",  # nothing more comes, and the connection stays
)

_CALL: Final = re.compile(r"\s*(?P<then>then\s+)?call\s+(?P<name>[\w.:/-]+)\s*(?P<rest>.*)", re.IGNORECASE)


class BadScript(ValueError):
    """A script that cannot be meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the answer asks for; `arguments` is JSON text, and may be broken on purpose."""

    name: str
    arguments: str = "{}"
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, or one way of not answering."""

    text: str = ""
    tokens: int = 0
    """So many tokens `tok-000000 ` instead of a text."""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    """In the words of OpenAI: `stop`, `length`, `tool_calls`, `content_filter`. Empty: what fits."""
    usage: dict[str, int] | None = field(default_factory=dict[str, int])
    """`prompt_tokens`, `completion_tokens`; empty: counted; null: none is told."""
    tokens_per_second: float = 0
    """Zero: as fast as they are taken."""
    first_token_s: float = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    """Of a status that is not 200, or of an answer that is given as it is; null: an error in the vendor's form."""
    error_code: str = ""
    """Of that error: `context_length_exceeded`, for example."""
    fault: str = ""
    hold: bool = False
    """A stream stops, until `POST /_go` lets it go on: to its fault, or to its end."""
    after: int = 1
    """Pieces that come before the hold and the fault."""
    bytewise: bool = False
    """Every byte of a stream is a chunk of its own."""
    noise: bool = False
    """Comments, keep-alives, events nobody knows, and chunks without a choice come in between."""
    times: int = 1
    """How often it is given; 0: always."""
    model: str = ""
    """Only for questions to this model."""
    path: str = ""
    """Only for this call: `/chat/completions`, `/embeddings`, …"""
    contains: str = ""
    """Only for questions whose body has this text."""

    @property
    def pieces(self) -> list[str]:
        if self.tokens:
            return [f"tok-{number:06d} " for number in range(self.tokens)]
        return re.findall(r"\s*\S+\s*", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the formats have in common."""

    path: str
    model: str
    stream: bool
    wants_usage: bool
    """In a stream of OpenAI's, usage is told to who asks for it."""
    text: str
    """Of the last user message, without sources."""
    earlier: str
    """Of the user message before that; one that brings sources is the agent's."""
    results: tuple[str, ...]
    """What tools returned, where they spoke last."""
    rounds: int
    """Batches of tools since the user spoke."""
    tools: tuple[str, ...]
    sources: tuple[Source, ...]
    words: int
    """About what the prompt counts."""


def read_script(value: object) -> Answer:
    """An answer out of JSON; raises `BadScript` for what it does not know."""
    if not isinstance(value, dict):
        raise BadScript("a script is an object")
    given = dict(cast("dict[str, Any]", value))
    known = {one.name: one for one in fields(Answer)}
    if unknown := sorted(set(given) - set(known)):
        raise BadScript(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    if given.get("fault", "") not in ("", *FAULTS):
        raise BadScript(f"fault is one of {', '.join(FAULTS)}")
    for name in ("tokens", "after", "times", "status"):
        if type(given.get(name, 0)) is not int or not 0 <= given.get(name, 0) <= TOKENS:
            raise BadScript(f"{name} is a number from 0 to {TOKENS}")
    if "tool_calls" in given:
        given["tool_calls"] = tuple(_tool_call(call) for call in given["tool_calls"])
    return Answer(**given)


def _tool_call(value: object) -> ToolCall:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not isinstance(given.get("name"), str):
        raise BadScript("a tool call has a name")
    arguments = given.get("arguments", {})
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name=given["name"], arguments=written, call_id=str(given.get("id", "")))


class Scripts:
    """Answers that wait for their question, in order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Answer, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, answer: Answer) -> None:
        if len(self._waiting) >= QUEUED:
            raise BadScript(f"{QUEUED} scripts wait already")
        self._waiting.append((answer, answer.times))

    def clear(self) -> None:
        self._waiting.clear()

    def take(self, path: str, model: str, body: str) -> Answer | None:
        """The first that fits; it is gone when it was given as often as it says."""
        for index, (answer, left) in enumerate(self._waiting):
            if answer.path not in ("", path) or answer.model not in ("", model) or answer.contains not in body:
                continue
            if left == 1:
                del self._waiting[index]
            elif left > 1:
                self._waiting[index] = (answer, left - 1)
            return answer
        return None


def default_answer(question: Question) -> Answer:
    """`call NAME {json}`, `repeat`, `stream N [at RATE]`, `fail STATUS`; else from the sources that came with it, or
    what was said, said again."""
    calls = [call for call in _calls(question.text) if call[0] == question.rounds]
    if calls and all(name in question.tools for _, name, _ in calls):
        return Answer(tool_calls=tuple(ToolCall(name=name, arguments=rest or "{}") for _, name, rest in calls))
    if question.results:
        return Answer(text="The tools returned: " + " | ".join(result[:SAID] for result in question.results))
    if calls:
        return Answer(text=f"Not offered: {calls[0][1]}. Offered: {', '.join(question.tools) or 'nothing'}.")
    match question.text.split():
        case ["repeat"]:
            return Answer(text=f"Before that you said: {question.earlier[:SAID]}")
        case ["stream", count] if count.isdecimal():
            return Answer(tokens=min(int(count), TOKENS))
        case ["stream", count, "at", rate] if count.isdecimal() and rate.isdecimal():
            return Answer(tokens=min(int(count), TOKENS), tokens_per_second=int(rate))
        case ["fail", status] if status.isdecimal() and 400 <= int(status) <= 599:
            return Answer(status=int(status))
        case ["think", *words] if words:
            return Answer(reasoning=" ".join(words), text="I thought about it.")
        case _ if question.sources:
            return Answer(text=cited_sentence(question.text, question.sources) or "The sources say nothing about that.")
        case _:
            return Answer(text=f"You said: {question.text[:SAID]}")


def _calls(text: str) -> Iterator[tuple[int, str, str]]:
    batch = found = 0
    for line in text.splitlines():
        if match := _CALL.fullmatch(line):
            batch += bool(match["then"]) and found > 0
            found += 1
            yield batch, match["name"], match["rest"]


def read_question(path: str, body: dict[str, Any]) -> Question:
    """The same out of three formats: OpenAI's two, and Anthropic's."""
    entries = list(_entries(body))
    users = [index for index, (role, _) in enumerate(entries) if role == "user"]
    last = users[-1] if users else -1
    earlier = [entries[index][1] for index in users[:-1] if not brings_sources(entries[index][1])]
    after = entries[last + 1 :]
    roles = [role for role, _ in after]
    first = len(after)
    while first > 0 and roles[first - 1] == "tool":
        first -= 1
    options: dict[str, Any] = body.get("stream_options", {})
    return Question(
        path=path,
        model=str(body.get("model", "")),
        stream=body.get("stream") is True,
        wants_usage=options.get("include_usage") is True,
        text=without_sources(entries[last][1]) if users else "",
        earlier=earlier[-1] if earlier else "",
        results=tuple(text for _, text in after[first:]),
        rounds=sum(1 for before, role in pairwise(["", *roles]) if role == "tool" != before),
        tools=tuple(_tool_names(body.get("tools") or [])),
        sources=tuple(sources_of(text for role, text in entries if role in {"user", "system"})),
        words=sum(len(re.findall(r"[\u3400-\u9fff]|\w+", text)) for _, text in entries),
    )


def _entries(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Role and text of everything that was said, oldest first."""
    if system := body.get("system", body.get("instructions")):
        yield "system", _text(system)
    said = body.get("messages", body.get("input", []))
    for item in [{"role": "user", "content": said}] if isinstance(said, str) else said:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            yield "tool", _text(item.get("output", ""))
        elif kind == "function_call":
            yield "call", str(item.get("name"))
        else:
            yield from _message(item)


def _message(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    content = item.get("content") or ""
    blocks = _parts(content)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        yield "tool", _text(block.get("content", ""))
    if not results or len(results) < len(blocks):
        yield str(item.get("role", "user")), _text(content)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _parts(content) if isinstance(part.get("text"), str))


def _parts(content: object) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def _tool_names(tools: list[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        function: dict[str, Any] = tool.get("function") or tool
        yield str(function.get("name"))
