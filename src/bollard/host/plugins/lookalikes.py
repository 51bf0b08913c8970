"""Names that people take for one another. A plugin whose name looks like that of another one is not taken beside it.

Letters of other scripts need no table: an author or a name is lower-case ASCII, and everything else was refused before.
"""

import re
from collections.abc import Iterable

__all__ = ["lookalike", "skeleton"]

_SEPARATORS = re.compile(r"[._-]+")


def skeleton(name: str) -> str:
    """What is left of a name when everything is one that looks alike."""
    plain = _SEPARATORS.sub("-", name).replace("0", "o").replace("1", "l")
    return plain.replace("rn", "m").replace("vv", "w")


def lookalike(plugin_id: str, others: Iterable[str]) -> str | None:
    """Another plugin that this one could be taken for, or that has its name and another author."""
    mine = skeleton(plugin_id.partition("/")[2])
    return next((each for each in others if each != plugin_id and skeleton(each.partition("/")[2]) == mine), None)
