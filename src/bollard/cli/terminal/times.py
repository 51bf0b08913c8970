"""Times as text, to the minute or the second, in the time zone of this machine; and durations."""

import contextlib
import os
import re
from datetime import UTC, datetime
from typing import Final

from bollard.cli.errors import UsageProblem


def day_of(seconds: float) -> str:
    """For example `2026-03-01 09:30`."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def minute_of(seconds: float) -> str:
    """For example `03-01 09:30`: a moment of this year."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%m-%d %H:%M")


def second_of(seconds: float) -> str:
    """For example `2026-03-01 09:30:12`."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock_of(seconds: float) -> str:
    """For example `09:30:12`: a moment of a day that is known."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%H:%M:%S")


_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
_WRITTEN: Final = re.compile(r"([1-9][0-9]{0,6})([smhdw])")


def seconds_of(given: str) -> int:
    """A duration like `90d`, `12h`, `30m` or `45s`. Raises `UsageProblem`."""
    found = _WRITTEN.fullmatch(given)
    if found is None:
        raise UsageProblem("error.duration", "hint.duration", value=given)
    return int(found[1]) * _UNITS[found[2]]


def local_zone() -> str | None:
    """The name of this machine's time zone, such as `Asia/Shanghai`. `None` for UTC, and if the name is unknown."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        with contextlib.suppress(OSError):
            name = os.readlink("/etc/localtime").partition("zoneinfo/")[2]
    return name if _ZONE.fullmatch(name) and name not in ("UTC", "Etc/UTC") else None
