"""References to secrets: `secret:NAME`. Pure.

A secret of one agent has a name with slashes, `agent/polly/key`, which users can neither choose nor reference.
"""

import re
from typing import Final

PREFIX: Final = "secret:"
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_NAME: Final = re.compile(NAME_PATTERN)


def is_reference(value: object) -> bool:
    """Whether a value is a reference to a secret."""
    return isinstance(value, str) and value.startswith(PREFIX)


def referred(value: str) -> str:
    """The name in a reference."""
    return value.removeprefix(PREFIX)


def reference_to(name: str) -> str:
    return PREFIX + name


def is_chosen(name: str) -> bool:
    """Whether users may choose this name."""
    return _NAME.fullmatch(name) is not None


def own_name(kind: str, thing: str, field: str) -> str:
    """The name of a secret that belongs to one resource, and is deleted with it."""
    return f"{kind}/{thing}/{field}"
