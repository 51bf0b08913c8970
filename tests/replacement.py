"""Copies of values with some fields replaced."""

import dataclasses
from typing import Any

import msgspec

__all__ = ["replace"]


def replace(value: Any, **changes: Any) -> Any:
    """A copy of a struct or a dataclass with other values of these fields."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)
