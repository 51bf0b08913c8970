"""The planner: instants in time zones, due ticks and missed ticks, compared with searches that look at every minute."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.errors import InvalidRequest
from bollard.host.schedules.limits import COUNTED_TICKS, TICKS_OF_ROUND
from bollard.host.schedules.planner import (
    CronTiming,
    IntervalTiming,
    MissedRule,
    OneInstant,
    Plan,
    due_ticks,
    local_text,
    read_utc,
    utc_text,
)
from bollard.host.schedules.schedule import ScheduleTiming

NOW_MS = read_utc("2026-11-18T03:30:00Z")


def upcoming(**body: Any) -> list[str]:
    return ScheduleTiming.read(body).upcoming(NOW_MS)


# --- instants in time zones ---


def test_a_schedule_in_shanghai_has_the_same_offset_all_year() -> None:
    assert upcoming(cron="0 9 * * 1-5", zone="Asia/Shanghai") == [
        "2026-11-19T09:00:00+08:00",
        "2026-11-20T09:00:00+08:00",
        "2026-11-23T09:00:00+08:00",
        "2026-11-24T09:00:00+08:00",
        "2026-11-25T09:00:00+08:00",
    ]


@for_each(
    "cron, zone, start, days",
    (
        (
            "30 2 * * *",
            "America/New_York",
            "2027-03-13",
            ["13T02:30:00-05:00", "14T03:00:00-04:00", "15T02:30:00-04:00"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2027-03-27", ["27T02:30:00+01:00", "28T03:00:00+02:00", "29T02:30:00+02:00"]),
        (
            "30 1 * * *",
            "America/New_York",
            "2027-11-06",
            ["06T01:30:00-04:00", "07T01:30:00-04:00", "08T01:30:00-05:00"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2027-10-30", ["30T02:30:00+02:00", "31T02:30:00+02:00", "01T02:30:00+01:00"]),
        (
            "0 * * * *",
            "America/New_York",
            "2027-03-14T01:00",
            ["14T01:00:00-05:00", "14T03:00:00-04:00", "14T04:00:00-04:00"],
        ),
        (
            "0 * * * *",
            "America/New_York",
            "2027-11-07T01:00",
            ["07T01:00:00-04:00", "07T01:00:00-05:00", "07T02:00:00-05:00"],
        ),
        (  # half an hour back
            "*/20 5 * * *",
            "Australia/Lord_Howe",
            "2027-04-04",
            ["04T05:00:00+10:30", "04T05:20:00+10:30", "04T05:40:00+10:30"],
        ),
        (
            "*/20 5 * * *",
            "Australia/Lord_Howe",
            "2027-10-03",
            ["03T05:00:00+11:00", "03T05:20:00+11:00", "03T05:40:00+11:00"],
        ),
    ),
)
def test_daylight_saving_time_moves_fixed_times_out_of_gaps_and_repeats_only_elapsed_ones(
    cron: str, zone: str, start: str, days: list[str]
) -> None:
    assert [each[8:] for each in upcoming(cron=cron, zone=zone, start=start)[:3]] == days


@for_each(
    "reason, body",
    (
        ("schedule_cron_never", {"cron": "0 0 31 2 *"}),
        ("schedule_cron_never", {"cron": "0 0 31 4,6,9,11 *"}),
        ("schedule_cron_unreadable", {"cron": "61 0 * * *"}),
        ("schedule_cron_unreadable", {"cron": "0 0 1 13 *"}),
        ("schedule_cron_unreadable", {"cron": "0 0 * * MON#6"}),
        ("schedule_cron_fields", {"cron": "* * * * * *"}),
        ("schedule_cron_fields", {"cron": "@daily"}),
        ("schedule_zone", {"every_s": 60, "zone": "Mars/Olympus"}),
        ("schedule_zone", {"every_s": 60, "zone": "../../etc/passwd"}),
        ("schedule_rule", {"zone": "UTC"}),
        ("schedule_rule", {"every_s": 60, "at": "2027-01-01"}),
        ("invalid_field", {"every_s": 9}),
        ("schedule_past", {"at": "2026-11-18T03:30:00Z"}),
        ("schedule_instant", {"at": "tomorrow"}),
        ("schedule_instant_range", {"at": "9999-01-01T00:00:00Z"}),
        ("schedule_instant_range", {"every_s": 60, "start": "0001-01-01T00:00:00Z"}),
        ("schedule_until", {"every_s": 60, "start": "2027-01-02", "until": "2027-01-01"}),
        ("schedule_no_tick", {"cron": "0 0 1 1 *", "until": "2026-12-01"}),
        ("schedule_no_tick", {"every_s": 60, "until": "2026-11-01"}),
    ),
)
def test_a_schedule_that_can_never_fire_is_refused_with_a_hint(reason: str, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ScheduleTiming.read(body).check_times(NOW_MS)
    assert caught.value.reason == reason
    assert caught.value.hint


def test_an_interval_counts_from_its_start_and_ends_with_until() -> None:
    found = upcoming(every_s=600, start="2026-11-18T03:05:00Z", until="2026-11-18T03:55:00Z")
    assert [each[11:16] for each in found] == ["03:35", "03:45", "03:55"]


CRON_TEXT = st.text("0123456789*/,-#LWMONFEB ²١", max_size=20)


@given(
    body=st.fixed_dictionaries(
        {"zone": st.one_of(st.sampled_from(["UTC", "Asia/Shanghai", "America", "zone.tab"]), st.text(max_size=8))},
        optional={
            "cron": st.one_of(CRON_TEXT, st.tuples(CRON_TEXT, CRON_TEXT).map(lambda two: f"{two[0]} {two[1]} * * *")),
            "every_s": st.integers(),
            "at": st.text("0123456789-:TZ+W", max_size=25),
            "start": st.text("0123456789-:TZ+W", max_size=25),
            "until": st.sampled_from(["2027-01-01", "0001-01-01", "9999-12-31T23:59:59-12:00"]),
        },
    )
)
def test_a_rule_of_any_content_is_either_refused_or_has_instants(body: dict[str, Any]) -> None:
    try:
        timing = ScheduleTiming.read(body)
        timing.check_times(NOW_MS)
    except InvalidRequest:
        return
    assert timing.upcoming(NOW_MS)


# --- every cron expression, against a search that looks at every minute ---


class BruteField(NamedTuple):
    """A field as text and as the set of its values."""

    text: str
    values: set[int]


def field(low: int, high: int, named: int | None = None) -> st.SearchStrategy[BruteField]:
    """`named` is the highest value that is written out: some months have no 29th day."""
    every = set(range(low, high + 1))
    number = st.integers(low, named or high)
    return st.one_of(
        st.just(BruteField("*", every)),
        number.map(lambda one: BruteField(str(one), {one})),
        st.sets(number, min_size=2, max_size=3).map(lambda some: BruteField(",".join(map(str, sorted(some))), some)),
        st.integers(2, 20).map(lambda step: BruteField(f"*/{step}", set(range(low, high + 1, step)))),
        st.tuples(number, number).map(
            lambda pair: BruteField(f"{min(pair)}-{max(pair)}", set(range(min(pair), max(pair) + 1)))
        ),
    )


def _days(zone: ZoneInfo, begin: datetime, end: datetime) -> list[date]:
    first = begin.astimezone(zone).date() - timedelta(days=1)
    return [first + timedelta(days=number) for number in range((end - begin).days + 4)]


def brute_force(fields: list[BruteField], zone: ZoneInfo, begin: datetime, end: datetime) -> list[int]:
    """Every instant after `begin` up to `end`, by the rules of the documentation."""
    minute, hour, day, month, weekday = fields

    def is_day(each: date) -> bool:
        on_day, on_weekday = each.day in day.values, each.isoweekday() % 7 in weekday.values
        both = day.text.startswith("*") or weekday.text.startswith("*")
        return each.month in month.values and (on_day and on_weekday if both else on_day or on_weekday)

    found: set[datetime] = set()
    if minute.text.startswith("*") or hour.text.startswith("*"):
        instant = begin.replace(second=0)
        while instant <= end:
            local = instant.astimezone(zone)
            if is_day(local.date()) and local.hour in hour.values and local.minute in minute.values:
                found.add(instant)
            instant += timedelta(minutes=1)
    else:
        for each in filter(is_day, _days(zone, begin, end)):
            for at_hour in hour.values:
                for at_minute in minute.values:
                    local = datetime(each.year, each.month, each.day, at_hour, at_minute, tzinfo=zone)
                    while local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
                        local = (local.replace(tzinfo=None) + timedelta(minutes=1)).replace(tzinfo=zone)
                    found.add(local.astimezone(UTC))
    return [round(each.timestamp() * 1000) for each in sorted(found) if begin < each <= end]


ZONES = ("Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "UTC")
CHANGES = (
    "2027-03-14T07:00",
    "2027-11-07T06:00",
    "2027-03-28T01:00",
    "2027-10-31T01:00",
    "2027-04-03T15:00",
    "2027-10-02T15:30",
)


@settings(max_examples=60)
@given(
    fields=st.tuples(field(0, 59), field(0, 23), field(1, 31, 28), field(1, 12), field(0, 6)).map(list),
    zone=st.sampled_from(ZONES),
    change=st.sampled_from(CHANGES),
    before_h=st.integers(0, 40),
)
def test_the_instants_of_a_cron_expression_are_those_of_a_search_over_every_minute(
    fields: list[BruteField], zone: str, change: str, before_h: int
) -> None:
    begin = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(hours=before_h, minutes=before_h)
    end = begin + timedelta(hours=50)
    begin_ms, end_ms = round(begin.timestamp() * 1000), round(end.timestamp() * 1000)
    timing = CronTiming(" ".join(each.text for each in fields), ZoneInfo(zone))
    expected = brute_force(fields, ZoneInfo(zone), begin, end)
    found: list[int] = []
    for instant in timing.instants(begin_ms):
        if instant > end_ms:
            break
        found.append(instant)
    assert [utc_text(each) for each in found] == [utc_text(each) for each in expected]
    for instant, following in islice(
        pairwise(found), 0, None, max(1, len(found) // 50)
    ):  # a restart in between goes on with the same instant
        assert next(timing.instants(instant)) == next(timing.instants(following - 1)) == following


# --- due and missed ticks ---

TIMINGS = st.one_of(
    st.integers(10, 5000).map(lambda every: IntervalTiming(every * 1000, 0)),
    st.integers(1, 200_000).map(lambda at: OneInstant(at * 1000)),
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *"]).map(lambda cron: CronTiming(cron, UTC)),
)
RULES = st.builds(
    MissedRule,
    missed=st.sampled_from(["skip", "last", "all"]),
    limit=st.integers(1, 5),
    grace_ms=st.integers(1, 2000).map(lambda each: each * 1000),
)


@given(
    timing=TIMINGS,
    rule=RULES,
    settled_ms=st.integers(0, 100_000_000),
    passed_ms=st.integers(0, 30_000_000),
    jitter_s=st.integers(0, 300),
)
def test_each_due_tick_either_starts_or_is_skipped_as_the_rule_says(
    timing: Any, rule: MissedRule, settled_ms: int, passed_ms: int, jitter_s: int
) -> None:
    plan = Plan(timing=timing, since_ms=0, jitter_ms=jitter_s * 1000, key="w/s")
    now_ms = settled_ms + passed_ms
    expected: list[int] = []
    for instant in plan.instants(settled_ms):
        if plan.start_of(instant) > now_ms:
            following = instant
            break
        expected.append(instant)
    else:
        following = None
    late_ms = now_ms - rule.grace_ms - plan.jitter_ms
    missed = [each for each in expected if each < late_ms]
    kept = missed[len(missed) - min(rule.started, len(missed)) :]
    skipped = missed[: len(missed) - len(kept)]
    started = expected[len(skipped) :][:TICKS_OF_ROUND]

    due = due_ticks(plan, rule, settled_ms, now_ms)
    assert list(due.ticks) == started
    assert (due.skipped is None) == (not skipped)
    if due.skipped is not None:
        assert due.skipped.first_ms == skipped[0]
        assert due.skipped.count == min(len(skipped), COUNTED_TICKS)
        assert skipped[-1] < due.skipped.through_ms < min([*started, now_ms])
        assert due.skipped.through_ms % 1000 == 999  # never the instant of a tick
    if not due.any:
        assert due.wake_ms == (None if following is None else plan.start_of(following))


def test_the_jitter_of_a_tick_is_the_same_after_a_restart_and_differs_between_schedules() -> None:
    plans = [Plan(timing=OneInstant(0), since_ms=0, jitter_ms=60_000, key=key) for key in ("w/a", "w/a", "w/b")]
    delays = [[plan.start_of(each) - each for each in range(0, 10_000_000, 1_000_000)] for plan in plans]
    assert delays[0] == delays[1] != delays[2]
    assert all(0 <= delay <= 60_000 for delay in delays[0])
    assert len({*delays[0]}) > 5


@given(st.integers(0, 4_102_444_800_000), st.integers(0, 4_102_444_800_000))
def test_ids_of_ticks_sort_like_their_instants(one: int, other: int) -> None:
    assert (utc_text(one) < utc_text(other)) == (one < other)
    assert read_utc(utc_text(one)) == one


def test_a_long_downtime_of_a_frequent_schedule_is_decided_without_looking_at_every_tick() -> None:
    looks = 0

    class Counted(IntervalTiming):
        def instants(self, after_ms: int) -> Any:
            nonlocal looks
            for instant in super().instants(after_ms):
                looks += 1
                yield instant

    plan = Plan(timing=Counted(10_000, 0), since_ms=0)
    rule = MissedRule(missed="all", limit=100, grace_ms=60_000)
    due = due_ticks(plan, rule, 0, 30 * 24 * 3600 * 1000)
    assert len(due.ticks) == TICKS_OF_ROUND
    assert due.skipped is not None
    assert due.skipped.more
    assert looks < 2000
    assert local_text(next(islice(plan.instants(0), 0, None)), UTC) == "1970-01-01T00:00:10+00:00"
