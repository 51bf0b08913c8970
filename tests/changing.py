"""Values that differ from others in few fields."""

import dataclasses
from typing import Any

import msgspec

__all__ = ["replace"]


def replace(value: Any, **changes: Any) -> Any:
    """Another value of the same kind, whether that is a struct or a dataclass."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)
