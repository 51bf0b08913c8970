"""Pure rules: numbering of results, strikes, and the rate of log records."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.wire.flow_control import LogLimiter
from bollard.wire.host_run import ResultSequence
from bollard.wire.strikes import StrikeCounter

# --- ResultSequence ---


@pytest.mark.requirement("P05-15", "P05-16", "P05-17")
@for_each("length", [1, 2, 3, 4, 5])
def test_every_short_sequence_is_taken_at_most_once_in_order_and_not_after_the_end(length: int) -> None:
    for numbers in product(range(1, 6), repeat=length):
        for end in range(length + 1):  # the terminal result stands at this place, or nowhere
            sequence = ResultSequence()
            accepted: list[int] = []
            gaps: list[int] = []
            told_late: list[int] = []
            ended = False
            for place, number in enumerate(numbers):
                newest = accepted[-1] if accepted else 0
                verdict = sequence.judge(number, terminal=place == end)
                if number <= max([newest, *told_late]):
                    assert verdict == "duplicate"
                elif ended:
                    assert verdict == "late"
                    told_late.append(number)
                else:
                    assert verdict == ("next" if number == newest + 1 else "gap")
                    gaps += range(newest + 1, number)
                    accepted.append(number)
                    ended = place == end
                assert sequence.last == (accepted[-1] if accepted else 0)
                assert sequence.ended == ended
            assert accepted == sorted(set(accepted))
            assert sorted([*gaps, *accepted]) == list(range(1, sequence.last + 1))


@pytest.mark.requirement("P05-16", "P05-40")
def test_a_gap_of_more_numbers_than_the_window_is_refused_and_changes_nothing() -> None:
    sequence = ResultSequence(3)
    assert sequence.judge(4, terminal=False) == "gap"
    assert [sequence.judge(number, terminal=True) for number in (9, 2**53)] == ["jump", "jump"]
    assert (sequence.last, sequence.ended) == (4, False)
    assert sequence.judge(8, terminal=False) == "gap"
    assert sequence.judge(9, terminal=True) == "next"
    assert sequence.judge(2**53, terminal=False) == "late", "after the end every number is late"


# --- StrikeCounter ---


@pytest.mark.requirement("P11-42")
def test_the_third_strike_ends_only_its_run() -> None:
    book = StrikeCounter()
    ends = [book.against_run("a", "f", "d").ends for _ in range(3)]
    assert ends == ["nothing", "nothing", "run"]
    assert [book.against_run("b", "f", "d").ends for _ in range(2)] == ["nothing", "nothing"]
    assert book.against_connection("f", "d").count == 1


@pytest.mark.requirement("P11-43")
def test_the_third_strike_against_the_connection_ends_the_worker() -> None:
    book = StrikeCounter()
    strikes = [book.against_connection("f", "d") for _ in range(3)]
    assert [strike.ends for strike in strikes] == ["nothing", "nothing", "worker"]
    assert {strike.run_id for strike in strikes} == {None}


def test_strikes_of_a_run_are_forgotten_with_it() -> None:
    book = StrikeCounter()
    book.against_run("a", "f", "d")
    book.forget("a")
    book.forget("never seen")
    assert book.against_run("a", "f", "d").count == 1


# --- LogLimiter ---


def test_a_burst_passes_then_the_rate_applies_and_the_next_record_has_the_dropped_number() -> None:
    gate = LogLimiter(0.0, per_s=10, burst=5)
    assert [gate.admit(0.0) for _ in range(7)] == [0, 0, 0, 0, 0, None, None]
    assert gate.admit(0.1) == 2
    assert gate.admit(0.1) is None
    assert gate.admit(0.2) == 1
    assert [gate.admit(100.0) for _ in range(6)] == [0, 0, 0, 0, 0, None]


@settings(deadline=None)
@given(st.lists(st.floats(0, 3), max_size=200))
def test_no_interval_exceeds_burst_and_rate_and_every_drop_is_counted(pauses: list[float]) -> None:
    gate = LogLimiter(0.0, per_s=10, burst=5)
    now, admitted, told = 0.0, 0, 0
    for pause in pauses:
        now += pause
        dropped = gate.admit(now)
        if dropped is not None:
            admitted += 1
            told += dropped
    assert admitted <= 5 + 10 * now + 1
    last = gate.admit(now + 1000)
    assert last is not None
    assert admitted + told + last == len(pauses)
