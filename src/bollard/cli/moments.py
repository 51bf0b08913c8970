"""Moments as people read them, to the minute or the second, in the time zone of this machine. Pure but for the zone."""

from datetime import UTC, datetime

__all__ = ["day_of", "second_of"]


def day_of(seconds: float) -> str:
    """For example `2026-03-01 09:30`."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def second_of(seconds: float) -> str:
    """For example `2026-03-01 09:30:12`."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
