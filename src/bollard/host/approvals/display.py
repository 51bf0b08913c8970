"""The display of an approval, rendered from the bytes that would be executed and from nothing else. Pure.

It is complete: long values become attachments with their length and digest. Each line is a single line of plain text
without hidden characters (`visible`). The agent's explanation is a separate part.
"""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Literal

import msgspec

from bollard.host.approvals.approval import Approval
from bollard.host.approvals.visible_text import MARK_END, MARK_START, mark, quoted, visible
from bollard.host.capabilities.capability import Flow
from bollard.host.texts import Locale, read_texts
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_json

WORDS: Final = read_texts("approvals")


def word(locale: Locale, key: str, **fields: str | int) -> str:
    """The text for a key. Fields are not interpreted as templates."""
    return WORDS[locale][key].format_map(fields)


VALUE_CHARACTERS: Final = 2_000
"""Longer string values are attached."""
VALUE_LINES: Final = 40
"""String values with more lines are attached."""
SHOWN_LINES: Final = 200
"""Arguments with more lines are attached as a whole."""
SHOWN_CHARACTERS: Final = 32_000
"""Arguments with more characters are attached as a whole."""
LINE_CHARACTERS: Final = 1_000
"""Longer lines of attached content are wrapped."""
GLANCE_CHARACTERS: Final = 120
"""Characters displayed of the start and of the end of attached content."""

Part = Literal["about", "arguments", "explanation"]
Note = Literal["hidden", "right_to_left"]
_BREAK: Final = re.compile(f"({MARK_START}U\\+000A(?: ×[0-9]+)?{MARK_END})")


class DisplayLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. The host writes the label; the text comes from the call."""

    part: Part
    place: str
    label: str
    text: str
    notes: tuple[Note, ...] = ()

    def to_wire(self) -> JsonObject:
        body: JsonObject = {"part": self.part, "place": self.place, "label": self.label, "text": self.text}
        return {**body, "notes": [*self.notes]} if self.notes else body


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is too long for the lines."""

    number: int
    place: str
    content: str

    @property
    def sha256(self) -> str:
        return sha256(self._bytes).hexdigest()

    @property
    def size(self) -> int:
        return len(self._bytes)

    @property
    def _bytes(self) -> bytes:
        return self.content.encode("utf-8", "surrogatepass")

    def to_wire(self) -> JsonObject:
        return {
            "number": self.number,
            "place": self.place,
            "characters": len(self.content),
            "bytes": self.size,
            "sha256": self.sha256,
        }


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered approval."""

    lines: tuple[DisplayLine, ...]
    attached: tuple[Attached, ...]

    def to_wire(self) -> JsonObject:
        return {
            "lines": [line.to_wire() for line in self.lines],
            "attached": [each.to_wire() for each in self.attached],
        }


def display(approval: Approval, locale: Locale = "en_US") -> Display:
    """Render an approval with labels in one language. The rendered bytes are the same in each."""
    attached: list[Attached] = []
    lines = [*_about(approval, locale), *_arguments(approval, locale, attached)]
    if approval.explanation is not None:
        lines += _value_lines("explanation", "explanation", approval.explanation, locale, attached)
    return Display(lines=tuple(lines), attached=tuple(attached))


def lines_of(content: str) -> list[str]:
    """All of an attached content as lines without hidden characters."""
    lines: list[str] = []
    for line in _broken(visible(content)):
        start = 0
        while len(line) - start > LINE_CHARACTERS:
            end = start + LINE_CHARACTERS
            opened = line.rfind(MARK_START, start, end)
            if opened > start and line.find(MARK_END, opened, end) < 0:
                end = opened  # do not split a marker
            lines.append(line[start:end])
            start = end
        lines.append(line[start:])
    return lines


def _about(approval: Approval, locale: Locale) -> Iterator[DisplayLine]:
    requester = approval.requester
    who = word(locale, "nobody") if requester is None else f"{requester.type}:{requester.id or ''}"
    source = approval.source if not approval.version else f"{approval.source} @ {approval.version}"
    called = "" if approval.name == approval.capability else f" ({approval.name})"
    flow = Flow.of_bits(approval.flow)
    facts: list[tuple[str, str | None]] = [
        ("capability", f"{approval.capability}{called}"),
        ("source", source),
        ("definition", approval.definition_sha256),
        ("target", approval.target),
        ("agent", approval.agent_id),
        ("run", approval.run_id),
        ("requester", who),
        ("risk", word(locale, f"risk.{approval.risk}")),
        ("effects", word(locale, f"effects.{approval.effects}")),
        *(("why", word(locale, f"why.{each}")) for each in approval.why),
        *(("flow", word(locale, f"flow.{bit}")) for bit in _bits(flow) if "flow" in approval.why),
    ]
    for place, text in facts:
        if text is not None:
            label = word(locale, f"label.{place}")
            yield DisplayLine(part="about", place=place, label=label, text=visible(text), notes=_notes(text))


def _bits(flow: Flow) -> list[str]:
    return [bit for bit in ("reads_private", "brings_untrusted", "sends_out") if getattr(flow, bit)]


def _arguments(approval: Approval, locale: Locale, attached: list[Attached]) -> list[DisplayLine]:
    label = word(locale, "label.arguments")
    if not approval.arguments:
        text = word(locale, "no_arguments")
        return [DisplayLine(part="arguments", place="arguments", label=label, text=text)]
    own: list[Attached] = []
    lines: list[DisplayLine] = []
    characters = 0
    for place, value in _leaves(approval.sent_arguments, "arguments"):
        more = _value_lines("arguments", place, value, locale, own)
        lines += more
        characters += sum(len(line.text) + len(line.place) for line in more)
        if len(lines) > SHOWN_LINES or characters > SHOWN_CHARACTERS:
            whole = canonical_json(approval.sent_arguments).decode()
            return _attach("arguments", "arguments", whole, locale, attached)
    attached.extend(own)
    return lines


def _leaves(value: JsonValue, place: str) -> Iterator[tuple[str, JsonValue]]:
    """Each scalar, empty object and empty list, with its path."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{place}.{_key(key)}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}[{index}]")
    else:
        yield place, value


def _key(key: str) -> str:
    """A key as part of a path, quoted if it is not a plain name."""
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else quoted(key)


def _value_lines(
    part: Part, place: str, value: JsonValue, locale: Locale, attached: list[Attached]
) -> list[DisplayLine]:
    label = word(locale, f"label.{part}")
    if not isinstance(value, str):
        text = canonical_json(value).decode()
        return [DisplayLine(part=part, place=place, label=label, text=text)]
    if len(value) > VALUE_CHARACTERS:
        return _attach(part, place, value, locale, attached)
    broken = _broken(quoted(value))
    if len(broken) > VALUE_LINES:
        return _attach(part, place, value, locale, attached)
    notes = _notes(value)
    return [DisplayLine(part=part, place=place, label=label, text=text, notes=notes) for text in broken]


def _attach(part: Part, place: str, content: str, locale: Locale, attached: list[Attached]) -> list[DisplayLine]:
    added = Attached(number=len(attached) + 1, place=place, content=content)
    attached.append(added)
    label, notes = word(locale, f"label.{part}"), _notes(content)
    head = word(locale, "attached", number=added.number, characters=len(content), bytes=added.size, sha256=added.sha256)
    texts = (
        mark(head),
        f"{mark(word(locale, 'begins'))} {quoted(content[:GLANCE_CHARACTERS])}",
        f"{mark(word(locale, 'ends'))} {quoted(content[-GLANCE_CHARACTERS:])}",
    )
    return [DisplayLine(part=part, place=place, label=label, text=text, notes=notes) for text in texts]


def _broken(text: str) -> list[str]:
    """Split a visible text at its line breaks. The marker of each break stays."""
    lines: list[str] = [""]
    for piece in _BREAK.split(text):
        lines[-1] += piece
        if _BREAK.fullmatch(piece):
            lines.append("")
    return lines if lines[-1] or len(lines) == 1 else lines[:-1]


def _notes(text: str) -> tuple[Note, ...]:
    notes: list[Note] = []
    if MARK_START in visible(text):
        notes.append("hidden")
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        notes.append("right_to_left")
    return tuple(notes)
