"""The stream of a run from any cursor: exactly the records after it, or one gap that names the missing ones."""

import asyncio
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.tables import for_each

from bollard.host.errors import InvalidRequest, StorageUnavailable
from bollard.host.limits import REPLAY_PAGE, STREAM_PAGE_BYTES, SUBSCRIBER_FRAMES
from bollard.host.log.entries import Entry
from bollard.host.runs.hub import Hub, StreamRecord, delta_records, delta_records_from_row, stream_records
from bollard.host.runs.stream import RunReader, StreamPosition, parse_place
from bollard.host.store.delta_spans import extent_of, merge, pieces
from bollard.host.store.queries import Lease
from bollard.host.store.rows import DeltaRow


class Tail:
    """A live run as a reader sees it: the shown and uncommitted records."""

    def __init__(self, shown: list[StreamRecord]) -> None:
        self.shown = shown

    def uncommitted(self) -> list[StreamRecord]:
        return self.shown


class Ledger:
    """A run's life, written to a store as far as it got."""

    def __init__(self, scribe: Any, journal: Any, store: MemoryStore) -> None:
        self.scribe = scribe
        self.journal = journal
        self.store = store
        self.facts = scribe.facts()
        self.hub = Hub()
        self.epoch = 1
        self.seq = 2
        self.records: list[StreamRecord] = []
        self.lost: list[StreamRecord] = []

    async def begin(self) -> None:
        entry = self.scribe.first(self.facts)
        await self.journal.commit(entry)
        self.records = stream_records(entry.records[1:])

    def make(self, kinds: str) -> tuple[Entry, list[StreamRecord]]:
        """`r` is a record, `d` a delta; deltas side by side share a row."""
        records, rows, shown, at = [], [], list[StreamRecord](), 0
        while at < len(kinds):
            run = at
            while run < len(kinds) and kinds[run] == "d":
                run += 1
            if run > at:
                row = self.scribe.deltas(self.facts, self.seq + 1, [f"{n} " for n in range(run - at)], epoch=self.epoch)
                rows.append(row)
                shown.extend(delta_records_from_row(row, 0))
                self.seq, at = row.last_seq, run
            else:
                self.seq += 1
                kind = "run.ended" if kinds[at] == "e" else "tool.call.started"
                data = {"status": "completed"} if kinds[at] == "e" else {"n": self.seq}
                record = self.scribe.record(self.facts, kind, data, self.seq, epoch=self.epoch)
                records.append(record)
                shown.extend(stream_records([record]))
                at += 1
        ended = "e" in kinds
        entry = Entry(
            records=records,
            deltas=rows,
            fence=(self.facts.run_id, self.epoch),
            merge=self.folded(rows) if ended else [],
        )
        return entry, shown

    def folded(self, rows: list[DeltaRow]) -> list[tuple[str, int, int]]:
        run_id = self.facts.run_id
        stored = self.store.deltas_of_run(run_id, 0)
        return [(run_id, *piece) for piece in pieces(map(extent_of, [*stored, *rows]))]

    async def write(self, kinds: str) -> None:
        entry, shown = self.make(kinds)
        await self.journal.commit(entry)
        self.records.extend(shown)

    async def lose(self, kinds: str) -> None:
        """Some records are shown and never written; the next epoch continues after the written ones."""
        before = self.seq
        _, self.lost = self.make(kinds)
        self.seq = before
        self.epoch += 1
        lease = Lease(owner="i2", epoch=self.epoch, until_ms=2_000_000_000_000)
        await self.journal.commit(Entry(lease=(self.facts.run_id, lease)))

    def reader(self, tail: list[StreamRecord] | None = None) -> RunReader:
        live: Any = {} if tail is None else {self.facts.run_id: Tail(tail)}
        return RunReader(self.store, self.hub, live)

    async def read(self, after: StreamPosition | None, tail: list[StreamRecord] | None = None) -> list[StreamRecord]:
        async with asyncio.timeout(120):
            return [record async for batch in self.reader(tail).read("run_1", after) for record in batch]


@pytest.fixture
def ledgers(open_journal: Any, scribe: Any) -> Any:
    async def make() -> Ledger:
        store = MemoryStore(ManualClock())
        ledger = Ledger(scribe, open_journal(store), store)
        await ledger.begin()
        return ledger

    return make


lives = st.lists(st.text(alphabet="rd", min_size=1, max_size=6), max_size=5)


@given(first=lives, lost=st.text(alphabet="rd", max_size=5), second=lives, seed=st.integers(0, 1000))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
async def test_any_cursor_gives_the_suffix_or_one_gap(
    ledgers: Any, first: list[str], lost: str, second: list[str], seed: int
) -> None:
    ledger = await ledgers()
    for kinds in first:
        await ledger.write(kinds)
    committed = ledger.seq
    await ledger.lose(lost)
    for kinds in second:
        await ledger.write(kinds)
    await ledger.write("e")
    whole = ledger.records
    assert await ledger.read(None) == whole
    # Every cursor that a reader can hold: each record it was shown, of either epoch.
    for record in [*whole, *ledger.lost]:
        got = await ledger.read(StreamPosition(record.epoch, record.seq))
        if record.epoch == 1 and record.seq > committed:
            gap, *rest = got
            said = json.loads(gap.json)
            assert (gap.type, said["data"]) == (
                "gap",
                {"first": committed + 1, "last": record.seq, "reason": "uncommitted"},
            )
            assert rest == [later for later in whole if later.seq > committed]
        else:
            assert got == [later for later in whole if later.seq > record.seq]
    # A reader that is cut anywhere, any number of times, ends up with the whole.
    chance, collected = random.Random(seed), list[StreamRecord]()
    while not collected or collected[-1].type != "run.ended":
        place = StreamPosition(collected[-1].epoch, collected[-1].seq) if collected else None
        rest = await ledger.read(place)
        collected.extend(rest[: chance.randint(1, len(rest))])
    assert collected == whole


@given(written=lives, shown=st.text(alphabet="d", max_size=6), later=st.text(alphabet="rd", max_size=6))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
async def test_a_reader_joins_committed_shown_and_new_records(
    ledgers: Any, written: list[str], shown: str, later: str
) -> None:
    ledger = await ledgers()
    for kinds in written:
        await ledger.write(kinds)
    entry, tail = ledger.make(shown)
    batches = ledger.reader(tail).read("run_1", None)
    got: list[StreamRecord] = list(await anext(batches))
    # The tail reaches the disk while the reader reads, and more is published.
    await ledger.journal.commit(entry)
    more, stream = ledger.make(later + "e")
    await ledger.journal.commit(more)
    ledger.hub.publish("run_1", tail)  # what a reader has already must not come twice
    ledger.hub.publish("run_1", stream)
    ledger.hub.end("run_1")
    async with asyncio.timeout(120):
        got.extend([record async for batch in batches for record in batch])
    assert got == [*ledger.records, *tail, *stream]


async def test_a_stream_of_several_pages_has_no_hole(ledgers: Any) -> None:
    ledger = await ledgers()
    for _ in range(3):
        await ledger.write("rdd" * (REPLAY_PAGE // 3 + 7))
    await ledger.write("e")
    assert await ledger.read(None) == ledger.records
    middle = ledger.records[REPLAY_PAGE + 3]
    assert await ledger.read(StreamPosition(1, middle.seq)) == ledger.records[REPLAY_PAGE + 4 :]


async def test_deltas_dropped_by_retention_leave_one_named_gap(ledgers: Any) -> None:
    ledger = await ledgers()
    await ledger.write("rdddr")
    await ledger.write("e")
    with ledger.store.write() as transaction:
        assert transaction.drop_deltas(2_000_000_000_000, 10) == 1
    got = await ledger.read(None)
    assert [record.type for record in got] == [
        "run.created",
        "grant.issued",
        "tool.call.started",
        "gap",
        "tool.call.started",
        "run.ended",
    ]
    assert json.loads(got[3].json)["data"] == {"first": 4, "last": 6, "reason": "retention"}
    inside = await ledger.read(StreamPosition(1, 5))
    assert json.loads(inside[0].json)["data"] == {"first": 6, "last": 6, "reason": "retention"}


async def test_a_cursor_of_a_lost_owner_within_dropped_deltas_gets_a_retention_gap(ledgers: Any) -> None:
    ledger = await ledgers()
    await ledger.write("dddd")
    await ledger.lose("dd")
    await ledger.write("re")
    with ledger.store.write() as transaction:
        assert transaction.drop_deltas(2_000_000_000_000, 10) == 1
    kept, *rest = await ledger.read(StreamPosition(1, 5))
    assert json.loads(kept.json)["data"] == {"first": 6, "last": 6, "reason": "retention"}
    assert [record.seq for record in rest] == [7, 8]
    void, *rest = await ledger.read(StreamPosition(1, 8))
    assert json.loads(void.json)["data"] == {"first": 7, "last": 8, "reason": "uncommitted"}
    assert [record.seq for record in rest] == [7, 8]


@pytest.mark.parametrize("shown", ["", "dd"])
async def test_a_cursor_beyond_the_end_of_a_live_run_gets_a_gap_and_then_new_records(ledgers: Any, shown: str) -> None:
    ledger = await ledgers()
    await ledger.write("rd")
    entry, tail = ledger.make(shown)
    newest = ledger.seq
    batches = ledger.reader(tail).read("run_1", StreamPosition(1, 1000))
    async with asyncio.timeout(120):
        (gap,) = await anext(batches)
    assert json.loads(gap.json)["data"] == {"first": newest + 1, "last": 1000, "reason": "unknown"}
    await ledger.journal.commit(entry)
    held = ledger.reader(tail).read("run_1", StreamPosition(1, newest))  # one that has everything
    pending = [asyncio.ensure_future(anext(each)) for each in (batches, held)]
    more, stream = ledger.make("re")
    async with asyncio.timeout(120):
        while ledger.hub.readers < 2:  # noqa: ASYNC110 -- the readers look into the store first, in a thread
            await asyncio.sleep(0)
        ledger.hub.publish("run_1", stream)
        assert await asyncio.gather(*pending) == [stream, stream]
        await ledger.journal.commit(more)
        assert [batch async for batch in batches] == []
    await held.aclose()


async def test_a_first_batch_lingers_until_the_runner_has_results(ledgers: Any) -> None:
    ledger = await ledgers()
    _, said = ledger.make("dd")
    speaking, silent = ledger.hub.subscribe("run_1"), ledger.hub.subscribe("run_1")
    batches = [RunReader.follow("run_1", each, 0, gather_s=3600.0) for each in (speaking, silent)]
    async with asyncio.timeout(120):
        speaking.offer([*ledger.records, *said])
        assert await anext(batches[0]) == [*ledger.records, *said]
        silent.offer(ledger.records)
        waiting = asyncio.ensure_future(anext(batches[1]))
        for _ in range(9):  # it takes the existing records
            await asyncio.sleep(0)
        assert not waiting.done()
        silent.offer(said)
        assert await waiting == [*ledger.records, *said]
    for each in batches:
        await each.aclose()


async def test_deltas_are_read_in_pages_of_limited_size(ledgers: Any) -> None:
    ledger = await ledgers()
    for number in range(40):
        await ledger.write("d" * 2000 + ("r" if number % 3 else ""))
    pages: list[int] = []
    whole = ledger.store.deltas_page

    def counted(*args: Any) -> Any:
        rows = whole(*args)
        pages.append(sum(len(row.spans) + len(row.body) for row in rows))
        return rows

    ledger.store.deltas_page = counted
    entry, shown = ledger.make("e")
    await ledger.journal.commit(msgspec.structs.replace(entry, merge=[]))
    assert await ledger.read(None) == [*ledger.records, *shown]
    largest = max(len(row.spans) + len(row.body) for row in ledger.store.deltas_of_run("run_1", 0))
    assert max(pages) < STREAM_PAGE_BYTES + largest < sum(pages)


async def test_a_large_row_of_an_earlier_version_is_returned_in_small_batches(ledgers: Any) -> None:
    ledger = await ledgers()
    rows = [ledger.scribe.deltas(ledger.facts, 3 + 6000 * number, [f"{n} " for n in range(6000)]) for number in (0, 1)]
    await ledger.journal.commit(Entry(deltas=[merge(rows)], fence=("run_1", 1)))
    ledger.seq = rows[-1].last_seq
    entry, shown = ledger.make("re")
    await ledger.journal.commit(msgspec.structs.replace(entry, merge=[]))
    deltas = [record for row in rows for record in delta_records_from_row(row, 0)]
    reader = RunReader(ledger.store, ledger.hub, {})
    batches = [batch async for batch in reader.read("run_1", None)]
    assert [record for batch in batches for record in batch] == [*ledger.records, *deltas, *shown]
    assert len(batches) > 5
    assert max(sum(len(record.json) for record in batch) for batch in batches) < 10 * STREAM_PAGE_BYTES


async def test_an_unreadable_store_ends_a_stream_with_a_gap(ledgers: Any) -> None:
    ledger = await ledgers()
    await ledger.write("ddd")
    await ledger.write("r" * 600 + "e")
    whole, looks = ledger.store.records_of_run, list[int]()

    def failing(*args: Any) -> Any:
        looks.append(1)
        if len(looks) > 1:
            raise StorageUnavailable("the disk is away", reason="test", hint="wait")
        return whole(*args)

    ledger.store.records_of_run = failing
    got = await ledger.read(None)
    assert [record.seq for record in got[:-1]] == list(range(1, len(got)))
    assert (got[-1].type, json.loads(got[-1].json)["data"]) == (
        "gap",
        {"first": len(got), "last": None, "reason": "unavailable"},
    )


async def test_a_reader_of_a_long_run_gets_a_closing_gap_when_the_host_stops(ledgers: Any) -> None:
    ledger = await ledgers()
    await ledger.write("r" * (REPLAY_PAGE * 3) + "e")
    batches = ledger.reader().read("run_1", None)
    seen = await anext(batches)
    ledger.hub.close()
    rest = [record async for batch in batches for record in batch]
    assert [record.type for record in rest] == ["gap"]
    assert json.loads(rest[0].json)["data"] == {"first": seen[-1].seq + 1, "last": None, "reason": "closing"}
    behind = StreamPosition(1, ledger.seq - 2)
    assert await ledger.read(behind) == ledger.records[-2:], "what is left is one page"


async def test_records_are_read_in_pages_of_limited_size(ledgers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = await ledgers()
    for number in range(40):
        await ledger.write("rd" + ("r" if number % 3 else ""))
    whole, pages = ledger.store.records_of_run, list[int]()

    def counted(*args: Any) -> Any:
        rows = whole(*args)
        pages.append(len(rows))
        return rows

    ledger.store.records_of_run = counted
    monkeypatch.setattr("bollard.host.runs.stream.STREAM_PAGE_BYTES", 100)
    entry, shown = ledger.make("e")
    await ledger.journal.commit(msgspec.structs.replace(entry, merge=[]))
    assert await ledger.read(None) == [*ledger.records, *shown]
    assert 1 <= max(pages) < 20, "each is a small part of the whole"


async def test_a_record_with_dropped_data_is_still_listed_and_marked(ledgers: Any) -> None:
    ledger = await ledgers()
    await ledger.write("re")
    with ledger.store.write() as transaction:
        transaction.drop_data(["tool.call.started"], 2_000_000_000_000, 10)
    got = await ledger.read(None)
    assert [record.seq for record in got] == [1, 2, 3, 4]
    dropped = json.loads(got[2].json)
    assert (dropped["data"], dropped["metadata"]) == ({}, {"data_dropped": True})


async def test_a_slow_reader_is_cut_and_resumes_at_its_position(ledgers: Any) -> None:
    ledger = await ledgers()
    batches = ledger.reader([]).read("run_1", None)
    got = list(await anext(batches))
    pending = asyncio.ensure_future(anext(batches))
    entry, shown = ledger.make("d")
    ledger.hub.publish("run_1", shown)
    got.extend(await pending)  # not on disk: it follows from here on
    await ledger.journal.commit(entry)
    ledger.records.extend(shown)
    pending = asyncio.ensure_future(anext(batches))
    for _ in range(SUBSCRIBER_FRAMES // 500 + 2):
        entry, shown = ledger.make("d" * 500)
        await ledger.journal.commit(entry)
        ledger.records.extend(shown)
    await ledger.write("e")
    published = ledger.records[len(got) :]
    ledger.hub.publish("run_1", published)
    ledger.hub.end("run_1")
    got.extend(await pending)
    got.extend([record async for batch in batches for record in batch])
    *seen, gap = got
    assert gap.type == "gap"
    assert json.loads(gap.json)["data"] == {"first": seen[-1].seq + 1, "last": None, "reason": "behind"}
    assert seen == ledger.records[: len(seen)]
    assert [*seen, *await ledger.read(StreamPosition(1, seen[-1].seq))] == ledger.records
    assert ledger.hub.readers == 0


async def test_a_reader_of_unwritten_records_resumes_and_gets_the_written_ones(ledgers: Any) -> None:
    ledger = await ledgers()
    batches = ledger.reader([]).read("run_1", None)
    got = list(await anext(batches))
    pending = asyncio.ensure_future(anext(batches))
    await asyncio.to_thread(lambda: None)
    await ledger.lose("ddd")
    ledger.hub.publish("run_1", ledger.lost)
    got.extend(await pending)
    await ledger.write("re")
    ledger.hub.publish("run_1", ledger.records[2:])
    ledger.hub.end("run_1")
    async with asyncio.timeout(120):
        [cut] = [record async for batch in batches for record in batch]
    assert json.loads(cut.json)["data"] == {"first": 6, "last": None, "reason": "behind"}
    assert got == [*ledger.records[:2], *ledger.lost]
    gap, *rest = await ledger.read(StreamPosition(1, 5))
    assert json.loads(gap.json)["data"] == {"first": 3, "last": 5, "reason": "uncommitted"}
    assert rest == ledger.records[2:]


async def test_a_run_that_ends_between_two_reads_is_read_to_its_end(ledgers: Any) -> None:
    ledger = await ledgers()
    batches = ledger.reader().read("run_1", None)
    got = list(await anext(batches))
    await ledger.write("rde")  # by an owner that this reader cannot hear
    async with asyncio.timeout(120):
        got.extend([record async for batch in batches for record in batch])
    assert got == ledger.records


async def test_a_reader_that_disconnects_ends_its_subscription(ledgers: Any) -> None:
    ledger = await ledgers()
    batches = ledger.reader([]).read("run_1", None)
    await anext(batches)
    assert ledger.hub.readers == 1
    await batches.aclose()
    assert ledger.hub.readers == 0


def test_live_and_replayed_deltas_have_the_same_bytes(scribe: Any) -> None:
    row = scribe.deltas(scribe.facts(), 5, ["a", "汉", ""])
    payloads = [msgspec.json.encode({"chunk": {"role": "assistant", "content": text}}) for text in ("a", "汉", "")]
    live = delta_records("run_1", 1, row.created_ms, list(enumerate(payloads, start=5)))
    assert delta_records_from_row(row, 0) == live
    assert delta_records_from_row(row, 6) == live[2:]


@pytest.mark.parametrize("text", ["1.2", "0.0", "12.345678"])
def test_a_position_reads_back_the_same(text: str) -> None:
    assert str(parse_place(text)) == text


@for_each(
    "text", ["", "1", "1.", ".1", "-1.2", "1.2.3", "a.b", "1.2 ", "١.٢", "1.99999999999999999999", "9" * 40 + ".1", "²"]
)
def test_an_invalid_position_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_place(text)
    assert refusal.value.hint
