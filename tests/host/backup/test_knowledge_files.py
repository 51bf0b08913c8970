"""Documents of knowledge bases leave with a backup and with a workspace, and are taken in by the host they come to."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_engine import MemoryEngine
from tests.host.backup.conftest import believing

from bollard.host.archive.reader import ArchiveReader
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive, Conflict
from bollard.host.knowledge.bases import KnowledgeBaseRepository, SavedKnowledgeBase
from bollard.host.knowledge.boundary import NewDocument, Question
from bollard.host.knowledge.engine import ProcessEngine
from bollard.host.knowledge.incoming import UploadFolder
from bollard.host.knowledge.library import Library
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.writer import Writer
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key
from bollard.wire.knowledge_frames import TABLES_FOLDER

PATIENCE_S = 120.0
LEAVE = NewDocument(
    document_id="leave",
    name="请假.md",
    mime_type="text/markdown",
    content="# 请假\n\nThirty days.\x00".encode(),
    source="https://wiki.example.org/leave",
    metadata={"year": 2026, "tags": ["a"]},
)


def begin(source: BackupSource, clock: ManualClock) -> None:
    """A store with one base in each of two workspaces."""
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    with closing(store):
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        writer = Writer(store, BlobStore(source.data / "blobs"), clock, incarnation="first", key=key)
        records = [
            NewRecord(
                workspace=workspace,
                type="policy.changed",
                data=encode_data(
                    {
                        "kind": "kb",
                        "id": "handbook",
                        "action": "saved",
                        "revision": 1,
                        "by": "ann",
                        "body": {"kb_id": "handbook"},
                    }
                ),
                created_ms=1,
            )
            for workspace in ("default", "other")
        ]
        writer.turn([Entry(records=records)])
        writer.finish()


@pytest.fixture(params=["sqlite", "postgres"])
async def source(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> BackupSource:
    """With a document in the base of each, and an engine that was at work."""
    database = request.getfixturevalue("new_database")() if request.param == "postgres" else ""
    made = BackupSource(database=database, data=tmp_path / "data")
    (made.data / "keys").mkdir(parents=True)
    begin(made, clock)
    engine = ProcessEngine(data=made.data / TABLES_FOLDER, database=made.database)
    for workspace in ("default", "other"):
        await engine.open_base(workspace, SavedKnowledgeBase(kb_id="handbook"))
        await engine.put(workspace, "handbook", LEAVE)
    await engine.close()
    return made


async def taken_in(source: BackupSource, open_journal: Callable[..., Journal], clock: ManualClock) -> MemoryEngine:
    """The documents of an engine after the start of a host on this store."""
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    engine, incoming = MemoryEngine(clock), UploadFolder(source.data)
    assert incoming
    journal = open_journal(store, "later")
    book = KnowledgeBaseRepository(journal, clock)
    await book.load(store)
    library = Library(book, journal, clock, lambda: engine, incoming=incoming)
    library.start()
    async with asyncio.timeout(PATIENCE_S):
        while incoming:  # noqa: ASYNC110 -- files are all that tells
            await asyncio.sleep(0.01)
    await journal.close()
    store.close()
    return engine


async def test_a_backup_brings_back_every_document(
    source: BackupSource, target: BackupSource, tmp_path: Path, clock: ManualClock, open_journal: Any
) -> None:
    file = tmp_path / "all.zip"
    back_up(source, file, with_keys=True, version="0", clock=clock)
    restore(file, data=target.data, database=target.database, trust=believing(file), clock=clock)
    engine = await taken_in(target, open_journal, clock)
    for workspace in ("default", "other"):
        document = await engine.document(workspace, "handbook", "leave")
        assert (document.name, document.source, document.metadata) == (LEAVE.name, LEAVE.source, LEAVE.metadata)
        assert await engine.content(workspace, "handbook", "leave") == LEAVE.content
        assert await engine.retrieve(workspace, "handbook", Question(query="thirty days"))


async def test_an_export_has_the_documents_of_its_workspace_alone(
    source: BackupSource, target: BackupSource, tmp_path: Path, clock: ManualClock, open_journal: Any
) -> None:
    file = tmp_path / "other.zip"
    export_workspace(source, "other", file, version="0", clock=clock)
    store = choose_store(target.database, target.data, SystemClock())
    store.open()
    store.close()
    import_workspace(file, target, trust=believing(file), clock=clock)
    engine = await taken_in(target, open_journal, clock)
    assert set(engine.bases) == {("other", "handbook")}
    assert await engine.content("other", "handbook", "leave") == LEAVE.content


async def test_an_import_repeats_over_the_documents_of_an_interrupted_try(
    source: BackupSource, tmp_path: Path, clock: ManualClock
) -> None:
    file, target = tmp_path / "other.zip", BackupSource(database="", data=tmp_path / "there")
    export_workspace(source, "other", file, version="0", clock=clock)
    with ArchiveReader(file, "workspace") as reader:
        (note,) = reader.manifest.files
        whole = b"".join(reader.pieces(note.member))
    cut_off = target.data / note.path
    cut_off.parent.mkdir(parents=True)
    cut_off.write_bytes(whole[:10])
    import_workspace(file, target, trust=believing(file), clock=clock)
    assert cut_off.read_bytes() == whole


async def test_an_export_that_brings_documents_of_another_workspace_is_refused(
    source: BackupSource, tmp_path: Path, clock: ManualClock, with_lines: Any
) -> None:
    file = tmp_path / "other.zip"
    export_workspace(source, "other", file, version="0", clock=clock)

    def change(lines: list[bytes]) -> list[bytes]:
        return [lines[0].replace(b'"workspace":"other"', b'"workspace":"default"'), *lines[1:]]

    changed = with_lines(file, tmp_path / "changed.zip", "files/document-000000", change)
    fresh = BackupSource(database="", data=tmp_path / "fresh")
    (fresh.data / "keys").mkdir(parents=True)
    store = choose_store("", fresh.data, SystemClock())
    store.open()
    store.close()
    with pytest.raises(BadArchive, match="another workspace"):
        import_workspace(changed, fresh, trust=believing(changed), clock=clock)
    assert not (fresh.data / "knowledge").exists()


async def test_a_database_with_knowledge_is_not_empty(source: BackupSource, tmp_path: Path, clock: ManualClock) -> None:
    if not source.database:
        return
    file = tmp_path / "all.zip"
    back_up(source, file, with_keys=False, version="0", clock=clock)
    with pytest.raises(Conflict):
        restore(file, data=tmp_path / "again", database=source.database, trust=believing(file), clock=clock)
