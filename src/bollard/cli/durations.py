"""Spans of time as people write them: `90d`, `12h`, `30m`, `45s`. Pure."""

import re
from typing import Final

from bollard.cli.errors import UsageProblem

__all__ = ["seconds_of"]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
_WRITTEN: Final = re.compile(r"([1-9][0-9]{0,6})([smhdw])")


def seconds_of(given: str) -> int:
    """Raises `UsageProblem`."""
    found = _WRITTEN.fullmatch(given)
    if found is None:
        raise UsageProblem("error.duration", "hint.duration", value=given)
    return int(found[1]) * _UNITS[found[2]]
