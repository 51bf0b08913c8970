"""Copies of values with some fields replaced."""

import dataclasses
from typing import Any

import msgspec
from pydantic import BaseModel

__all__ = ["replace"]


def replace(value: Any, **changes: Any) -> Any:
    """A copy of a struct, a model or a dataclass with other values of these fields."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    if isinstance(value, BaseModel):
        return value.model_copy(update=changes)
    return dataclasses.replace(value, **changes)
