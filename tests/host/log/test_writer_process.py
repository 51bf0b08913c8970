"""The journal's writer as a process: the promises of a thread, and the loss of that process."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bollard.host.errors import HostError, LogBroken, StorageUnavailable
from bollard.host.limits import JOURNAL_QUEUE_BYTES
from bollard.host.log.chain import signed_head
from bollard.host.log.entries import Chore, Committed, Duplicate, Entry, FencedOff, Renewed, StateExpectation
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterProcess
from bollard.host.log.records import scope_key
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.sqlite import sqlite_store as make_sqlite_store
from bollard.host.store.store import Store
from bollard.trust import verify_head
from bollard.trust.keys import load_or_make_signing_key

PATIENCE_S = 120.0


class Desk:
    """A journal whose writer is a process, and the store that reads its records."""

    def __init__(self, data: Path, incarnation: str = "i1") -> None:
        self.lost = asyncio.Event()
        self.key = load_or_make_signing_key(data / "heads.ed25519")
        self.store: Store = make_sqlite_store(data / "bollard.db")
        self.store.open()
        self.process = WriterProcess(database="", data=data, incarnation=incarnation, key=self.key, lost=self.lost.set)
        self.journal = Journal(self.process)


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    opened: list[Desk] = []

    async def open_desk(incarnation: str = "i1") -> Desk:
        desk = Desk(tmp_path, incarnation)
        opened.append(desk)
        async with asyncio.timeout(PATIENCE_S):
            await desk.journal.start()
        return desk

    yield open_desk
    for desk in opened:
        await desk.journal.close()
        desk.store.close()


async def test_a_signal_during_loading_does_not_end_the_writer(tmp_path: Path, scribe: Any) -> None:
    desk = Desk(tmp_path)
    desk.process.spawn()
    assert desk.process.pid is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(desk.process.pid, number)
    async with asyncio.timeout(PATIENCE_S):
        await desk.journal.start()
    assert await desk.journal.commit(Entry(records=[scribe.note()])) == Committed()
    await desk.journal.close()
    desk.store.close()


async def test_records_are_on_disk_in_order_and_chained(desks: Any, scribe: Any) -> None:
    desk = await desks()
    waits = [desk.journal.commit(Entry(records=[scribe.note(n=n)])) for n in range(200)]
    assert await asyncio.gather(*waits) == [Committed()] * 200
    rows = desk.store.records(0, 1000)
    assert [row.data for row in rows] == [scribe.note(n=n).data for n in range(200)]
    assert [row.position for row in rows] == list(range(1, 201))
    assert desk.journal.numbers.records == 200
    assert desk.journal.numbers.commits < 200, "what queued up shared commits"


async def test_every_kind_of_outcome_is_returned(desks: Any, scribe: Any) -> None:
    desk = await desks()
    facts = scribe.facts()
    assert await desk.journal.commit(scribe.first(facts)) == Committed()
    again = await desk.journal.commit(scribe.first(facts))
    assert isinstance(again, Duplicate)
    assert again.first.run_id == facts.run_id
    late = Entry(records=[scribe.record(facts, "run.started", {}, 3, epoch=7)], fence=(facts.run_id, 7))
    assert await desk.journal.commit(late) == FencedOff()
    renewed = await desk.journal.commit(Entry(renew=("i1", (facts.run_id, "run_x"), 9_999_999_999_999)))
    assert renewed == Renewed(frozenset({facts.run_id}))
    assert await desk.journal.housekeep(Chore(kind="drop_expired", before_ms=1, limit=10)) == 0
    senseless = Entry(records=[scribe.note()], blobs=[b"x"], expects=[])
    assert await desk.journal.commit(senseless) == Committed()


async def test_kept_rows_reach_the_writer(desks: Any, scribe: Any) -> None:
    desk = await desks()
    row = KeptRow(kind="session", workspace="w", id="a", body=b"\x00\xff", expires_ms=None, updated_ms=1)
    keeps = [PutKept(row), PutKept(replace(row, id="b", expires_ms=1 << 50)), DropKept("session", "w", "a")]
    assert await desk.journal.commit(Entry(records=[scribe.note()], keeps=keeps)) == Committed()
    assert desk.store.all_kept("session") == [replace(row, id="b", expires_ms=1 << 50)]


async def test_an_unmet_expectation_is_reported_and_writes_its_other_record(desks: Any, scribe: Any) -> None:
    desk = await desks()
    facts = scribe.facts()
    await desk.journal.commit(scribe.first(facts))

    def setting(seq: int, version: int) -> Entry:
        data = {"scope": "conversation", "key": "k", "value": seq}
        record = scribe.record(facts, "state.updated", data, seq)
        expects = StateExpectation(
            record=0, otherwise=("state.refused", b"{}"), scope_key=scope_key(facts, "conversation"),
            key="k", now_ms=record.created_ms, version=version, size=10, quota=1000,
        )  # fmt: skip
        return Entry(records=[record], expects=[expects], fence=(facts.run_id, 1))

    first = await desk.journal.commit(setting(3, 0))
    second = await desk.journal.commit(setting(4, 0))
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    set_by, refused_by = desk.store.records_of_run(facts.run_id, 2, 10)
    judged = [(each.version, each.unmet) for each in (*first.judged, *second.judged)]
    assert judged == [(set_by.id, ""), (set_by.id, "version")]
    assert [set_by.type, refused_by.type] == ["state.updated", "state.refused"]


async def test_errors_keep_their_type_across_the_processes(desks: Any, scribe: Any) -> None:
    desk = await desks()
    facts = scribe.facts()
    await desk.journal.commit(scribe.first(facts))
    with pytest.raises(HostError) as refused:
        await desk.journal.commit(Entry(records=scribe.first(facts).records))
    assert refused.value.code == "conflict"
    assert refused.value.hint


async def test_an_entry_larger_than_the_socket_buffer_passes_whole(desks: Any, scribe: Any) -> None:
    desk = await desks()
    large = scribe.note(text="x" * (3 << 20))
    entries = [Entry(records=[large], size=3 << 20) for _ in range(5)]
    assert await asyncio.gather(*(desk.journal.commit(entry) for entry in entries)) == [Committed()] * 5
    assert [len(row.data or b"") for row in desk.store.records(0, 10)] == [len(large.data)] * 5
    assert await desk.journal.commit(Entry(records=[scribe.note()], size=JOURNAL_QUEUE_BYTES + 1)) == Committed()


async def test_closing_writes_every_accepted_entry_and_signs_the_head(desks: Any, scribe: Any) -> None:
    desk = await desks()
    outcomes: list[Any] = []
    for n in range(1000):
        desk.journal.append(Entry(records=[scribe.note(n=n)], urgent=False), outcomes.append)
    await desk.journal.close()
    assert outcomes == [Committed()] * 1000
    assert len(desk.store.records(0, 2000)) == 1000
    heads = desk.store.heads("default")
    assert heads[-1].position == 1000
    for head in heads:
        verify_head(signed_head(head), desk.key.verify_key)
    with pytest.raises(StorageUnavailable):
        desk.journal.append(Entry())


async def test_the_ends_of_a_killed_writer_are_signed_unless_another_key_signed_them(
    desks: Any, scribe: Any, tmp_path: Path
) -> None:
    first = await desks("i1")
    for n in range(3):
        await first.journal.commit(Entry(records=[scribe.note(n=n)]))
    os.kill(first.process.pid, signal.SIGKILL)
    await first.lost.wait()
    assert [head.position for head in first.store.heads("default")] == [1]
    second = await desks("i2")
    assert [head.position for head in first.store.heads("default")] == [1, 3]
    verify_head(signed_head(first.store.heads("default")[-1]), first.key.verify_key)
    os.kill(second.process.pid, signal.SIGKILL)
    await second.lost.wait()
    with sqlite3.connect(tmp_path / "bollard.db") as database:
        database.execute("UPDATE heads SET signature = zeroblob(64) WHERE position = 3")
    with pytest.raises(LogBroken, match="not signed by key"):
        await desks("i3")


async def test_a_killed_writer_fails_every_commit_and_reports_its_loss(desks: Any, scribe: Any) -> None:
    desk = await desks()
    await desk.journal.commit(Entry(records=[scribe.note(n=0)]))
    os.kill(desk.process.pid, signal.SIGSTOP)
    waits = [asyncio.ensure_future(desk.journal.commit(Entry(records=[scribe.note(n=n)]))) for n in range(1, 20)]
    await asyncio.sleep(0)
    os.kill(desk.process.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        await desk.lost.wait()
    assert {type(fate) for fate in outcomes} == {StorageUnavailable}
    assert outcomes[0].details["outcome"] == "unknown"
    with pytest.raises(StorageUnavailable):
        await desk.journal.commit(Entry(records=[scribe.note()]))
    assert len(desk.store.records(0, 100)) == 1, "the confirmed record is there, and no later one"


async def test_a_second_journal_of_one_directory_is_refused(desks: Any) -> None:
    await desks()
    with pytest.raises(StorageUnavailable, match="another journal"):
        await desks("i2")


async def test_an_unopenable_store_gives_a_reason(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.store.close()
    (tmp_path / "bollard.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StorageUnavailable) as refused:
        async with asyncio.timeout(PATIENCE_S):
            await desk.journal.start()
    assert refused.value.hint
    await desk.journal.close()
