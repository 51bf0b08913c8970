"""Restart delays and the quarantine of a plugin."""

import pytest

from bollard.host.limits import WORKER_CRASH_WINDOW_S, WORKER_CRASHES
from bollard.host.reason import Why
from bollard.host.workers.pool import CrashHistory


def test_each_crash_doubles_the_wait_until_the_plugin_is_quarantined() -> None:
    book = CrashHistory(0.5)
    waits = [book.crashed(100.0 + number, Why("exit 1")) for number in range(WORKER_CRASHES)]
    assert waits == [0.5, 1.0, 2.0, 4.0, None]
    assert book.quarantined is not None
    assert book.quarantined.sentence == "5 crashes within 60 s, last: exit 1"
    assert book.quarantined.details == {
        "problem_type": "worker.crashes",
        "crashes": 5,
        "seconds": "60",
        "inner": {"problem": "exit 1"},
    }


def test_crashes_outside_the_window_are_forgotten() -> None:
    book = CrashHistory(0.5)
    for number in range(20):
        assert book.crashed(number * (WORKER_CRASH_WINDOW_S / 3), Why("exit 1")) is not None
    assert book.quarantined is None


@pytest.mark.parametrize("edge", [0.0, 0.001])
def test_a_crash_at_the_edge_of_the_window_still_counts(edge: float) -> None:
    book = CrashHistory()
    for _ in range(WORKER_CRASHES - 1):
        book.crashed(0.0, Why("exit 1"))
    assert (book.crashed(WORKER_CRASH_WINDOW_S + edge, Why("exit 1")) is None) is (edge == 0.0)


def test_a_quarantine_does_not_expire() -> None:
    book = CrashHistory(0.5)
    for _ in range(WORKER_CRASHES):
        book.crashed(0.0, Why("exit 1"))
    why = book.quarantined
    assert book.crashed(10 * WORKER_CRASH_WINDOW_S, Why("exit 2")) is None
    assert book.quarantined == why is not None


def test_a_pardon_resets_the_crashes() -> None:
    book = CrashHistory(0.5)
    for _ in range(WORKER_CRASHES):
        book.crashed(0.0, Why("exit 1"))
    book.pardon()
    assert book.quarantined is None
    assert book.crashed(1.0, Why("exit 1")) == 0.5
