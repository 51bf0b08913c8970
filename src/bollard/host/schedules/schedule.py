"""A saved schedule: when it fires, the event that a tick raises, and what happens to missed ticks."""

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, model_validator

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.saved_body import SavedBody
from bollard.host.errors import InvalidRequest
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.host.runs.event import OWN_EVENTS
from bollard.host.schedules import limits
from bollard.host.schedules.planner import (
    LAST_MS,
    SECOND_MS,
    CronFault,
    CronTiming,
    IntervalTiming,
    Missed,
    MissedRule,
    OneInstant,
    Plan,
    Timing,
    local_text,
)
from bollard.protocol import Flag, Int, JsonObject

TICK_EVENT: Final = "schedule.triggered"
OWN_DATA: Final = ("schedule_id", "planned_at", "manual")
"""Keys of the data of a tick that the host sets."""
_Instant = Annotated[str, Field(min_length=1, max_length=limits.INSTANT_CHARACTERS)]


class ScheduleTiming(SavedBody):
    """When a schedule fires: a cron expression, an interval, or one instant."""

    __qualname__ = "PreviewSchedule"  # its name in the OpenAPI document
    noun = "schedule"
    cron: Annotated[str, Field(min_length=1, max_length=limits.CRON_CHARACTERS)] | None = Field(
        default=None, description="Minute, hour, day of month, month and day of week."
    )
    every_s: Annotated[Int, Field(ge=limits.INTERVAL_MIN_S, le=limits.INTERVAL_MAX_S)] | None = Field(
        default=None, description="Seconds between two ticks."
    )
    at: _Instant | None = Field(default=None, description="One instant, such as `2027-03-01T09:00:00+08:00`.")
    zone: Annotated[str, Field(min_length=1, max_length=limits.ZONE_CHARACTERS)] = Field(
        default="UTC", description="The IANA time zone of `cron`, and of instants without an offset."
    )
    start: _Instant | None = Field(default=None, description="The first instant at which a tick may be.")
    until: _Instant | None = Field(default=None, description="The last instant at which a tick may be.")

    @model_validator(mode="after")
    def _has_one_rule(self) -> Self:
        if sum(each is not None for each in (self.cron, self.every_s, self.at)) != 1:
            problem, hint = "needs one of cron, every_s and at", "set exactly one of them"
            raise self.invalid("schedule_rule", "cron", problem, hint)
        return self

    # A zone of the machine can vanish, so the checks of zones and instants are not part of reading a saved schedule.

    def time_zone(self) -> tzinfo:
        """Raises `InvalidRequest`."""
        try:
            return UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            problem = f"there is no time zone {self.zone!r}"
            hint = "use an IANA name such as Asia/Shanghai, or UTC"
            raise self.invalid("schedule_zone", "zone", problem, hint, zone=self.zone) from error

    def plan(self, since_ms: int, *, jitter_s: int = 0, key: str = "") -> Plan:
        """The plan of the ticks after `since_ms`. Raises `InvalidRequest`."""
        zone = self.time_zone()
        start_ms, until_ms = self._instant("start", self.start, zone), self._instant("until", self.until, zone)
        if start_ms is not None and until_ms is not None and until_ms < start_ms:
            raise self.invalid("schedule_until", "until", "is before start", "choose a later instant")
        return Plan(
            timing=self._timing(zone, start_ms, since_ms),
            since_ms=since_ms if start_ms is None else max(since_ms, start_ms - 1),
            until_ms=until_ms,
            jitter_ms=jitter_s * SECOND_MS,
            key=key,
        )

    def upcoming(self, now_ms: int, since_ms: int | None = None) -> list[str]:
        """The next instants in the time zone. Raises `InvalidRequest`."""
        plan, zone = self.plan(now_ms // SECOND_MS * SECOND_MS if since_ms is None else since_ms), self.time_zone()
        return [local_text(each, zone) for each in plan.upcoming(now_ms, limits.SHOWN_INSTANTS)]

    def check_times(self, now_ms: int) -> None:
        """Raises `InvalidRequest` for times that can have no tick any more."""
        plan = self.plan(now_ms)
        if self.at is not None and isinstance(plan.timing, OneInstant) and plan.timing.at_ms <= now_ms:
            raise self.invalid("schedule_past", "at", "is in the past", "choose a later instant")
        if plan.after(now_ms) is None:
            field = "at" if self.at is not None else "until"
            raise self.invalid("schedule_no_tick", field, "leaves no tick", "correct start, until or at")

    def _timing(self, zone: tzinfo, start_ms: int | None, since_ms: int) -> Timing:
        if self.cron is not None:
            try:
                return CronTiming.of(self.cron, zone, since_ms)
            except CronFault as error:
                raise self._cron_error(error) from error
        if self.every_s is not None:
            return IntervalTiming(self.every_s * SECOND_MS, since_ms if start_ms is None else start_ms)
        return OneInstant(self._instant("at", self.at, zone) or 0)

    def _cron_error(self, fault: CronFault) -> InvalidRequest:
        hint = "write it like `0 9 * * 1-5`: minute, hour, day of month, month, day of week"
        if fault.kind == "fields":
            return self.invalid("schedule_cron_fields", "cron", "needs five fields", hint)
        if fault.kind == "unreadable":
            problem = f"cannot be read: {fault.detail}"
            return self.invalid("schedule_cron_unreadable", "cron", problem, hint, detail=fault.detail)
        hint = "correct the day and the month: this date never comes"
        return self.invalid("schedule_cron_never", "cron", "never fires", hint)

    def _instant(self, field: str, text: str | None, zone: tzinfo) -> int | None:
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
            instant = int(moment.timestamp()) * SECOND_MS
        except (ValueError, OverflowError) as error:
            hint = "write it like 2027-03-01T09:00:00+08:00"
            raise self.invalid("schedule_instant", field, "is no instant", hint, name=field) from error
        if not 0 < instant < LAST_MS:
            hint = "choose an instant before the year 2200"
            raise self.invalid("schedule_instant_range", field, "is too early or too late", hint, name=field)
        return instant


class Schedule(ScheduleTiming):
    """A schedule. `effective_from` and `proposed_by` are set by the host."""

    __qualname__ = "SaveSchedule"  # its name in the OpenAPI document
    schedule_id: ChosenName
    agent_id: ChosenName | None = Field(default=None, description="The agent; without it, bindings choose one.")
    event_type: ForeignId = Field(default=TICK_EVENT, description="The type of the event of a tick.")
    text: Annotated[str, Field(max_length=INPUT_TEXT_BYTES)] | None = Field(
        default=None, description="The input of the run."
    )
    data: JsonObject = Field(default_factory=dict, description="More data of the event.")
    bot: ForeignId | None = None
    conversation: ForeignId | None = None
    thread: ForeignId | None = None
    reply_target: ForeignId | None = Field(
        default=None, description="Where the answer goes, as `channel:target`.", pattern="^[^:]+:.+$"
    )
    missed: Missed = Field(
        default="last", description="Which ticks start that are later than the grace period: none, the last, or all."
    )
    missed_limit: Annotated[Int, Field(ge=1, le=limits.MISSED_TICKS)] = Field(
        default=10, description="The most missed ticks that start, with `missed: all`."
    )
    grace_s: Annotated[Int, Field(ge=1, le=limits.GRACE_MAX_S)] = Field(
        default=60, description="Seconds by which a tick may be late, and for which a failed start is retried."
    )
    jitter_s: Annotated[Int, Field(ge=0, le=limits.JITTER_MAX_S)] = Field(
        default=0, description="The longest random delay of a tick."
    )
    paused: Flag = False
    effective_from: Int | None = Field(
        default=None, ge=0, description="Ticks come after this time, in seconds of the epoch. Set by the host."
    )
    proposed_by: ForeignId | None = Field(default=None, description="The run that created it. Set by the host.")

    @property
    def rule(self) -> MissedRule:
        return MissedRule(missed=self.missed, limit=self.missed_limit, grace_ms=self.grace_s * SECOND_MS)

    @property
    def since_ms(self) -> int:
        return (self.effective_from or 0) * SECOND_MS

    def own_plan(self, workspace: str) -> Plan:
        """Raises `InvalidRequest`."""
        return self.plan(self.since_ms, jitter_s=self.jitter_s, key=f"{workspace}/{self.schedule_id}")

    def checked(self, before: "Schedule | None", now_ms: int, proposed_by: str | None = None) -> "Schedule":
        """The schedule of a request. A new rule, and the end of a pause, make it effective from now on.
        Raises `InvalidRequest`."""
        if self.event_type in OWN_EVENTS:
            hint = "choose another type, or leave it out"
            raise self.invalid("schedule_event_type", "event_type", "is reserved for the host", hint)
        if taken := [key for key in OWN_DATA if key in self.data]:
            hint = "choose another key"
            raise self.invalid("schedule_data", "data", f"has the reserved key {taken[0]}", hint, name=taken[0])
        same_rule = before is not None and before.rule_fields == self.rule_fields
        if not same_rule:
            self.check_times(now_ms)
        if self.every_s is not None and self.jitter_s >= self.every_s:
            hint = "choose a jitter that is shorter than the interval"
            raise self.invalid("schedule_jitter", "jitter_s", "is not shorter than every_s", hint)
        kept = before is not None and same_rule and not before.paused
        same_input = before is not None and (before.text, before.data) == (self.text, self.data)
        return self.model_copy(
            update={
                "effective_from": before.effective_from if before and kept else now_ms // SECOND_MS,
                "proposed_by": before.proposed_by if before and same_input else proposed_by,
            }
        )

    @property
    def rule_fields(self) -> tuple[str | int | None, ...]:
        return self.cron, self.every_s, self.at, self.zone, self.start, self.until
