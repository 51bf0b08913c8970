"""Clocks: times of records are whole milliseconds."""

from datetime import UTC, datetime

from tests.doubles.manual_clock import ManualClock

from bollard.host.clock import SystemClock


def test_a_manual_clock_moves_only_on_request() -> None:
    clock = ManualClock(now_ms=1000, monotonic=5.0)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 5.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 6.5)
    clock.jump(-2.0)
    assert (clock.now_ms(), clock.monotonic()) == (500, 6.5)


def test_the_system_clock_is_monotonic() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _ in range(100)]
    assert times == sorted(times)
    assert abs(clock.now_ms() - datetime.now(UTC).timestamp() * 1000) < 60_000
