"""Archived segments of chains: whole, verified before they count, and still evidence without the store."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit import segments as archiving
from bollard.host.audit.segments import Archiver, BadSegment, find_segments, read_segment
from bollard.host.backup.log_check import CheckedLog, check_log, read_witnesses
from bollard.host.backup.sqlite_tables import SqliteSnapshot
from bollard.host.errors import SettingsError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.log.retention import Retention, purge
from bollard.host.settings import Settings
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

Open = Callable[..., Journal]
DAY_S = 24 * 3600


async def old_log(store: Store, journal: Journal, clock: ManualClock, scribe: Any) -> None:
    """Two workspaces; everything but the last record was signed ten days ago."""
    for _ in range(4):
        await journal.commit(Entry(records=[scribe.note(workspace="other"), scribe.note(said="hello"), scribe.note()]))
        clock.advance(61)
    await journal.commit(Entry(records=[scribe.note()]))
    clock.advance(10 * DAY_S)
    await journal.commit(Entry(records=[scribe.note()]))


def archiver_of(store: Store, journal: Journal, clock: ManualClock, folder: Path, days: float = 5) -> Archiver:
    return Archiver(store=store, journal=journal, clock=clock, folder=folder, days=days)


async def test_old_records_under_a_signed_head_are_archived_once_with_a_record(
    store: Store, open_journal: Open, clock: ManualClock, scribe: Any, tmp_path: Path
) -> None:
    journal = open_journal(store)
    await old_log(store, journal, clock, scribe)
    archiver = archiver_of(store, journal, clock, tmp_path / "archive")
    done = await archiver.run()
    assert [(each.workspace, each.first, each.last) for each in done] == [("default", 1, 9), ("other", 1, 4)]
    assert await archiver.run() == []
    clock.advance(10 * DAY_S)
    again = await archiver.run()
    assert [(each.workspace, each.first) for each in again] == [("default", 10), ("other", 5)]
    records = [data_of(row) for row in store.records(0, 100) if row.type == "log.archived"]
    assert [each["sha256"] for each in records] == [each.sha256 for each in (*done, *again)]
    first = next(iter(find_segments(tmp_path / "archive")))[0]
    header = read_segment(first.path)
    assert (header.workspace, header.first, header.last) == ("default", 1, 9)
    assert first.path.stat().st_mode & 0o077 == 0


async def test_a_large_chain_is_archived_in_segments_that_follow_each_other(
    memory_store: Any,
    open_journal: Open,
    clock: ManualClock,
    scribe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archiving, "ARCHIVE_SEGMENT_RECORDS", 3)
    journal = open_journal(memory_store)
    await old_log(memory_store, journal, clock, scribe)
    done = await archiver_of(memory_store, journal, clock, tmp_path).run()
    assert [(each.first, each.last) for each in done if each.workspace == "default"] == [(1, 2), (3, 4), (5, 6), (7, 9)]


@pytest.fixture
async def archived(
    sqlite_store: Store, sqlite_path: Path, open_journal: Open, clock: ManualClock, scribe: Any, signing_key: SigningKey
) -> Callable[[], CheckedLog]:
    """A store with an archive beside it, whose old data retention has dropped; and the verifier of both."""
    journal, archive = open_journal(sqlite_store), sqlite_path.parent / "archive"
    await old_log(sqlite_store, journal, clock, scribe)
    await archiver_of(sqlite_store, journal, clock, archive).run()
    assert await purge(journal, clock, Retention(days=(("note", 8.0),)), "default")
    await archiver_of(sqlite_store, journal, clock, archive, 0).run()
    await journal.close()

    def check() -> CheckedLog:
        snapshot = SqliteSnapshot(sqlite_path)
        try:
            return check_log(
                snapshot, read_witnesses({signing_key.verify_key.key_id: signing_key.verify_key}), archive=archive
            )
        finally:
            snapshot.close()

    return check


async def test_store_and_archive_verify_together_and_the_archive_has_dropped_data(
    archived: Callable[[], CheckedLog], tmp_path: Path
) -> None:
    checked = archived()
    assert checked.report.problems == ()
    assert checked.report.dropped > 0
    assert checked.segments == 4
    first = tmp_path / "archive" / "default" / "i1" / f"{1:012}-{9:012}.jsonl.gz"
    assert b'"data":null' not in gzip.decompress(first.read_bytes())


async def test_a_changed_truncated_or_incomplete_archive_is_found(
    archived: Callable[[], CheckedLog], tmp_path: Path
) -> None:
    archived()
    chain = tmp_path / "archive" / "default" / "i1"
    first, second = sorted(chain.iterdir())
    good = first.read_bytes()
    lines = gzip.decompress(good).splitlines(keepends=True)
    broken = {
        "edited": b"".join([*lines[:2], lines[2].replace(b'"type":"note"', b'"type":"nota"'), *lines[3:]]),
        "deleted": b"".join([*lines[:3], *lines[4:]]),
        "cut": b"".join(lines[:-1]),
        "swapped": b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]),
        "another head": b"".join([lines[0].replace(b'"position":9', b'"position":8'), *lines[1:]]),
    }
    for name, content in broken.items():
        first.write_bytes(gzip.compress(content))
        with pytest.raises(BadSegment):
            read_segment(first)
        problem = archived().report.problems[0]
        assert (problem.kind, problem.workspace, problem.chain) == ("archive", "default", "i1"), name
    first.write_bytes(good[:-20])
    assert archived().report.problems[0].kind == "archive"
    first.unlink()
    missing = archived().report.problems[0]
    assert (missing.kind, missing.position) == ("archive", 1)
    first.write_bytes(good)
    assert archived().report.problems == ()
    second.rename(second.with_name(f"{11:012}-{12:012}.jsonl.gz"))
    assert archived().report.problems[0].kind == "archive"


async def test_the_archive_alone_reveals_a_truncated_store(
    archived: Callable[[], CheckedLog], sqlite_store: Store
) -> None:
    sqlite_store._database.run("DELETE FROM records WHERE workspace = 'other' AND position >= 3")  # type: ignore[attr-defined]
    sqlite_store._database.run("DELETE FROM heads WHERE workspace = 'other' AND position >= 3")  # type: ignore[attr-defined]
    (problem,) = archived().report.problems
    assert (problem.kind, problem.workspace, problem.position) == ("truncated", "other", 3)


async def test_a_broken_chain_is_not_archived(
    sqlite_store: Store, open_journal: Open, clock: ManualClock, scribe: Any, tmp_path: Path
) -> None:
    journal = open_journal(sqlite_store)
    await old_log(sqlite_store, journal, clock, scribe)
    sqlite_store._database.run("UPDATE records SET type = 'x' WHERE workspace = 'default' AND position = 2")  # type: ignore[attr-defined]
    done = await archiver_of(sqlite_store, journal, clock, tmp_path / "archive").run()
    assert [each.workspace for each in done] == ["other"]
    assert len(list(find_segments(tmp_path / "archive"))) == 1


def test_retention_before_the_archive_is_refused() -> None:
    with pytest.raises(SettingsError, match="before it is archived"):
        Settings(archive_days=30, retention=(("message.completed", 7.0),))
    assert Settings(archive_days=3, retention=(("message.completed", 7.0),)).archive_days == 3
    with pytest.raises(SettingsError, match="archive_days"):
        Settings(archive_days=-1)
