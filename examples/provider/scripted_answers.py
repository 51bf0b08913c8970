"""The answers of the loopback provider: a script that a test queued, or the command in the last user message."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, Final, cast

from cited_sources import Source, brings_sources, cited_sentence, sources_of, without_sources

__all__ = ["Answer", "BadScript", "Question", "Scripts", "ToolCall", "default_answer", "read_question", "read_script"]

QUEUED: Final = 10_000
"""The largest number of queued scripts."""
TOKENS: Final = 1_000_000
"""Tokens of one answer."""
SAID: Final = 300
"""Characters of a message that are repeated."""
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
    """An invalid script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call in an answer; `arguments` is JSON text, and may be broken on purpose."""

    name: str
    arguments: str = "{}"
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, or one failure."""

    text: str = ""
    tokens: int = 0
    """This many tokens `tok-000000 ` instead of a text."""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    """A finish reason of OpenAI: `stop`, `length`, `tool_calls`, `content_filter`. Empty: derived from the answer."""
    usage: dict[str, int] | None = field(default_factory=dict[str, int])
    """`prompt_tokens`, `completion_tokens`; empty: counted; null: not reported."""
    tokens_per_second: float = 0
    """Tokens per second; zero is as fast as possible."""
    first_token_s: float = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    """The body for a status other than 200, or of a raw answer; null: an error in the vendor's form."""
    error_code: str = ""
    """The code of that error, for example `context_length_exceeded`."""
    fault: str = ""
    hold: bool = False
    """The stream stops until `POST /_go`, then continues to its fault or its end."""
    after: int = 1
    """Chunks before the hold and the fault."""
    bytewise: bool = False
    """Send every byte of a stream as a separate chunk."""
    noise: bool = False
    """Send comments, keep-alives, unknown events and chunks without a choice in between."""
    times: int = 1
    """The number of uses; 0 is unlimited."""
    model: str = ""
    """Only for requests to this model."""
    path: str = ""
    """Only for this path: `/chat/completions`, `/embeddings`, …"""
    contains: str = ""
    """Only for requests whose body contains this text."""

    @property
    def pieces(self) -> list[str]:
        if self.tokens:
            return [f"tok-{number:06d} " for number in range(self.tokens)]
        return re.findall(r"\s*\S+\s*", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The fields that all formats have in common."""

    path: str
    model: str
    stream: bool
    wants_usage: bool
    """Whether the client requests usage in a stream of OpenAI."""
    text: str
    """The last user message, without sources."""
    earlier: str
    """The user message before that; a message with sources is from the agent."""
    results: tuple[str, ...]
    """The results of tools, if they are the last messages."""
    rounds: int
    """Batches of tools since the last user message."""
    tools: tuple[str, ...]
    sources: tuple[Source, ...]
    words: int
    """The estimated tokens of the prompt."""


def read_script(value: object) -> Answer:
    """An answer from JSON; raises `BadScript` for an unknown field."""
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
    """The queued answers, in order."""

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
        """The first matching answer; it is removed after its last use."""
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
    """`call NAME {json}`, `repeat`, `stream N [at RATE]`, `fail STATUS`; otherwise an answer from the sources, or an
    echo."""
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
    """The same request from three formats: OpenAI's two, and Anthropic's."""
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
    """Role and text of every message, oldest first."""
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
