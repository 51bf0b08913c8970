"""Texts that people read in a manifest: labels by locale, and names turned into words."""

from collections.abc import Mapping

from bollard.protocol import DEFAULT_LOCALE

__all__ = ["localized", "words"]


def localized(text: str | Mapping[str, str]) -> dict[str, str]:
    """A text by locale; a plain one is English."""
    return {DEFAULT_LOCALE: text} if isinstance(text, str) else dict(text)


def words(name: str) -> str:
    """`max_tokens` as `Max tokens`."""
    spaced = " ".join(name.replace("-", "_").replace(".", "_").split("_")).strip()
    return spaced[:1].upper() + spaced[1:] if spaced else name
