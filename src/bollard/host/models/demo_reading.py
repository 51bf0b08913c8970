"""Parses the last user message for the demo model, as commands. Pure.

Text of sources, tools and earlier messages is never parsed for commands.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from bollard.protocol import ImageBase64Content, ImageUrlContent, JsonObject, Message, TextContent
from bollard.segments import segment, terms
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode

Language = Literal["en", "zh"]
Command = Literal["help", "repeat", "think", "json", "fail", "talk"]

CALLS_AT_ONCE: Final = 16
"""Calls of one message; more are ignored."""
SENTENCE_WORDS: Final = 6
"""Words of a sentence that are compared."""
SOURCES: Final = 64
"""Sources that are read."""

_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_CALL: Final = re.compile(
    r"\s*(?P<then>then\s+|然后\s*)?(?:call\s+|调用\s*)(?P<name>[\w.:/-]{1,128})(?P<rest>.*)", re.I
)
_SPEAKER: Final = re.compile(r"\A\s*[^\s:][^:\n]{0,60}:\s+")
_SOURCE: Final = re.compile(r'<source id="(\d{1,4})" name="([^"<>]*)"[^<>]*>')
_SOURCE_END: Final = "</source>"
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_MARKS: Final = " \t\r\n.!?。！？:：,，"
_COMMANDS: Final[dict[str, Command]] = {
    "help": "help",
    "帮助": "help",
    "repeat": "repeat",
    "重复": "repeat",
    "think": "think",
    "思考": "think",
    "json": "json",
    "fail": "fail",
    "失败": "fail",
}
_WITHOUT_MORE: Final = frozenset({"help", "repeat"})
"""Commands only if nothing follows them: `help me` is not one."""
_REASONS: Final = frozenset(
    {
        "rate_limited",
        "overloaded",
        "timeout",
        "unreachable",
        "unauthorized",
        "invalid_request",
        "context_length",
        "content_filter",
        "broken_answer",
        "not_supported",
    }
)
_STOP_WORDS: Final = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "in",
        "is",
    }
    | {"it", "its", "me", "my", "of", "on", "or", "our", "that", "the", "their", "there", "this", "to", "was", "we"}
    | {"what", "when", "where", "which", "who", "why", "will", "with", "you", "your"}
)


class ToolAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One `call NAME {json}`. `arguments` is `None` if the text after the name is not a JSON object."""

    name: str
    arguments: JsonObject | None
    round: int
    """The number of tool batches before it."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of a document in the prompt."""

    source_id: str
    name: str
    text: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed question."""

    text: str
    """The last user message, without sources."""
    language: Language
    command: Command
    rest: str
    """The text after the command."""
    calls: tuple[ToolAsk, ...]
    round: int
    """Tool batches since the last user message."""
    results: tuple[tuple[str, str], ...]
    """Names and texts of the newest tool results; empty after a user message."""
    earlier: str | None
    """The user message before that."""
    sources: tuple[Source, ...]
    images: int
    files: int


def read_ask(messages: Sequence[Message]) -> Ask:
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    text = _without_sources(text_of(messages[last])) if last >= 0 else ""
    words = _without_speaker(text)
    command, rest = _command(words)
    after = messages[last + 1 :]
    elements = messages[last].content if last >= 0 else ""
    pictures = [e for e in elements if isinstance(e, ImageUrlContent | ImageBase64Content)]
    return Ask(
        text=text,
        language=language_of(text),
        command=command,
        rest=rest,
        calls=tuple(_calls(words)),
        round=sum(1 for message in after if message.role == "assistant" and message.tool_calls),
        results=tuple(_results(messages)),
        earlier=_earlier(messages[: max(last, 0)]),
        sources=tuple(_sources(messages))[:SOURCES],
        images=len(pictures),
        files=sum(1 for e in elements if not isinstance(e, str | TextContent)) - len(pictures),
    )


def text_of(message: Message) -> str:
    """The words of a message."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(element.text for element in message.content if isinstance(element, TextContent))


def language_of(text: str) -> Language:
    return "zh" if _HAN.search(text) else "en"


def best_sentence(question: str, sources: Sequence[Source]) -> tuple[str, Source] | None:
    """The sentence that shares most words with the question, and its source; `None` if none shares any."""
    wanted = set(terms(question)) - _STOP_WORDS
    best: tuple[tuple[int, int], str, Source] | None = None
    for source in sources:
        for sentence in _SENTENCE_END.split(source.text):
            words = segment(sentence).split()
            shared = len(wanted.intersection(words))
            score = shared, min(len(words), SENTENCE_WORDS)  # of two equal matches, a title is less useful
            if shared and (best is None or score > best[0]):
                best = score, sentence.strip(), source
    return None if best is None else best[1:]


def _earlier(messages: Sequence[Message]) -> str | None:
    """The last user message. A message with sources is from the agent."""
    for message in reversed(messages):
        text = text_of(message).strip()
        if message.role == "user" and text and _SOURCE.search(text) is None:
            return text
    return None


def _without_speaker(text: str) -> str:
    """Remove the name of the speaker that an agent adds in a group: `Ada: repeat` is `repeat`."""
    rest = _SPEAKER.sub("", text, count=1)
    first = rest.partition("\n")[0]
    return rest if _command(rest)[0] != "talk" or _CALL.fullmatch(first) else text


def _command(text: str) -> tuple[Command, str]:
    """The command at the start of a message; with unexpected text after it, it is not a command."""
    word, _, rest = text.strip().partition(" ")
    for written, command in _COMMANDS.items():
        if not written.isascii() and text.strip().startswith(written):  # no space is needed after Chinese words
            word, rest = written, text.strip().removeprefix(written)
        if word.strip(_MARKS).lower() == written and _takes(command, rest := rest.strip(_MARKS)):
            return command, rest
    return "talk", ""


def _takes(command: Command, rest: str) -> bool:
    if command == "fail":
        return set(rest.split()) <= _REASONS | {"late"}
    return not rest if command in _WITHOUT_MORE else True


def _calls(text: str) -> Iterator[ToolAsk]:
    batch = found = 0
    for line in text.splitlines():
        if (match := _CALL.fullmatch(line)) is None or found == CALLS_AT_ONCE:
            continue
        batch += bool(match["then"]) and found > 0
        found += 1
        yield ToolAsk(name=match["name"], arguments=_arguments(match["rest"].strip()), round=batch)


def _arguments(written: str) -> JsonObject | None:
    if not written:
        return {}
    try:
        value = decode(written.encode())
    except (FrameError, UnicodeEncodeError):
        return None
    return value if isinstance(value, dict) else None


def _results(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    first = len(messages)
    while first > 0 and messages[first - 1].role == "tool":
        first -= 1
    asked = messages[first - 1].tool_calls if first > 0 else None
    names = {call.id: call.function.name for call in asked or ()}
    for message in messages[first:]:
        yield message.name or names.get(message.tool_call_id or "", "?"), text_of(message)


def _sources(messages: Sequence[Message]) -> Iterator[Source]:
    """The sources in documents only: an answer or a tool result may quote the mark."""
    for message in messages:
        if message.role in {"user", "system"}:
            text = text_of(message)
            for start, match, end in _marked(text):
                del start
                body = text[match.end() : end].removesuffix(_SOURCE_END)
                yield Source(source_id=match[1], name=html.unescape(match[2]), text=html.unescape(body).strip())


def _without_sources(text: str) -> str:
    kept: list[str] = []
    place = 0
    for start, _, end in _marked(text):
        kept.append(text[place:start])
        place = end
    return "".join([*kept, text[place:]]).strip()


def _marked(text: str) -> Iterator[tuple[int, re.Match[str], int]]:
    """The start, the mark and the end of each source. An unclosed source ends with the text."""
    place = 0
    while match := _SOURCE.search(text, place):
        end = text.find(_SOURCE_END, match.end())
        place = len(text) if end < 0 else end + len(_SOURCE_END)
        yield match.start(), match, place
