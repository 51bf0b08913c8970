"""The output of a worker: lines, rate limits, and back-pressure on the pipe."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from typing import Any

import pytest

from bollard.wire.flow_control import OutputLimiter
from bollard.wire.limits import (
    OUTPUT_BURST_BYTES,
    OUTPUT_BURST_LINES,
    OUTPUT_BYTES_PER_S,
    OUTPUT_DROPPED_S,
    OUTPUT_LAST_LINES,
    OUTPUT_LINE_BYTES,
    OUTPUT_READ_BYTES,
)
from bollard.wire.process import LineSplitter, PipeReader


class Told:
    """The lines of one pipe, on a clock that a test moves."""

    def __init__(self, **gate: Any) -> None:
        self.now = 100.0
        self.heard: list[str] = []
        self.gate = OutputLimiter(self.now, **gate)
        self.lines = LineSplitter("stderr", lambda name, line: self.heard.append(line), self.gate, lambda: self.now)

    @property
    def dropped(self) -> list[int]:
        """The reported numbers, in order."""
        return [int(line[1:].split()[0]) for line in self.heard if "lines were dropped" in line]


def numbered(first: int, count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, first + count))


def test_lines_beyond_the_rate_are_dropped_and_counted() -> None:
    told = Told(lines_per_s=10, burst_lines=5)
    told.lines.feed(numbered(0, 1000))
    assert told.heard == ["0", "1", "2", "3", "4"]
    told.now += 0.2
    told.lines.feed(numbered(1000, 3))
    assert told.heard[5:] == ["[995 lines were dropped: the plugin prints too fast]", "1000", "1001"]
    told.now += OUTPUT_DROPPED_S / 10
    told.lines.feed(numbered(1003, 1))
    assert told.heard[8:] == ["1003"], "not at every line"
    told.now += OUTPUT_DROPPED_S
    told.lines.feed(numbered(1004, 1))
    assert told.dropped == [995, 1]


def test_every_line_is_reported_or_counted_in_pieces_of_any_size() -> None:
    whole = numbered(0, 500) + b"the last"
    for size in (1, 3, 7, 64, 4096):
        told = Told(lines_per_s=10, burst_lines=20)
        for start in range(0, len(whole), size):
            told.lines.feed(whole[start : start + size])
            told.now += 0.001
        told.lines.end()
        last = told.heard[-OUTPUT_LAST_LINES:]
        assert last == ["498", "499", "the last"], "the end of the output says why a worker ended"
        said = len(told.heard) - len(told.dropped) - OUTPUT_LAST_LINES
        assert said + sum(told.dropped) == 501


def test_a_long_line_is_truncated_at_its_limit_and_not_at_its_end() -> None:
    told = Told()
    told.lines.feed(b"x" * (OUTPUT_LINE_BYTES + 1))
    assert told.heard == ["x" * OUTPUT_LINE_BYTES + " […cut]"]
    told.lines.feed(b"more of it\nshort\n")
    assert told.heard[1:] == ["short"]


def test_a_long_line_among_dropped_ones_is_truncated_as_well() -> None:
    told = Told(burst_lines=1)
    told.lines.feed(b"first\nsecond\n" + b"x" * (OUTPUT_LINE_BYTES + 1) + b"\n")
    told.lines.end()
    assert told.heard == [
        "first",
        "[2 lines were dropped: the plugin prints too fast]",
        "second",
        "x" * OUTPUT_LINE_BYTES + " […cut]",
    ]


def test_bytes_beyond_the_rate_are_delayed() -> None:
    gate = OutputLimiter(0.0, bytes_per_s=1000, burst_bytes=5000)
    assert gate.read(5000, 0.0) == 0
    assert gate.read(500, 0.0) == 0.5
    assert gate.read(0, 0.5) == 0
    assert gate.read(5001, 100.0) == pytest.approx(0.001), "rest is not saved beyond the burst"


def test_the_limits_of_output_are_consistent() -> None:
    assert OUTPUT_READ_BYTES <= OUTPUT_BYTES_PER_S <= OUTPUT_BURST_BYTES
    assert OUTPUT_BURST_LINES > OUTPUT_LAST_LINES


@pytest.fixture
def pipe_ends() -> Iterator[tuple[Any, Any]]:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with os.fdopen(ours, "rb", buffering=0) as reading, os.fdopen(theirs, "wb", buffering=0) as writing:
        yield reading, writing


async def test_a_program_that_prints_too_much_waits_and_the_loop_does_not(pipe_ends: tuple[Any, Any]) -> None:
    reading, writing = pipe_ends
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    gate = OutputLimiter(loop.time(), bytes_per_s=0.001, burst_bytes=OUTPUT_READ_BYTES)
    pipe = PipeReader(reading, LineSplitter("stdout", lambda name, line: heard.append(line), gate, loop.time), gate)
    printed = full = 0
    while full < 10 and printed < OUTPUT_BURST_BYTES:  # ten turns in which it takes nothing
        written = writing.write(b"y\n" * 4096)
        printed, full = printed + (written or 0), 0 if written else full + 1
        await asyncio.sleep(0)
    assert OUTPUT_READ_BYTES < printed <= 2 * OUTPUT_READ_BYTES + fcntl.fcntl(writing.fileno(), fcntl.F_GETPIPE_SZ)
    assert len(heard) == OUTPUT_BURST_LINES
    pipe.close()
    assert heard[OUTPUT_BURST_LINES].startswith("[")
    assert pipe.closed.done()
