"""A word that must be one of a few: told at once, with the one that was likely meant."""

import difflib
from collections.abc import Sequence

from bollard.cli.errors import UsageProblem

__all__ = ["one_of"]


def one_of(option: str, value: str, known: Sequence[str]) -> str:
    """The word; raises `UsageProblem`."""
    if value in known:
        return value
    near = difflib.get_close_matches(value, known, n=1)
    hint = "hint.choice_near" if near else "hint.choice"
    raise UsageProblem("error.choice", hint, option=option, value=value, near="".join(near), known=", ".join(known))
