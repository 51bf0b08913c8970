"""The forms in which a secret may turn up again: as it is, in base64, in hex, in a URL, in JSON, in a traceback. Pure.

What was compressed, encrypted, cut into pieces or put together otherwise is not found by any form.
"""

import base64
import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from bollard.host.limits import SECRET_LEAST_CHARACTERS

__all__ = ["forms_of"]

_IN_QUERIES: Final = "!$&'()*+,;=:@/?~"
_BORDER: Final = "-----"
"""Begins the first and the last line of every PEM file: no secret."""


def forms_of(value: str) -> frozenset[str]:
    """Every text to look for; nothing for a value that is too short to be told from a word."""
    found: set[str] = set()
    for part in _parts(value):
        found.update(form for form in _forms(part) if len(form) >= SECRET_LEAST_CHARACTERS)
    return frozenset(found)


def _parts(value: str) -> Iterator[str]:
    """The value, without what surrounds it; and of one with several lines each line, because it is printed as one."""
    for part in {value, value.strip(), *map(str.strip, value.splitlines())}:
        if len(part) >= SECRET_LEAST_CHARACTERS and not (part != value and part.startswith(_BORDER)):
            yield part


def _forms(value: str) -> Iterator[str]:
    content = value.encode("utf-8", "surrogatepass")
    yield value
    yield from _base64(content)
    yield content.hex()
    yield content.hex().upper()
    for quoted in _quoted(content):
        yield quoted
        yield _small_hex(quoted)
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")  # fit for a page
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON in a text of JSON
    yield repr(value)[1:-1]
    yield repr(content)[2:-1]


def _quoted(content: bytes) -> Iterator[str]:
    """As the libraries of different languages write it into a URL: they leave different characters as they are."""
    for safe in ("", "/", "!'()*", _IN_QUERIES):
        yield quote(content, safe=safe)
    yield quote_plus(content)
    yield quote_plus(content, safe="*").replace("~", "%7E")


def _base64(content: bytes) -> Iterator[str]:
    """At each of the three places where it can stand among other bytes; without the characters that it shares with its
    neighbours."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + content).decode().rstrip("=")
        shared_behind = (before + len(content)) % 3 != 0
        plain = whole[(0, 2, 3)[before] : len(whole) - shared_behind]
        yield plain
        yield plain.replace("+", "-").replace("/", "_")


def _small_hex(quoted: str) -> str:
    head, *escapes = quoted.split("%")
    return "%".join([head, *(text[:2].lower() + text[2:] for text in escapes)])
