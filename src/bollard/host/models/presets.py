"""The model providers that are known by name: their addresses and formats, from `presets.toml`."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from bollard.host.models.boundary import Style

RESOURCE: Final = "YOUR-RESOURCE"
"""In an address: a name that each customer of the provider chooses."""
_FILE: Final = Path(__file__).with_name("presets.toml")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider. `presets.toml` describes the fields."""

    label: str
    style: Style
    base_url: str
    other_urls: tuple[str, ...] = ()
    model: str | None = None
    secret: str | None = None
    note: dict[str, str] = {}
    """By language."""


@functools.cache
def presets() -> Mapping[str, Preset]:
    """Every preset by name, in the order of the file."""
    return MappingProxyType(msgspec.convert(tomllib.loads(_FILE.read_text(encoding="utf-8")), dict[str, Preset]))
