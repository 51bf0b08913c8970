"""What a search looks for in lines: words as they are, or a regular expression of an engine whose time grows with the
length of the line alone."""

import importlib
from collections.abc import Callable
from typing import Any, cast

from bollard.confine.errors import OverLimit
from bollard.confine.limits import PATTERN_CHARACTERS
from bollard.host.limits import PATTERN_BYTES

__all__ = ["PatternRefused", "line_matcher"]


class PatternRefused(ValueError):
    """Not a regular expression, or one that only a backtracking engine could follow."""


def line_matcher(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[str], bool]:
    """Says of a line whether the pattern is in it."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise OverLimit(f"the pattern is longer than {PATTERN_CHARACTERS} characters")
    if not regex:
        if ignore_case:
            small = pattern.casefold()
            return lambda line: small in line.casefold()
        return lambda line: pattern in line
    engine: Any = importlib.import_module("jsonschema_rs")  # by name: it costs 8 MiB that an idle host does not pay
    options = engine.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=2 * PATTERN_BYTES)
    schema = {"type": "string", "pattern": f"(?i){pattern}" if ignore_case else pattern}
    try:
        return cast("Callable[[str], bool]", engine.validator_for(schema, pattern_options=options).is_valid)
    except ValueError:
        raise PatternRefused(
            "this is not a regular expression that is understood here; lookaround and backreferences are not"
        ) from None
