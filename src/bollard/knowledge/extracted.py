"""The text of a document, and what is known of its shape: the same for every format. Values only."""

import msgspec

__all__ = ["Extracted", "Order", "Problem"]


class Extracted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Text, with headings, tables and code written the way Markdown does where `structured`."""

    text: str
    structured: bool
    pages: tuple[tuple[int, int], ...] = ()
    """Where each page begins in the text, and its number."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that reads documents is asked."""

    kind: str
    content: bytes
    charset: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Why there is no text."""

    message: str
