"""The encoded forms of a secret: plain, base64, hex, URL, JSON, HTML, traceback. Pure.

A compressed, encrypted or rearranged secret is not found.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

from bollard.host.limits import SECRET_GAP_CHARACTERS, SECRET_LEAST_CHARACTERS
from bollard.host.secrets.matching import Matcher, Span, merged

# --- encodings with separators: hex such as `de:ad` or `0xde, 0xad`, base64 in lines ---
#
# A text is folded first: separators are removed, and other characters that are no digits become breaks. Matches in the
# folded text are mapped back to the original.

_GAP: Final = b" "
_BREAK: Final = b"\n"
_WIDE: Final = SECRET_GAP_CHARACTERS + 1
_RUN_MOST: Final = 32
_FEW_NEEDLES: Final = 64
_SPACES: Final = b" \n\r\t\f\v"
_ESCAPED_SPACES: Final = (b"\\", (b"\\n", b"\\r", b"\\t"))
_HEX: Final = b"0123456789abcdef"
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class EncodingFold(msgspec.Struct, frozen=True, kw_only=True):
    """The digits of an encoding, and the separators between them."""

    table: bytes
    """For each byte its digit, a gap or a break."""
    prefixes: tuple[tuple[bytes, tuple[bytes, ...]], ...]
    """Prefixes that count as gaps, such as `0x`, by a character that they all contain."""
    undecided: tuple[str, ...] = ()
    """Endings of a text whose last digit is part of a prefix if the rest of the prefix follows."""


def _table(*meanings: tuple[bytes, bytes]) -> bytes:
    table = bytearray(_BREAK * 256)
    for written, meant in meanings:
        for index, byte in enumerate(written):
            table[byte] = meant[index % len(meant)]
    return bytes(table)


HEX: Final = EncodingFold(
    table=_table((_SPACES + b"\\#:;,.-_|/'\"%&(){}[]<>+", _GAP), (_HEX, _HEX), (b"ABCDEF", b"abcdef")),
    prefixes=(
        *(_ESCAPED_SPACES, (b"\\", (b"\\x", b"\\u")), (b"x", (b"0x", b"#x")), (b"X", (b"0X", b"#X"))),
        (b"%25", (b"%25",)),
    ),
    undecided=("0", "%2"),
)
"""`de ad`, `de:ad`, `0xde,0xad`, `\\xde\\xad`, `%de%ad`, `%25de%25ad`, `\\u00de`, `&#xde;` and their like."""
BASE64: Final = EncodingFold(
    table=_table((_SPACES + b"\\", _GAP), (_BASE64, _BASE64), (b"-_", b"+/")), prefixes=(_ESCAPED_SPACES,)
)
"""Both alphabets, in one line or in several."""


class FoldedMatcher:
    """Made once for a set of encoded values, which are written in the digits of the fold."""

    def __init__(self, fold: EncodingFold, needles: Iterable[str]) -> None:
        self._fold = fold
        self._matcher = Matcher(needles)
        sizes = [len(needle) for needle in self._matcher.needles] or [_RUN_MOST]
        self._longest = max(sizes)
        self._least = min(*sizes, _RUN_MOST)
        self._run = re.compile(f"[^\n]{{{self._least}}}") if len(sizes) > _FEW_NEEDLES else None
        """A quick test for many values: almost no text has so many digits in a row. A few are found faster without."""
        self.reach: Final = self._longest * _WIDE
        """The longest distance from the first digit of a value to its last, in characters or bytes."""

    def find(self, text: str) -> list[Span]:
        """The spans of values; overlapping spans are merged."""
        flat = self._flat(text)
        return self._found(flat, _folded(flat))

    def scan(self, text: str) -> tuple[list[Span], int]:
        """The spans in a text that continues, and the position from which its end may start a value."""
        flat = self._flat(text)
        folded = _folded(flat)
        pending = self._pending(folded)
        if text.endswith(self._fold.undecided) and (before := self._pending(folded[:-1])):
            pending = max(pending, before + 1)
        return self._found(flat, folded), _beginning(flat, pending)

    def _found(self, flat: bytes, folded: str) -> list[Span]:
        if len(folded) < self._least or (self._run is not None and self._run.search(folded) is None):
            return []
        if not (spans := self._matcher.find(folded)):
            return []
        positions = [index for index, byte in enumerate(flat) if byte != _GAP[0]]
        return [(positions[first], positions[behind - 1] + 1) for first, behind in spans]

    def _pending(self, folded: str) -> int:
        """The number of trailing digits that may start a value."""
        last = folded[-self._longest :].rpartition("\n")[2]
        return self._matcher.pending(self._matcher.scan(last)[1]) if last else 0

    def _flat(self, text: str) -> bytes:
        """Map each character to one byte: a digit, a gap or a break."""
        flat = text.encode("latin-1", "replace")
        for mark, prefixes in self._fold.prefixes:
            if mark in flat:
                for prefix in prefixes:
                    flat = flat.replace(prefix, _GAP * len(prefix))
        flat = flat.translate(self._fold.table)
        return flat.replace(_GAP * _WIDE, _BREAK * _WIDE) if len(flat) >= _WIDE else flat


def _folded(flat: bytes) -> str:
    return flat.translate(None, _GAP).decode("latin-1")


def _beginning(flat: bytes, digits: int) -> int:
    """The position of the last `digits` digits."""
    at = len(flat)
    while digits:
        at -= 1
        digits -= flat[at] != _GAP[0]
    return at


_IN_QUERIES: Final = "!$&'()*+,;=:@/?~"
_BORDER: Final = "-----"
"""The start of the first and last line of every PEM file, which is not secret."""
_ENTITIES: Final[tuple[dict[str, str], ...]] = (
    {},
    {'"': "&quot;", "'": "&#x27;"},
    {'"': "&quot;", "'": "&#39;"},
    {'"': "&quot;", "'": "&#039;"},
    {'"': "&quot;", "'": "&apos;"},
    {'"': "&#34;", "'": "&#39;"},
    {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
)
"""How template engines escape characters that not all of them escape."""
_JSON: Final = {code: json.dumps(chr(code))[1:-1] for code in (*range(32), *map(ord, '"\\'))}
_SCRIPTS: Final = tuple(
    {**_JSON, **{ord(character): f"\\u{ord(character):{digits}}" for character in escaped}}
    for digits, escaped in (
        ("04x", "&<>"),  # Go
        ("04x", "&'<=>"),  # Gson
        ("04X", "&<>"),  # json_script of Django
        ("04X", "\"&'+<>`"),  # .NET
        ("04X", "\"&'-;<=>\\`"),  # escapejs of Django
    )
)
"""Escapes of JSON and scripts inside a page."""
_NOT_ASCII: Final = re.compile("[^\0-\x7f]")


class Forms(msgspec.Struct, frozen=True, kw_only=True):
    """Every text to search for: the literal forms, and the folded digits of hex and base64."""

    literal: frozenset[str] = frozenset()
    hex: frozenset[str] = frozenset()
    base64: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.literal)


class FormMatcher:
    """Finds every form of some values. Build it once per set of values."""

    def __init__(self, every: Iterable[Forms]) -> None:
        every = tuple(every)
        self.literal: Final = Matcher(form for forms in every for form in forms.literal)
        self.folded: Final = (
            FoldedMatcher(HEX, (form for forms in every for form in forms.hex)),
            FoldedMatcher(BASE64, (form for forms in every for form in forms.base64)),
        )
        self.reach: Final = max(self.literal.longest_bytes, *(each.reach for each in self.folded))
        """The largest length of a form, in bytes and so in characters."""

    def find(self, text: str) -> list[Span]:
        """The spans of forms; overlapping spans are merged."""
        found = self.literal.find(text)
        others = [span for each in self.folded for span in each.find(text)]
        return merged([*found, *others]) if others else found


def forms_of(value: str) -> Forms:
    """The forms of a value; none if the value is too short to tell it from a word."""
    parts = [*_parts(value)]
    contents = [part.encode("utf-8", "surrogatepass") for part in parts]
    wide = [part.encode("utf-16-be", "surrogatepass") for part in parts]
    return Forms(
        literal=_long(form for part in parts for form in _literal(part)),
        hex=_long(form for content in (*contents, *wide) for form in _hex(content)),
        base64=_long(form for content in contents for form in _base64(content)),
    )


def _long(forms: Iterable[str]) -> frozenset[str]:
    return frozenset(form for form in forms if len(form) >= SECRET_LEAST_CHARACTERS)


def _parts(value: str) -> Iterator[str]:
    """The value without surrounding whitespace, and each of its lines, because programs print single lines."""
    for part in {value, value.strip(), *map(str.strip, value.splitlines())}:
        if len(part) >= SECRET_LEAST_CHARACTERS and not (part != value and part.startswith(_BORDER)):
            yield part


def _literal(value: str) -> Iterator[str]:
    content = value.encode("utf-8", "surrogatepass")
    yield value
    for quoted in _quoted(content):
        for written in (quoted, _small_hex(quoted)):
            yield written
            yield written.replace("%", "%25")  # a URL in a URL, by one library
        yield quote(quoted, safe="")  # by two
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON in a text of JSON
    yield repr(value)[1:-1]
    yield repr(content)[2:-1]
    yield from _in_scripts(value)
    yield from _in_pages(value)


def _in_scripts(value: str) -> Iterator[str]:
    """With `\\uXXXX` escapes, in lower and upper case."""
    for table in _SCRIPTS:
        written = value.translate(table)
        yield written
        yield _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], written)
        yield _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1].upper().replace("\\U", "\\u"), written)


def _in_pages(value: str) -> Iterator[str]:
    """The value escaped for HTML and XML."""
    for entities in _ENTITIES:
        escaped = html.escape(value, quote=False)
        for character, entity in entities.items():
            escaped = escaped.replace(character, entity)
        yield escaped
        yield escaped.replace("&gt;", ">")
        yield escaped.encode("ascii", "xmlcharrefreplace").decode()


def _quoted(content: bytes) -> Iterator[str]:
    """The value URL-encoded by the libraries of different languages, which leave different characters unescaped."""
    for safe in ("", "/", "!'()*", _IN_QUERIES):
        yield quote(content, safe=safe)
    yield quote_plus(content)
    yield quote_plus(content, safe="*").replace("~", "%7E")


def _base64(content: bytes) -> Iterator[str]:
    """The value in base64 at each of the three offsets among other bytes, without the characters that depend on its
    neighbours."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + content).decode().rstrip("=")
        shared_behind = (before + len(content)) % 3 != 0
        yield whole[(0, 2, 3)[before] : len(whole) - shared_behind]


def _hex(content: bytes) -> Iterator[str]:
    yield content.hex()
    yield content.replace(b"%", b"").hex()  # for a text with `%25`: see `HEX`


def _small_hex(quoted: str) -> str:
    head, *escapes = quoted.split("%")
    return "%".join([head, *(text[:2].lower() + text[2:] for text in escapes)])
