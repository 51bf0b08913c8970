"""Which documents a question is narrowed to, by what they were given with. Pure."""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["matches"]


def matches(metadata: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether each key has the value that is asked for, or one of a list of them. A list in the metadata has any of its
    values. What is not there matches nothing."""
    return all(key in metadata and _agrees(metadata[key], wanted) for key, wanted in filters.items())


def _agrees(value: Any, wanted: Any) -> bool:
    allowed = cast("list[Any]", wanted) if isinstance(wanted, list) else [wanted]
    held = cast("list[Any]", value) if isinstance(value, list) else [value]
    return any(_same(each, other) for each in held for other in allowed)


def _same(one: Any, other: Any) -> bool:
    """`1` is not `True` here, whatever Python says."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
