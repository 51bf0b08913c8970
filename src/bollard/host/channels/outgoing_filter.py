"""The content filter of a channel for texts that leave the host. Pure.

A message is filtered as a whole, before it is split: a word at the border of two parts is in neither of them.
"""

from typing import Final, Protocol

import msgspec

from bollard.host.channels.content_filter import ContentFilter, filtered
from bollard.host.texts import Locale, read_texts

WORDS: Final = read_texts("chat")


class Screened(msgspec.Struct, frozen=True):
    """A text that may leave. A withheld text is replaced by a sentence that says so."""

    text: str
    withheld: bool = False


class Exit(Protocol):
    """Where a text leaves: a channel, or its surface."""

    @property
    def locale(self) -> Locale: ...
    @property
    def filter_out(self) -> ContentFilter | None: ...


def screened(place: Exit, text: str) -> Screened:
    """The text that may leave there."""
    outcome = filtered(place.filter_out, text)
    if outcome.outcome == "block":
        return Screened(WORDS[place.locale]["withheld"], withheld=True)
    return Screened(outcome.text)
