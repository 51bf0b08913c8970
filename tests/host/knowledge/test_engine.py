"""The knowledge process behind the host's engine: real processes, both databases."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import psycopg
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import InvalidRequest, KnowledgeUnavailable, NotFound, PayloadTooLarge
from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import Document, NewDocument, Question
from bollard.host.knowledge.engine import ProcessEngine
from bollard.host.knowledge.library import open_library
from bollard.host.log.journal import Journal
from bollard.host.settings import Settings
from bollard.protocol import RerankScore
from bollard.wire.knowledge_frames import DOCUMENT_BYTES, TABLES_FOLDER, UNFINISHED

pytestmark = pytest.mark.full


PATIENCE_S = 120.0
PLAIN = SavedKnowledgeBase(kb_id="k", embedding="none")
GUIDE = """# 使用指南

知识库可以检索中文文档，也能给出标题和位置。

## Ports

The host listens at port 8420 unless somebody says otherwise.

## Felines

A cat is a small animal that people keep at home.
"""

Engines = Callable[..., ProcessEngine]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[Engines]:
    """Engines over one folder, confined as on a host, and closed at the end."""
    opened: list[ProcessEngine] = []

    def open_engine(database: str = "", **more: float) -> ProcessEngine:
        opened.append(ProcessEngine(data=tmp_path, database=database, is_confined=True, **more))
        return opened[-1]

    yield open_engine
    for engine in opened:
        await engine.close()


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = condition()
            if said if isinstance(said, bool) else await said:
                return
            await asyncio.sleep(0.05)


def text(document_id: str, content: str | bytes, mime_type: str = "text/markdown", **more: str) -> NewDocument:
    raw = content.encode() if isinstance(content, str) else content
    return NewDocument(
        document_id=document_id, name=f"{document_id}.md", mime_type=mime_type, content=raw, metadata={**more}
    )


async def settled(engine: ProcessEngine, document_id: str) -> Document:
    """The document, once it is indexed or given up."""
    found: list[Document] = []

    async def is_settled() -> bool:
        with contextlib.suppress(KnowledgeUnavailable):
            found[:] = [await engine.document("w", "k", document_id)]
        return bool(found) and found[0].status in ("ready", "failed")

    await until(is_settled)
    return found[0]


async def test_a_retrieval_finds_chunks_by_words_by_meaning_and_in_chinese(engines: Engines, database: str):
    engine = engines(database)
    await engine.open_base("w", SavedKnowledgeBase(kb_id="k"))
    given = await engine.put("w", "k", text("guide", GUIDE, lang="zh"))
    assert (given.status, given.size_bytes, given.source) == ("waiting", len(GUIDE.encode()), "guide.md")
    await engine.put("w", "k", text("other", "# Other\n\nNothing about harbours here.", lang="en"))
    ready = await settled(engine, "guide")
    assert (ready.status, ready.chunks, ready.done_chunks, ready.error) == ("ready", 3, 3, None)
    await settled(engine, "other")

    first = (await engine.retrieve("w", "k", Question(query="哪些文档可以检索？")))[0]
    assert first.text.startswith("# 使用指南")
    first = (await engine.retrieve("w", "k", Question(query="Which port is it?")))[0]
    assert first.text == "## Ports\n\nThe host listens at port 8420 unless somebody says otherwise."
    assert first.source == {
        "document_id": "guide",
        "name": "guide.md",
        "source": "guide.md",
        "headings": ["使用指南", "Ports"],
    }
    start = GUIDE.index("## Ports")
    assert first.metadata == {
        "lang": "zh",
        "document_id": "guide",
        "headings": ["使用指南", "Ports"],
        "position": {"start": start, "end": start + len(first.text)},
    }
    assert first.kb_id == "k"
    assert 0 < first.score <= 1

    by_meaning = await engine.retrieve("w", "k", Question(query="kitten", top_k=1))
    assert "cat" in by_meaning[0].text
    english = await engine.retrieve("w", "k", Question(query="harbours ports", filters={"lang": ["en", "fr"]}))
    assert {chunk.metadata["document_id"] for chunk in english} == {"other"}
    assert await engine.retrieve("w", "k", Question(query="ports", filters={"lang": "de"})) == []


async def test_documents_are_listed_replaced_read_and_deleted(engines: Engines, database: str):
    engine = engines(database)
    await engine.open_base("w", PLAIN)
    for name in ("b", "a", "c"):
        await engine.put("w", "k", text(name, f"the word {name}{name}{name} and more"))
    page = await engine.documents("w", "k", "a", 1)
    assert [document.document_id for document in page] == ["b"]
    assert await engine.content("w", "k", "b") == b"the word bbb and more"
    first = await settled(engine, "b")

    await engine.put("w", "k", text("b", "another text altogether"))
    second = await settled(engine, "b")
    assert second.sha256 != first.sha256
    assert second.created_ms == first.created_ms
    assert await engine.retrieve("w", "k", Question(query="bbb")) == []
    assert len(await engine.retrieve("w", "k", Question(query="altogether"))) == 1

    await engine.drop("w", "k", "b")
    assert await engine.retrieve("w", "k", Question(query="altogether")) == []
    for absent in (engine.document, engine.content, engine.drop):
        with pytest.raises(NotFound):
            await absent("w", "k", "b")
    await engine.drop_base("w", "k")
    await engine.drop_base("w", "k")
    with pytest.raises(NotFound):
        await engine.documents("w", "k", "", 10)
    await engine.open_base("w", PLAIN)
    assert await engine.documents("w", "k", "", 10) == []


async def test_a_changed_chunk_size_makes_new_chunks(engines: Engines, database: str):
    engine = engines(database)
    await engine.open_base("w", PLAIN)
    await engine.put("w", "k", text("a", "Some sentence with a few words. " * 60))
    before = await settled(engine, "a")
    await engine.open_base("w", PLAIN)
    assert (await engine.document("w", "k", "a")).status == "ready"
    await engine.open_base("w", SavedKnowledgeBase(kb_id="k", embedding="none", chunk_tokens=64, overlap_tokens=8))
    after = await settled(engine, "a")
    assert after.chunks > 2 * before.chunks
    assert len(await engine.retrieve("w", "k", Question(query="sentence", top_k=50))) == after.chunks


@pytest.mark.smoke
async def test_a_killed_process_is_restarted_and_continues_indexing(engines: Engines, database: str, tmp_path: Path):
    engine = engines(database)
    await engine.open_base("w", PLAIN)
    lines = "\n".join(f"Line {index} of a long text says word{index}." for index in range(60_000))
    await engine.put("w", "k", text("long", lines, "text/plain"))

    async def is_under_way() -> bool:
        return (await engine.document("w", "k", "long")).done_chunks > 0

    await until(is_under_way)
    killed = engine.pid
    assert killed is not None
    asked = asyncio.gather(
        *(engine.retrieve("w", "k", Question(query="word7")) for _ in range(8)), return_exceptions=True
    )
    os.kill(killed, signal.SIGKILL)
    for answer in await asked:
        assert isinstance(answer, list | KnowledgeUnavailable)
    # Without a request, unless it was completed in that very moment.
    await until(lambda: engine.pid not in (None, killed) or not (tmp_path / UNFINISHED).exists())
    done = await settled(engine, "long")
    assert (done.status, done.chunks) == ("ready", done.done_chunks)
    for index in (0, 30_000, 59_999):
        found = await engine.retrieve("w", "k", Question(query=f"word{index}"))
        assert len({chunk.chunk_id for chunk in found}) == len(found) > 0
        assert f"word{index}." in found[0].text


async def test_unfinished_indexing_is_completed_by_the_next_host(engines: Engines, tmp_path: Path):
    first = engines()
    await first.open_base("w", PLAIN)
    await first.put("w", "k", text("a", "# A\n\nwords " * 20_000))
    await first.close()
    second = engines()
    is_left = (tmp_path / UNFINISHED).exists()
    await second.resume()
    assert (second.pid is not None) == is_left
    assert (await settled(second, "a")).status == "ready"
    await until(lambda: not (tmp_path / UNFINISHED).exists())
    await second.close()
    third = engines()
    await third.resume()
    assert third.pid is None


async def test_a_process_that_loses_its_database_connection_is_replaced(engines: Engines, empty_postgres_url: str):
    engine = engines(empty_postgres_url)
    await engine.open_base("w", PLAIN)
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(lock.pid) FROM pg_locks AS lock "
            "JOIN pg_database AS mine ON mine.oid = lock.database "
            "WHERE lock.locktype = 'advisory' AND mine.datname = current_database()"
        )

    async def is_kept() -> bool:
        with contextlib.suppress(KnowledgeUnavailable):
            await engine.put("w", "k", text("a", "words"))
            return True
        return False

    await until(is_kept)
    assert (await settled(engine, "a")).status == "ready"


async def test_an_idle_process_ends_and_restarts_on_demand(engines: Engines):
    engine = engines(idle_s=0.1)
    await engine.open_base("w", PLAIN)
    await until(lambda: engine.pid is None)
    assert await engine.documents("w", "k", "", 10) == []


async def test_the_process_dies_with_its_host(tmp_path: Path):
    program = (
        "import asyncio, sys, pathlib\n"
        "from bollard.host.knowledge.engine import ProcessEngine\n"
        "from bollard.host.knowledge.bases import SavedKnowledgeBase\n"
        "async def main():\n"
        "    engine = ProcessEngine(data=pathlib.Path(sys.argv[1]), database='')\n"
        "    await engine.open_base('w', SavedKnowledgeBase(kb_id='k'))\n"
        "    print('pid', engine.pid, flush=True)\n"
        "    await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while not (line := await host.stdout.readline()).startswith(b"pid "):
            assert line
    pid = int(line.split()[1])
    host.kill()
    await host.wait()

    def is_gone() -> bool:
        try:
            return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return True

    await until(is_gone)


async def test_a_deleted_document_is_in_no_file(engines: Engines, tmp_path: Path):
    engine = engines()
    await engine.open_base("w", SavedKnowledgeBase(kb_id="k"))
    filler = "\n\n".join(f"Paragraph {index} of something else." for index in range(2000))
    await engine.put("w", "k", text("stays", filler))
    await engine.put(
        "w", "k", text("goes", f"{filler}\n\nThe canaryzebra sings of quokkabird.\n\n{filler}", note="wombatnote")
    )
    await settled(engine, "goes")
    assert await engine.retrieve("w", "k", Question(query="canaryzebra"))
    canaries = (b"canaryzebra", b"quokkabird", b"wombatnote")
    assert all(canary in _bytes_of(tmp_path) for canary in canaries)

    await engine.drop("w", "k", "goes")
    await until(lambda: not engine.busy and not (tmp_path / UNFINISHED).exists())
    left = _bytes_of(tmp_path)
    # The index keeps only the end of a word that begins like the one before it.
    for canary in (*canaries, b"naryzebra", b"okkabird"):
        assert canary not in left
    assert await engine.retrieve("w", "k", Question(query="paragraph 77"))

    await engine.drop_base("w", "k")
    left = _bytes_of(tmp_path)
    assert b"Paragraph 77" not in left
    assert b"something" not in left


def _bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


async def test_an_unreadable_document_fails_with_a_message_and_others_do_not(engines: Engines):
    engine = engines()
    await engine.open_base("w", PLAIN)
    await engine.put("w", "k", text("broken", b"%PDF-1.7 but no more", "application/pdf"))
    await engine.put("w", "k", text("picture", b"\x89PNG", "image/png"))
    await engine.put("w", "k", text("fine", "<h1>Fine</h1><p>words", "text/html"))
    broken = await settled(engine, "broken")
    assert broken.status == "failed"
    assert broken.error
    assert (broken.problem or {})["reason"] == "pdf_invalid"
    picture = await settled(engine, "picture")
    assert picture.error == "documents of type image/png are not supported"
    assert picture.problem == {
        "reason": "document_type",
        "hint": "send it as text, Markdown, HTML, PDF or DOCX",
        "details": {"mime_type": "image/png"},
    }
    assert (await settled(engine, "fine")).status == "ready"
    assert await engine.content("w", "k", "broken") == b"%PDF-1.7 but no more"


def change_tables(database: str, data: Path, *statements: str) -> None:
    """Run statements on the tables of a stopped engine."""
    if database:
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
    else:
        with contextlib.closing(sqlite3.connect(data / "knowledge.sqlite")) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()


async def test_tables_of_an_earlier_version_are_upgraded(engines: Engines, database: str, tmp_path: Path):
    """Version 1 stored the sentence of a failed document without its reason."""
    first = engines(database)
    await first.open_base("w", PLAIN)
    await first.put("w", "k", text("old", b"\x89PNG", "image/png"))
    await settled(first, "old")
    await first.close()
    change_tables(
        database,
        tmp_path,
        "ALTER TABLE knowledge_documents DROP COLUMN problem",
        "UPDATE knowledge_meta SET value = '1' WHERE name = 'schema'",
    )
    for document_id in ("new", "newer"):  # the second start finds the upgraded tables
        engine = engines(database)
        await engine.put("w", "k", text(document_id, b"\x89PNG", "image/png"))
        assert ((await settled(engine, document_id)).problem or {})["reason"] == "document_type"
        old = await engine.document("w", "k", "old")
        assert (old.status, bool(old.error), old.problem) == ("failed", True, None)
        await engine.close()


async def test_tables_of_a_newer_version_are_refused(engines: Engines, database: str, tmp_path: Path):
    first = engines(database)
    await first.open_base("w", PLAIN)
    await first.close()
    change_tables(database, tmp_path, "UPDATE knowledge_meta SET value = '99' WHERE name = 'schema'")
    with pytest.raises(KnowledgeUnavailable, match="newer version") as caught:
        await engines(database).open_base("w", PLAIN)
    assert caught.value.hint


async def test_oversized_and_absent_resources_are_refused_with_a_type(engines: Engines):
    engine = engines()
    with pytest.raises(PayloadTooLarge):
        await engine.put("w", "k", text("a", b"x" * (DOCUMENT_BYTES + 1)))
    for top_k in (0, 51):
        with pytest.raises(InvalidRequest):
            await engine.retrieve("w", "k", Question(query="x", top_k=top_k))
    with pytest.raises(InvalidRequest):
        await engine.retrieve("w", "k", Question(query="x" * 70_000))
    assert engine.pid is None
    with pytest.raises(NotFound):
        await engine.put("w", "k", text("a", "x"))
    await engine.close()
    with pytest.raises(KnowledgeUnavailable):
        await engine.documents("w", "k", "", 10)


async def test_a_process_that_fails_to_start_is_retried_with_growing_delays(engines: Engines, tmp_path: Path):
    (tmp_path / "knowledge.sqlite").write_bytes(b"this is no database" * 100)
    engine = engines()
    said: list[str] = []

    async def is_left_alone() -> bool:
        with pytest.raises(KnowledgeUnavailable, match="not a database") as caught:
            await engine.open_base("w", PLAIN)
        said.append(caught.value.hint)
        return "when the process restarts" in said[-1]

    await until(is_left_alone)
    assert "check the disk" in said[0]


async def test_files_of_an_earlier_version_move_into_the_folder_with_their_documents(
    engines: Engines,
    tmp_path: Path,
    memory_store: MemoryStore,
    open_journal: Callable[..., Journal],
    clock: ManualClock,
):
    before = engines()
    await before.open_base("w", PLAIN)
    await before.put("w", "k", text("guide", GUIDE))
    await settled(before, "guide")
    await before.close()

    async def rerank(workspace: str, model_id: str, query: str, texts: Sequence[str]) -> Sequence[RerankScore]:
        raise AssertionError(workspace, model_id, query, texts)

    open_library(Settings(data=tmp_path), open_journal(memory_store), clock, rerank)
    assert [name for name in os.listdir(tmp_path) if name.startswith("knowledge")] == [TABLES_FOLDER]
    after = ProcessEngine(data=tmp_path / TABLES_FOLDER, database="", is_confined=True)
    try:
        assert [document.document_id for document in await after.documents("w", "k", "", 10)] == ["guide"]
    finally:
        await after.close()
