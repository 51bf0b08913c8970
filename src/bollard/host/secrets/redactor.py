"""The redactor: removes registered secrets, in every encoded form, from everything that is written or displayed.

Each workspace has a scrubber; the host's own log has one that knows the values of all workspaces. Without registered
values a check costs one attribute access. Deleted values are still redacted until newer ones push them out.
"""

import codecs
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final, cast

import msgspec

from bollard.host.limits import FORMER_CHARACTERS
from bollard.host.secrets.forms import FormMatcher, forms_of
from bollard.host.secrets.matching import Span, merged
from bollard.protocol import JsonValue

MARK: Final = "***"
_FIELD: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_NO_FIELD: Final = 17
"""Field names of this length contain no secret by chance."""
_ID: Final = re.compile(r"[a-z_]*_(?:id|sha256)|capability|source|version")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NO_CHANCE: Final = 16
"""Digests with a match of this length contain no secret by chance."""
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Scrubber:
    """Removes a set of values from texts."""

    def __init__(self, former_characters: int = FORMER_CHARACTERS) -> None:
        self._former_characters = former_characters
        self.active = False
        """Whether there are any values. Check this before preparing a text."""
        self._held: Counter[str] = Counter()
        """Stored values, with reference counts."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        """Values that were seen, or are no longer stored; oldest first."""
        self._seen_characters = 0
        self._made: FormMatcher | None = None

    def add(self, values: Iterable[str]) -> None:
        """Add secret values that are not stored. The oldest are dropped at the limit."""
        for value in values:
            if value in self._seen:
                self._seen.move_to_end(value)
            elif value not in self._held:
                self._put(value)
                self._changed(value)
        while self._seen_characters > self._former_characters:
            self._drop(next(iter(self._seen)))
            self._made = None

    def hold(self, value: str) -> None:
        """Add a stored value."""
        self._held[value] += 1
        if value in self._seen:
            self._drop(value)
        elif self._held[value] == 1:
            self._changed(value)

    def release(self, value: str) -> None:
        """Release one reference to a stored value."""
        self._held[value] -= 1
        if self._held[value] <= 0:
            del self._held[value]
            self._put(value)
            self.add(())

    def _put(self, value: str) -> None:
        self._seen[value] = None
        self._seen_characters += len(value)

    def _drop(self, value: str) -> None:
        del self._seen[value]
        self._seen_characters -= len(value)

    def _changed(self, value: str) -> None:
        if forms_of(value):
            self.active, self._made = True, None

    @property
    def matcher(self) -> FormMatcher:
        if self._made is None:
            self._made = FormMatcher(forms_of(value) for value in (*self._held, *self._seen))
        return self._made

    def holds(self, text: str) -> bool:
        """Whether the text contains a secret."""
        return self.active and bool(self.matcher.find(text))

    def holds_among(self, pieces: Iterable[bytes]) -> bool:
        """Whether content in pieces contains a secret. Reads only as far as needed."""
        if not self.active:
            return False
        decoder, matcher, tail = codecs.getincrementaldecoder("utf-8")("replace"), self.matcher, ""
        for piece in pieces:
            text = tail + decoder.decode(piece)
            if matcher.find(text):
                return True
            tail = text[-matcher.reach :]
        return bool(matcher.find(tail + decoder.decode(b"", final=True)))

    def text(self, text: str) -> str:
        if not self.active:
            return text
        spans = self.matcher.find(text)
        return _without(text, spans) if spans else text

    def value(self, value: JsonValue) -> JsonValue:
        """Redact every text in a value, including names of fields."""
        if not self.active:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value

    def record(self, body: bytes, words: frozenset[str] = frozenset(), *, ids: bool = False) -> bytes:
        """The data of a record, as redacted JSON. Values that the host itself uses stay, or a secret that equals a word
        of the protocol would break the record: field names, texts among `words`, digests with a chance match, and the
        `ids` at the top level of a host record. Most records contain no secret, so the JSON is searched as one text
        first."""
        if not self.active or not self.matcher.find(body.decode()):
            return body
        data = cast("JsonValue", _decode(body))
        if ids and isinstance(data, dict):
            return _encode({name: self._of_host(name, value, words) for name, value in data.items()})
        return _encode(self.kept(data, words))

    def _of_host(self, name: str, value: JsonValue, words: frozenset[str]) -> JsonValue:
        return value if _ID.fullmatch(name) and isinstance(value, str) else self.kept(value, words)

    def kept(self, value: JsonValue, words: frozenset[str]) -> JsonValue:
        """The same for a value."""
        if isinstance(value, str):
            return value if value in words or self._is_chance(value) else self.text(value)
        if isinstance(value, list):
            return [self.kept(each, words) for each in value]
        if isinstance(value, dict):
            return {
                name if self._is_field(name, words) else self.text(name): self.kept(each, words)
                for name, each in value.items()
            }
        return value

    def _is_field(self, name: str, words: frozenset[str]) -> bool:
        return name in words or (_FIELD.fullmatch(name) is not None and self._is_short(name, _NO_FIELD))

    def _is_chance(self, text: str) -> bool:
        return _DIGEST.fullmatch(text) is not None and self._is_short(text, _NO_CHANCE)

    def _is_short(self, text: str, most: int) -> bool:
        return all(behind - first < most for first, behind in self.matcher.find(text))

    def stream(self) -> "StreamScrubber":
        """A scrubber for a text in pieces."""
        return StreamScrubber(self)


class StreamScrubber:
    """Emits a text as it arrives, except for an end that may be the beginning of a secret, which waits for the next
    piece. It never holds more than the longest form."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._matcher = scrubber.matcher
        self._place = 0
        self._held = ""
        self._spans: list[Span] = []
        """The secrets in the held text, including a mark for one that began in emitted text."""

    def feed(self, piece: str) -> str:
        """Add a piece; returns the text that is safe to display."""
        text, start = self._held + piece, len(self._held)
        if self._matcher is not self._scrubber.matcher:  # a secret was added meanwhile
            self._matcher, self._place, start = self._scrubber.matcher, 0, 0
        literal = self._matcher.literal
        found, self._place = literal.scan(text, start, self._place, self._spans)
        cut = len(text) - literal.pending(self._place)
        for folded in self._matcher.folded:
            more, begins = folded.scan(text)
            found, cut = merged([*found, *more]) if more else found, min(cut, begins)
        return self._give(text, found, cut)

    def end(self) -> str:
        """Return the rest at the end of the text."""
        self._place = 0
        return self._give(self._held, self._spans, len(self._held))

    def _give(self, text: str, spans: list[Span], cut: int) -> str:
        shown: list[str] = []
        at = 0
        for first, behind in spans:
            if first >= cut:
                break
            if first >= 0:
                shown += [text[at:first], MARK]
            at = min(behind, cut)
        shown.append(text[at:cut])
        self._held = text[cut:]
        self._spans = [(first - cut, behind - cut) for first, behind in spans if behind > cut]
        return "".join(shown)


class Redactor:
    """The scrubbers of all workspaces, and one for the host's log. One per host."""

    def __init__(self, former_characters: int = FORMER_CHARACTERS) -> None:
        self._former_characters = former_characters
        self._scrubbers: dict[str, Scrubber] = {}
        self.everywhere: Final = Scrubber(former_characters)
        """For texts outside of workspaces: the host's log, and responses to unauthenticated clients."""

    def add(self, workspace: str, value: str) -> None:
        """Redact a value in this workspace and in the host's log."""
        self.scrubber(workspace).add([value])
        self.everywhere.add([value])

    def hold(self, workspace: str, value: str) -> None:
        """Redact a value while it is stored, and for some time after."""
        self.scrubber(workspace).hold(value)
        self.everywhere.hold(value)

    def release(self, workspace: str, value: str) -> None:
        """The value is no longer stored."""
        self.scrubber(workspace).release(value)
        self.everywhere.release(value)

    def scrubber(self, workspace: str) -> Scrubber:
        """The scrubber of a workspace. It stays the same object, so callers may keep it."""
        scrubber = self._scrubbers.get(workspace)
        if scrubber is None:
            scrubber = self._scrubbers[workspace] = Scrubber(self._former_characters)
        return scrubber

    def text(self, workspace: str, text: str) -> str:
        return self.scrubber(workspace).text(text)

    def value(self, workspace: str, value: JsonValue) -> JsonValue:
        return self.scrubber(workspace).value(value)

    def holds(self, workspace: str, value: JsonValue) -> bool:
        """Whether a value contains a secret of the workspace."""
        return self.value(workspace, value) != value

    def stream(self, workspace: str) -> StreamScrubber:
        return self.scrubber(workspace).stream()


def _without(text: str, spans: list[Span]) -> str:
    shown: list[str] = []
    at = 0
    for first, behind in spans:
        shown += [text[at:first], MARK]
        at = behind
    return "".join([*shown, text[at:]])
