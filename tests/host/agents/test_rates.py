"""Token buckets against a naive model in fractions, and eviction when there are too many keys."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollard.host.agents.rates import Rates
from bollard.host.errors import InvalidRequest
from bollard.protocol.limits import CALLS_BURST, CALLS_PER_S


class NaiveBucket:
    """Counts tokens, exactly."""

    def __init__(self, per_minute: int, burst: int) -> None:
        self.per_second = Fraction(per_minute, 60)
        self.burst = burst
        self.level = Fraction(burst)
        self.at = Fraction(0)

    def take(self, now: Fraction) -> bool:
        self.level = min(Fraction(self.burst), self.level + (now - self.at) * self.per_second)
        self.at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True


# Rates whose token takes a whole number of microseconds, and times that floats hold exactly.
@given(
    per_minute=st.sampled_from([1, 6, 60, 600, 12_000]),
    burst=st.integers(1, 6),
    takes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=60),
    start=st.integers(0, 10**6),
)
def test_every_key_has_its_own_bucket(per_minute: int, burst: int, takes: list[tuple[str, int]], start: int) -> None:
    rates = Rates[str](per_minute, burst)
    naive = {key: NaiveBucket(per_minute, burst) for key in "abc"}
    quarters = start * 4
    for key, step in takes:
        quarters += step
        allowed = rates.take(key, quarters / 4) is None
        assert allowed == naive[key].take(Fraction(quarters, 4))


@given(per_minute=st.integers(1, 1_000_000), burst=st.integers(1, 20), now=st.floats(0, 1e7))
def test_a_retry_at_the_announced_time_passes_and_a_much_earlier_one_does_not(
    per_minute: int, burst: int, now: float
) -> None:
    rates = Rates[str](per_minute, burst)
    for _ in range(burst):
        assert rates.take("a", now) is None
    wait_s = rates.take("a", now)
    assert wait_s is not None
    assert 0 < wait_s <= 60 / per_minute + 3e-6
    if wait_s > 1e-3:
        assert rates.take("a", now + wait_s * 0.9) is not None
    assert rates.take("a", now + wait_s) is None


def test_a_refusal_takes_no_token() -> None:
    rates = Rates[str](60, 1)
    assert rates.take("a", 10.0) is None
    for _ in range(100):
        assert rates.take("a", 10.5) is not None
    assert rates.take("a", 11.0) is None


def test_a_long_rest_fills_the_bucket_up_to_its_burst() -> None:
    rates = Rates[str](60, 3)
    rates.take("a", 0.0)
    assert [rates.take("a", 1e6) is None for _ in range(5)] == [True, True, True, False, False]


def test_a_rate_is_rounded_down_to_microseconds() -> None:
    rates = Rates[str](700_000, 1)  # a token takes 85.7 microseconds
    assert rates.take("a", 0.0) is None
    assert rates.take("a", 85.5e-6) is not None
    assert rates.take("a", 86.5e-6) is None


@pytest.mark.requirement("P06-11")
def test_the_api_calls_of_a_run_have_their_rate_and_burst() -> None:
    rates = Rates[str](CALLS_PER_S * 60, CALLS_BURST)
    now = 123_456.789
    assert all(rates.take("run", now) is None for _ in range(CALLS_BURST))
    assert rates.take("run", now) is not None
    steady = sum(rates.take("run", now + tick / 1000) is None for tick in range(1, 10_001))
    assert steady == 10 * CALLS_PER_S


def test_a_clock_that_stands_or_runs_back_adds_no_token() -> None:
    rates = Rates[str](60, 1)
    assert rates.take("a", 100.0) is None
    assert rates.take("a", 100.0) is not None
    assert rates.take("a", 10.0) is not None


# --- how many keys ---


def test_full_buckets_are_forgotten_first() -> None:
    rates = Rates[str](60, 2, keys=2)
    rates.take("spent", 0.0)
    rates.take("spent", 0.0)
    rates.take("rested", 0.0)
    assert rates.take("new", 1.0) is None  # by now `rested` is full and `spent` is not
    assert len(rates) == 2
    assert rates.take("spent", 1.0) is None
    assert rates.take("spent", 1.0) is not None


def test_without_a_full_bucket_the_fullest_bucket_is_forgotten() -> None:
    rates = Rates[str](1, 3, keys=2)
    for _ in range(3):
        rates.take("greedy", 0.0)
    rates.take("modest", 0.0)
    rates.take("new", 0.0)
    assert len(rates) == 2
    assert rates.take("greedy", 0.0) is not None


def test_a_forgotten_key_has_a_full_bucket_again() -> None:
    rates = Rates[str](1, 3, keys=1)
    for _ in range(3):
        rates.take("a", 0.0)
    assert rates.take("b", 0.0) is None
    assert [rates.take("a", 0.0) is None for _ in range(5)] == [True, True, True, False, False]


def test_a_refusal_evicts_no_bucket() -> None:
    rates = Rates[str](1, 1, keys=2)
    rates.take("a", 0.0)
    rates.take("b", 0.0)
    for _ in range(10):
        assert rates.take("a", 0.0) is not None
        assert rates.take("b", 0.0) is not None
    assert len(rates) == 2


def test_new_keys_evict_more_buckets_than_they_add() -> None:
    rates = Rates[int](60, 1, keys=1000)
    for key in range(1000):
        rates.take(key, 0.0)
    for key in range(2000, 2600):
        rates.take(key, 10.0 + key)
    assert len(rates) < 450


@given(takes=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=200), keys=st.integers(1, 6))
def test_the_rate_table_is_bounded_and_every_refusal_is_correct_with_many_keys(
    takes: list[tuple[int, int]], keys: int
) -> None:
    rates = Rates[int](60, 3, keys=keys)
    full_at: dict[int, int] = {}  # a token is a second, so a bucket of three with two seconds missing has one left
    now = 0
    for key, step in takes:
        now += step
        allowed = key not in full_at or full_at[key] - now <= 2
        assert (rates.take(key, float(now)) is None) == allowed
        if not allowed:
            continue
        for _ in range(0 if key in full_at else 2):
            nearest = min(full_at, key=lambda name: full_at[name], default=None)
            if nearest is not None and (full_at[nearest] <= now or len(full_at) >= keys):
                del full_at[nearest]
        full_at[key] = max(now, full_at.get(key, now)) + 1
        assert len(rates) == len(full_at) <= keys


@pytest.mark.parametrize(
    ("limit", "burst", "keys", "field"),
    [(0, 1, 1, "limit_per_minute"), (-1, 1, 1, "limit_per_minute"), (1, 0, 1, "burst"), (1, 1, 0, "keys")],
)
def test_a_rate_below_one_is_refused(limit: int, burst: int, keys: int, field: str) -> None:
    with pytest.raises(InvalidRequest, match=field) as caught:
        Rates[str](limit, burst, keys=keys)
    assert caught.value.details["field"] == field
    assert caught.value.hint
