"""The times of a schedule: its next instants, the ticks that are due, and the missed ones that start. Pure.

Instants are whole seconds, in milliseconds of the epoch. Daylight saving time follows cron of Debian. If the minute and
the hour of a cron expression are fixed, a time that the clock skips moves to the first minute after the gap, and a time
that occurs twice counts once, the first time. If the minute or the hour begins with `*`, the expression counts elapsed
time: it has no tick inside a gap, and ticks in both passes of an overlap.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from itertools import islice
from typing import Final, Literal, Protocol

import msgspec
from cronsim import CronSim, CronSimError

from bollard.host.schedules.limits import COUNTED_TICKS, TICKS_OF_ROUND

SECOND_MS: Final = 1000
_WINDOW_MS: Final = 3600 * SECOND_MS
"""The first window in which missed ticks are searched, backwards from now. Each further one is twice as long."""
LAST_MS: Final = 7_258_118_400_000
"""The year 2200: no instant is later."""

Missed = Literal["skip", "last", "all"]


class CronFault(Exception):
    """A cron expression that cannot be used."""

    def __init__(self, kind: Literal["fields", "unreadable", "never"], detail: str = "") -> None:
        super().__init__(detail or kind)
        self.kind = kind
        self.detail = detail


class Timing(Protocol):
    """A rule that gives instants."""

    def instants(self, after_ms: int) -> Iterator[int]:
        """Every instant after `after_ms`, in order."""
        ...


class _Cron(CronSim):
    """The library counts in whole hours. After a shift of half an hour it would begin in the middle of an hour."""

    def advance_hour(self) -> bool:
        moved = super().advance_hour()
        if moved and self.dt.minute:
            begin = (self.dt.astimezone(UTC) - timedelta(minutes=self.dt.minute)).astimezone(self.dt.tzinfo)
            if (begin.hour, begin.minute) == (self.dt.hour, 0):
                self.dt = begin
        return moved


class CronTiming(msgspec.Struct, frozen=True):
    """A cron expression with five fields in a time zone."""

    expression: str
    zone: tzinfo

    @classmethod
    def of(cls, expression: str, zone: tzinfo, now_ms: int) -> "CronTiming":
        """Raises `CronFault`."""
        if len(expression.split()) != 5:
            raise CronFault("fields")
        timing = cls(expression, zone)
        try:
            first = next(timing.instants(now_ms), None)
        except CronSimError as error:
            # The day is beyond the end of every named month if it is right for all months.
            raise CronFault("never" if _is_readable(expression) else "unreadable", str(error)) from error
        if first is None:
            raise CronFault("never")
        return timing

    def instants(self, after_ms: int) -> Iterator[int]:
        start = datetime.fromtimestamp(min(after_ms, LAST_MS) // SECOND_MS, self.zone)
        last_ms = after_ms
        for moment in _Cron(self.expression, start):
            found_ms = round(moment.timestamp()) * SECOND_MS
            if found_ms > LAST_MS:
                return
            if found_ms > last_ms:  # in the second pass of an overlap, the first pass comes up again
                last_ms = found_ms
                yield found_ms


def _is_readable(expression: str) -> bool:
    """Whether the fields are right, each on its own."""
    minute, hour, day, month, weekday = expression.split()
    try:
        for fields in (f"{minute} {hour} {day} * {weekday}", f"0 0 1 {month} *"):
            CronSim(fields, datetime.fromtimestamp(0, UTC))
    except CronSimError:
        return False
    return True


class IntervalTiming(msgspec.Struct, frozen=True):
    """Equal steps from an anchor, which is the first instant."""

    every_ms: int
    anchor_ms: int

    def instants(self, after_ms: int) -> Iterator[int]:
        step = max(0, (after_ms - self.anchor_ms) // self.every_ms + 1)
        while True:
            yield self.anchor_ms + step * self.every_ms
            step += 1


class OneInstant(msgspec.Struct, frozen=True):
    at_ms: int

    def instants(self, after_ms: int) -> Iterator[int]:
        if self.at_ms > after_ms:
            yield self.at_ms


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its bounds."""

    timing: Timing
    since_ms: int
    """Ticks come after this time."""
    until_ms: int | None = None
    """The last time at which a tick may be."""
    jitter_ms: int = 0
    key: str = ""
    """Makes the jitter of two schedules differ."""

    def instants(self, after_ms: int) -> Iterator[int]:
        for instant in self.timing.instants(max(after_ms, self.since_ms)):
            if self.until_ms is not None and instant > self.until_ms:
                return
            yield instant

    def after(self, after_ms: int) -> int | None:
        return next(self.instants(after_ms), None)

    def upcoming(self, after_ms: int, count: int) -> list[int]:
        return list(islice(self.instants(after_ms), count))

    def start_of(self, instant: int) -> int:
        """When the tick of an instant starts: later by its jitter, which is the same after a restart."""
        if not self.jitter_ms:
            return instant
        digest = sha256(f"{self.key}\n{instant}".encode()).digest()
        return instant + int.from_bytes(digest[:8]) % (self.jitter_ms + 1)


class MissedRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which ticks start that are later than the grace period: none, the newest, or the newest `limit`."""

    missed: Missed
    limit: int
    grace_ms: int

    @property
    def started(self) -> int:
        return {"skip": 0, "last": 1, "all": self.limit}[self.missed]


class SkippedTicks(msgspec.Struct, frozen=True, kw_only=True):
    """Missed ticks that never start. `count` stops at a limit."""

    first_ms: int
    through_ms: int
    """No tick up to this time starts any more. It is never an instant of a tick."""
    count: int

    @property
    def more(self) -> bool:
        return self.count >= COUNTED_TICKS


class DueTicks(msgspec.Struct, frozen=True, kw_only=True):
    """The ticks of a schedule at one time. Skipped ticks come before those that start."""

    skipped: SkippedTicks | None = None
    ticks: tuple[int, ...] = ()
    wake_ms: int | None = None
    """When the next tick starts; `None` if there is none, or if ticks are due now."""

    @property
    def any(self) -> bool:
        return self.skipped is not None or bool(self.ticks)


def due_ticks(plan: Plan, rule: MissedRule, settled_ms: int, now_ms: int) -> DueTicks:
    """Decide about the ticks after `settled_ms`, of which none is settled.

    A tick is missed if it is later than its jitter and the grace period. Every other due tick starts.
    """
    first = plan.after(settled_ms)
    if first is None or plan.start_of(first) > now_ms:
        return DueTicks(wake_ms=None if first is None else plan.start_of(first))
    cut_ms = -((plan.jitter_ms + rule.grace_ms - now_ms) // SECOND_MS) * SECOND_MS  # rounded up to a whole second
    kept = _newest(plan, settled_ms, cut_ms, rule.started) if first < cut_ms else []
    through_ms = (kept[0] if kept else cut_ms) - 1
    skipped = _skipped(plan, settled_ms, through_ms) if first < cut_ms else None
    begin_ms = settled_ms if skipped is None else skipped.through_ms
    ticks: list[int] = []
    for instant in islice(plan.instants(begin_ms), TICKS_OF_ROUND):
        if plan.start_of(instant) > now_ms:
            break
        ticks.append(instant)
    return DueTicks(skipped=skipped, ticks=tuple(ticks))


def _newest(plan: Plan, after_ms: int, before_ms: int, count: int) -> list[int]:
    """The newest `count` instants between the two times. Searches in windows that grow backwards, because a plan only
    runs forwards, and a long downtime has too many instants."""
    window_ms = _WINDOW_MS
    while count:
        begin_ms = max(after_ms, before_ms - window_ms)
        found: list[int] = []
        for instant in plan.instants(begin_ms):
            if instant >= before_ms:
                break
            found.append(instant)
        if len(found) >= count or begin_ms == after_ms:
            return found[-count:]
        window_ms *= 2
    return []


def _skipped(plan: Plan, after_ms: int, through_ms: int) -> SkippedTicks | None:
    found = 0
    first: int | None = None
    for instant in islice(plan.instants(after_ms), COUNTED_TICKS):
        if instant > through_ms:
            break
        first = instant if first is None else first
        found += 1
    return None if first is None else SkippedTicks(first_ms=first, through_ms=through_ms, count=found)


def utc_text(instant_ms: int) -> str:
    """An instant in UTC with milliseconds. Texts of two instants sort like the instants."""
    moment = datetime.fromtimestamp(instant_ms / SECOND_MS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{instant_ms % SECOND_MS:03}Z"


def read_utc(text: str) -> int:
    """The instant of `utc_text`."""
    return round(datetime.fromisoformat(text).timestamp() * SECOND_MS)


def local_text(instant_ms: int, zone: tzinfo) -> str:
    """An instant in a time zone, with its offset."""
    return datetime.fromtimestamp(instant_ms // SECOND_MS, zone).isoformat()
