"""F16: the second sink: its heads, and the behaviour of the host while it is down."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.audit.heads import HeadLine, UnreadableHead, head_line, read_heads_of
from bollard.host.audit.witness import Witness, WitnessThread
from bollard.host.audit.witness_sinks import WitnessFile
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.store.rows import HeadRow
from bollard.host.store.store import Store

PATIENCE_S = 120.0
Open = Callable[..., Journal]


class HeldSink:
    """A sink in memory that answers on demand."""

    def __init__(self) -> None:
        self.lines: list[HeadLine] = []
        self.holds = False
        self.error: OSError | None = None
        self.asked = 0
        self._held: list[tuple[bytes, Callable[[OSError | None], None]]] = []

    def put(self, lines: bytes, written: Callable[[OSError | None], None]) -> None:
        self.asked += 1
        if self.holds:
            self._held.append((lines, written))
        else:
            self._answer(lines, written)

    def release(self) -> None:
        self.holds = False
        for lines, written in self._held:
            self._answer(lines, written)
        self._held = []

    def close(self) -> None:
        pass

    def _answer(self, lines: bytes, written: Callable[[OSError | None], None]) -> None:
        if self.error is None:
            self.lines += read_heads_of(lines.splitlines(keepends=True))
        written(self.error)


def witness_of(
    sink: Any, journal: Journal, clock: ManualClock, hangs_s: float = 1.0, incarnation: str = "i1"
) -> Witness:
    return Witness(
        sink,
        journal,
        clock,
        incarnation=incarnation,
        workspace="default",
        place="a test",
        hangs_s=hangs_s,
        retry_s=0.01,
    )


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 -- a thread answers
            await asyncio.sleep(0.01)


def types_in(store: Store) -> list[str]:
    return [row.type for row in store.records(0, 1000)]


async def test_a_witness_gets_each_head_and_the_closed_one_at_the_end(
    store: Store, open_journal: Open, clock: ManualClock, scribe: Any, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere" / "heads.jsonl"
    journal = open_journal(store)
    witness = witness_of(WitnessThread(WitnessFile(path)), journal, clock, PATIENCE_S)
    witness.start(store)
    await journal.commit(Entry(records=[scribe.note()]))
    await until(lambda: witness.numbers.heads == 1)
    await journal.commit(Entry(records=[scribe.note(), scribe.note(workspace="other")]))
    await journal.close()
    await witness.close()
    with path.open("rb") as file:
        lines = list(read_heads_of(file))
    assert (lines[0].workspace, lines[0].position, lines[0].closed) == ("default", 1, False)
    closed = {(line.workspace, line.position) for line in lines if line.closed}
    assert closed == {("default", 2), ("other", 1)}
    assert {line.row() for line in lines} <= {*store.heads("default"), *store.heads("other")}
    assert path.stat().st_mode & 0o077 == 0


async def test_a_failing_witness_does_not_stop_the_log_and_gets_a_gap_record_later(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any
) -> None:
    sink, journal = HeldSink(), open_journal(memory_store)
    witness = witness_of(sink, journal, clock)
    witness.start(memory_store)
    sink.error = OSError(28, "No space left on device")
    await journal.commit(Entry(records=[scribe.note()]))
    await until(lambda: witness.numbers.down)
    assert "No space left" in witness.numbers.problem
    sink.holds, sink.error = True, None
    asked = sink.asked
    await until(lambda: "did not take" in witness.numbers.problem)
    clock.advance(3600)  # due heads are signed with the next commits, and only the newest of them waits
    await journal.commit(Entry(records=[scribe.note()]))
    clock.advance(3600)
    await journal.commit(Entry(records=[scribe.note()]))
    assert sink.asked == asked + 1, "nothing is put behind a write that hangs"
    assert "audit.gap" not in types_in(memory_store)
    sink.release()
    await until(lambda: not witness.numbers.down)
    gap = next(row for row in memory_store.records(0, 100) if row.type == "audit.gap")
    told = data_of(gap)
    assert told["sink"] == "witness"
    assert told["until_ms"] - told["from_ms"] >= 7_200_000
    assert told["heads_replaced"] >= 1
    assert sink.lines[-1].position == 3
    await journal.close()
    await witness.close()


async def test_a_pipe_without_a_reader_is_a_witness_that_is_down(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    journal = open_journal(memory_store)
    witness = witness_of(WitnessThread(WitnessFile(pipe)), journal, clock)
    witness.start(memory_store)
    await journal.commit(Entry(records=[scribe.note()]))
    await until(lambda: witness.numbers.down)
    for _ in range(20):
        await journal.commit(Entry(records=[scribe.note()]))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        await until(lambda: not witness.numbers.down)
        await until(lambda: "audit.gap" in types_in(memory_store))
        told = list(read_heads_of(os.read(reader, 1 << 16).splitlines(keepends=True)))
        assert told[0].position == 1
        await journal.close()
        await witness.close()
    finally:
        os.close(reader)


async def test_a_host_that_ends_does_not_wait_for_a_witness_that_hangs(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    journal = open_journal(memory_store)
    witness = witness_of(WitnessThread(WitnessFile(pipe)), journal, clock)
    witness.start(memory_store)
    await journal.commit(Entry(records=[scribe.note()]))
    await until(lambda: witness.numbers.down)
    await journal.close()
    async with asyncio.timeout(PATIENCE_S):
        await witness.close()
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # let the thread go


async def test_heads_that_a_killed_host_did_not_send_are_sent_at_the_next_start(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any
) -> None:
    journal = open_journal(memory_store, "first")
    for _ in range(3):
        await journal.commit(Entry(records=[scribe.note()]))  # and its witness never heard of it
    sink, second = HeldSink(), open_journal(memory_store, "second")
    witness = witness_of(sink, second, clock, incarnation="second")
    witness.start(memory_store)
    await until(lambda: any(line.position == 3 for line in sink.lines))
    await second.commit(Entry(records=[scribe.note()]))
    await second.close()
    await witness.close()
    told = {(line.chain, line.position) for line in sink.lines if line.closed}
    assert told == {("second", 1)}, "how the first one ended is not known"


async def test_heads_are_sent_even_if_the_clock_was_set_back_since(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any
) -> None:
    first = open_journal(memory_store, "first")
    for _ in range(3):
        await first.commit(Entry(records=[scribe.note()]))
    await first.close()
    clock.jump(-3600)
    sink, second = HeldSink(), open_journal(memory_store, "second")
    witness = witness_of(sink, second, clock, incarnation="second")
    witness.start(memory_store)
    await until(lambda: any((line.chain, line.position) == ("first", 3) for line in sink.lines))
    await second.close()
    await witness.close()


def test_an_invalid_line_is_named_and_a_truncated_line_is_skipped() -> None:
    row = HeadRow(
        workspace="w", chain="c", position=3, hash="0" * 64, created_ms=1, key_id="k" * 16, signature=b"\0" * 64
    )
    good = head_line(row)
    assert [line.position for line in read_heads_of([good, b"\n", good, good[:-10]])] == [3, 3]
    cuts = [good[:size] + b"\n" for size in range(len(good) - 1)]
    assert [line.position for line in read_heads_of([*cuts, good])] == [3]
    bad = [b"{}\n", b"no\n", good.replace(b'"position":3', b'"position":0'), good.replace(b"0000", b"00", 1)]
    for line in (*bad, msgspec.json.encode({**msgspec.json.decode(good), "signature": "no hex"}) + b"\n"):
        with pytest.raises(UnreadableHead) as caught:
            list(read_heads_of([good, line]))
        assert caught.value.line == 2
