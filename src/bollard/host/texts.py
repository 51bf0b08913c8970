"""Texts of the host for people, in English and Chinese. Each area has a file in `text`."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

Locale = Literal["en_US", "zh_Hans"]
LOCALES: Final[tuple[Locale, ...]] = get_args(Locale)


def nearest(language: str | None, otherwise: Locale) -> Locale:
    """The language of these texts for a person who speaks `language`."""
    spoken = (language or "").lower().replace("-", "_").partition("_")[0]
    for locale in LOCALES:
        if locale.partition("_")[0] == spoken:
            return locale
    return otherwise


def read_texts(area: str) -> Mapping[str, Mapping[str, str]]:
    """The texts of an area, by language and key."""
    content = (Path(__file__).with_name("text") / f"{area}.json").read_bytes()
    texts = msgspec.json.decode(content, type=dict[str, dict[str, str]])
    return MappingProxyType({locale: MappingProxyType(texts[locale]) for locale in LOCALES})
