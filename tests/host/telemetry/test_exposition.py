"""The text format of Prometheus: a parser that knows only the format reads the rendered text back."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from bollard.host.telemetry.counts import LATENCY_BOUNDS_S, Histogram, HttpCounts, JournalCounts, RunCounts
from bollard.host.telemetry.prometheus import Sample, counter, gauge, histogram, render

Parse = Callable[[str], dict[str, Any]]


def test_a_rendered_exposition_can_be_parsed(parse_metrics: Parse) -> None:
    awkward = 'a "quoted" \\ name\nwith two lines'
    text = render(
        [
            counter("b_total", "Counts.\nTwice.", Sample(3, {"plugin": awkward}), Sample(0)),
            gauge("b_age_seconds", "An age.", Sample(0.25)),
            gauge("b_nothing", "Nobody has any."),
        ]
    )
    found = parse_metrics(text)
    assert found["b_total"].kind == "counter"
    assert found["b_total"].samples == {("b_total", (("plugin", awkward),)): 3.0, ("b_total", ()): 0.0}
    assert found["b_age_seconds"].samples == {("b_age_seconds", ()): 0.25}
    assert found["b_nothing"].samples == {}


def test_the_parser_refuses_invalid_metrics(parse_metrics: Parse) -> None:
    for bad in ("a 1\n", "# TYPE a counter\na 1", "# HELP a x\n# TYPE a counter\na{b=c} 1\n", "# TYPE a b\n"):
        with pytest.raises(AssertionError):
            parse_metrics(bad)
    repeated = "# HELP a x\n# TYPE a gauge\na 1\na 2\n"
    with pytest.raises(AssertionError):
        parse_metrics(repeated)


def test_buckets_are_cumulative_and_their_bounds_inclusive(parse_metrics: Parse) -> None:
    counted = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        counted.observe(value)
    samples = parse_metrics(render([histogram("h", "A size.", counted)]))["h"].samples
    assert samples == {
        ("h_bucket", (("le", "1"),)): 2.0,
        ("h_bucket", (("le", "2"),)): 4.0,
        ("h_bucket", (("le", "+Inf"),)): 5.0,
        ("h_sum", ()): 14.0,
        ("h_count", ()): 5.0,
    }
    assert counted.count == 5


def test_an_observation_takes_less_than_two_microseconds() -> None:
    counted = Histogram(LATENCY_BOUNDS_S)
    best = 1.0
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(1000):
            counted.observe(0.003)
        best = min(best, (time.perf_counter() - started) / 1000)
    assert best < 2e-6, f"{best * 1e6:.2f} us"


def test_a_plugin_cannot_create_its_own_series() -> None:
    counts = RunCounts()
    for number in range(1000):
        counts.end("failed", f"my.code.{number}")
        counts.deny(f"my_code_{number}")
    counts.end("failed", "runner.error")
    counts.end("completed", None)
    assert counts.ended == {("failed", "other"): 1000, ("failed", "runner.error"): 1, ("completed", ""): 1}
    assert counts.denied == {"other": 1000}


def test_requests_are_counted_by_operation_and_class() -> None:
    counts = HttpCounts()
    for status in (200, 202, 404, 503):
        counts.of("createRun")[status // 100] += 1
    assert list(counts.all()) == [("createRun", "2xx", 2), ("createRun", "4xx", 1), ("createRun", "5xx", 1)]


def test_a_commit_is_counted_by_its_size_and_its_time() -> None:
    counts = JournalCounts()
    counts.committed(3, 0.002)
    assert (counts.batch.count, counts.batch.total) == (1, 3)
    assert (counts.flush.count, counts.flush.total) == (1, 0.002)
