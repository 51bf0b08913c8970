"""The time in the header `Retry-After` of a response: a number of seconds, or a date. Pure."""

import math
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Iterable[tuple[str, str]], now_s: float, most_s: float) -> float | None:
    """Seconds until the server accepts a retry, at most `most_s`; `None` if they are missing or invalid."""
    values = dict(reversed([*headers]))
    seconds = _number(values.get("retry-after-ms"), 0.001)
    if seconds is None:
        seconds = _number(values.get("retry-after"), 1.0)
    if seconds is None and (text := values.get("retry-after")) is not None:
        try:
            date = parsedate_to_datetime(text[:64])
        except (ValueError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_s
    return None if seconds is None else min(max(0.0, seconds), most_s)


def _number(text: str | None, unit: float) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value * unit if math.isfinite(value) else None
