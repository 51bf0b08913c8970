"""Short names for models. Two that would be equal both get their source as a prefix: none wins silently.

The same capabilities get the same names, in whatever order they come.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.trust import sha256_of

__all__ = ["NAME_CHARACTERS", "short_names"]

NAME_CHARACTERS: Final = 64
"""What every model's interface takes."""
_DIGEST_CHARACTERS: Final = 24
"""Enough that nobody finds two ids with one ending, also who chooses the ids."""
_LAST: Final = 2
"""The form of a name that cannot be equal to another."""
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def short_names(capabilities: Iterable[Capability]) -> dict[str, str]:
    """By id. Names that differ only in case count as equal: some models cannot tell them apart."""
    known = {capability.id: capability for capability in capabilities}
    level = dict.fromkeys(known, 0)
    names = {found: _form(capability, 0) for found, capability in known.items()}
    while True:
        many = {name for name, count in Counter(name.casefold() for name in names.values()).items() if count > 1}
        stuck = [found for found, name in names.items() if name.casefold() in many and level[found] < _LAST]
        if not stuck:
            return names
        for found in stuck:
            level[found] += 1
            names[found] = _form(known[found], level[found])


def _form(capability: Capability, level: int) -> str:
    """The plain name; with its source before it; one that nobody else has."""
    plain = _safe(capability.name)
    if level == 0 and len(plain) <= NAME_CHARACTERS:
        return plain
    long = f"{_safe(capability.source.partition(':')[2] or capability.source)}__{plain}"
    if level == 1 and len(long) <= NAME_CHARACTERS:
        return long
    # What is cut off no longer says which one it is.
    digest = sha256_of(capability.id.encode("utf-8", "surrogatepass"))[:_DIGEST_CHARACTERS]
    return f"{long[: NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name) or "_"
