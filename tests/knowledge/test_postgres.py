"""Knowledge in PostgreSQL, with and without pgvector: a real server, and the same as on SQLite."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.knowledge.conftest import VectorDatabase
from tests.knowledge.tables_kit import Tables

from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import NewDocument, Question
from bollard.host.knowledge.engine import ProcessEngine
from bollard.knowledge.embedding import DIMENSIONS, Vectors, quantised
from bollard.knowledge.errors import WriterLost
from bollard.knowledge.limits import MOVE_BATCHES
from bollard.knowledge.pgvector import merged, open_vectors
from bollard.knowledge.postgres import PostgresKnowledge
from bollard.knowledge.sqlite import SqliteKnowledge
from bollard.knowledge.vectors import Matrices, Near, VectorBatches
from bollard.segments import terms

PATIENCE_S = 120.0
EPSILON = 1e-4
"""The difference of products of 256 numbers when they are added up in another order."""

Opening = Callable[[str], Tables]
_FIRST_CHUNKS = itertools.count(1, 1000)
"""No number of a chunk comes again."""


@pytest.fixture
def opened() -> Iterator[Opening]:
    """Opens a database as the next process would: the database of the last one is closed before."""
    last: list[PostgresKnowledge] = []

    def close() -> None:
        for database in last:
            database.close()
        last.clear()

    def open_tables(url: str) -> Tables:
        close()
        database = PostgresKnowledge(url)
        database.open()
        last.append(database)
        return Tables(database, open_vectors(database))

    yield open_tables
    close()


def some_vectors(seed: int, count: int) -> Vectors:
    """Of length 1, a few of them the same, one without anything."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1::5] = rows[0]
    rows[2:3] = 0
    return rows


def fill(tables: Tables, seed: int, batches: int, size: int = 7) -> None:
    """Documents `d0`, `d1`, … of one batch each."""
    for index in range(batches):
        tables.put(f"d{index}")
        body = quantised(some_vectors(seed + index, size)).tobytes()
        tables.index([f"text {index} {place}" for place in range(size)], body)


def assert_same(one: Sequence[Near], other: Sequence[Near], limit: int) -> None:
    """The same scores in the same order, and the same chunks, but for those that are as near as each other."""
    scores = [score for _, score in one]
    assert [score for _, score in other] == pytest.approx(scores, abs=EPSILON)
    for found in (one, other):
        assert len({number for number, _ in found}) == len(found) <= limit
    nearness = {**dict(one), **dict(other)}
    for (mine, _), (theirs, _) in zip(one, other, strict=True):
        assert nearness[mine] == pytest.approx(nearness[theirs], abs=EPSILON)
    last = scores[-1] if len(scores) == limit else 0.0
    for number in {number for number, _ in one} ^ {number for number, _ in other}:
        assert nearness[number] == pytest.approx(last, abs=EPSILON)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    earlier=st.integers(0, 6),
    limit=st.integers(1, 60),
    documents=st.none() | st.lists(st.integers(1, 6), max_size=6),
)
def test_both_vector_paths_find_the_same_chunks_in_the_same_order(
    both_ways: tuple[Tables, Tables], seed: int, sizes: list[int], earlier: int, limit: int, documents: list[int] | None
):
    """`earlier` batches were written before the extension was there."""
    process, server = both_ways
    old = VectorBatches(server.database)
    base = 1
    question = some_vectors(seed + 1, 1)[0]
    for tables in both_ways:
        with tables.database.writing():
            tables.vectors.remove_all(base)
            tables.vectors.make(base)
    first = next(_FIRST_CHUNKS)
    for index, size in enumerate(sizes):
        body = quantised(some_vectors(seed + 2 + index, size)).tobytes()
        with process.database.writing():
            process.vectors.add(base, index + 1, first, body)
        with server.database.writing():
            (old if index < earlier else server.vectors).add(base, index + 1, first, body)
        first += size
    expected = process.vectors.nearest(base, question, limit, documents)
    assert_same(expected, server.vectors.nearest(base, question, limit, documents), limit)
    while server.vectors.move():
        pass
    assert_same(expected, server.vectors.nearest(base, question, limit, documents), limit)
    with server.database.writing(), process.database.writing():
        for tables in both_ways:
            tables.vectors.remove(base, 1)
    expected = process.vectors.nearest(base, question, limit, documents)
    assert_same(expected, server.vectors.nearest(base, question, limit, documents), limit)


@pytest.fixture
def both_ways(tmp_path: Path, vector_database: VectorDatabase, opened: Opening) -> Iterator[tuple[Tables, Tables]]:
    sqlite = SqliteKnowledge(tmp_path)
    sqlite.open()
    server = opened(vector_database.superuser)
    assert server.vectors.searched_by == "database"
    yield Tables(sqlite, Matrices(sqlite)), server
    sqlite.close()


def test_vectors_from_before_the_extension_are_found_during_and_after_their_move(
    vector_database: VectorDatabase, opened: Opening
):
    before = opened(vector_database.owner)
    assert before.vectors.searched_by == "process"  # its user has no right to create the extension
    before.open_base()
    fill(before, seed=3, batches=2 * MOVE_BATCHES + 1)
    question = some_vectors(4, 1)[0]
    expected = before.vectors.nearest(before.base, question, 20, None)
    assert len(expected) == 20

    vector_database.run(
        "CREATE SCHEMA somewhere",
        "CREATE EXTENSION vector SCHEMA somewhere",
        "GRANT USAGE ON SCHEMA somewhere TO plain",
    )
    after = opened(vector_database.owner)
    assert after.vectors.searched_by == "database"
    left = [vector_database.count("knowledge_vectors")]
    while after.vectors.move():
        left.append(vector_database.count("knowledge_vectors"))
        assert_same(expected, after.vectors.nearest(after.base, question, 20, None), 20)
    assert left == [2 * MOVE_BATCHES + 1, MOVE_BATCHES + 1, 1, 0]
    assert vector_database.count("knowledge_vectors_1") == 7 * (2 * MOVE_BATCHES + 1)
    assert after.jobs.to_purge() is not None
    assert after.database.purge(after.base)

    again = opened(vector_database.owner)
    assert not again.vectors.move()
    assert_same(expected, again.vectors.nearest(again.base, question, 20, None), 20)


def test_an_extension_in_an_inaccessible_schema_is_not_used(vector_database: VectorDatabase, opened: Opening):
    vector_database.run("CREATE SCHEMA closed", "CREATE EXTENSION vector SCHEMA closed")
    assert opened(vector_database.owner).vectors.searched_by == "process"


@pytest.mark.parametrize("returns", [True, False])
def test_documents_are_reindexed_after_the_extension_was_dropped(
    vector_database: VectorDatabase, opened: Opening, returns: bool
):
    vector_database.run("CREATE EXTENSION vector")
    before = opened(vector_database.owner)
    before.open_base()
    fill(before, seed=3, batches=1)
    vector_database.run("DROP EXTENSION vector CASCADE", *(["CREATE EXTENSION vector"] if returns else []))

    after = opened(vector_database.owner)
    assert after.vectors.searched_by == ("database" if returns else "process")
    question = some_vectors(3, 1)[0]
    assert after.vectors.nearest(after.base, question, 3, None) == []
    assert after.library.document(after.library.base("w", "k"), "d0").status == "waiting"
    after.index(["again"], quantised(some_vectors(3, 1)).tobytes())
    assert len(after.vectors.nearest(after.base, question, 3, None)) == 1

    again = opened(vector_database.owner)
    assert again.library.document(again.library.base("w", "k"), "d0").status == "ready"
    assert len(again.vectors.nearest(again.base, question, 3, None)) == 1


def test_a_process_that_loses_the_extension_is_replaced(vector_database: VectorDatabase, opened: Opening):
    tables = opened(vector_database.superuser)
    tables.open_base()
    fill(tables, seed=3, batches=1)
    vector_database.run("DROP EXTENSION vector CASCADE")
    with pytest.raises(WriterLost, match="pgvector was removed"):
        tables.vectors.nearest(tables.base, some_vectors(3, 1)[0], 3, None)
    with pytest.raises(WriterLost, match="pgvector was removed"):
        fill(tables, seed=5, batches=1)
    with pytest.raises(WriterLost, match="pgvector was removed"), tables.database.writing():
        tables.chunks.make(2)


def test_a_deleted_document_is_in_no_table(vector_database: VectorDatabase, opened: Opening):
    tables = opened(vector_database.superuser)
    tables.open_base()
    fill(tables, seed=3, batches=2)
    tables.library.drop("w", "k", "d0")
    assert vector_database.count("knowledge_vectors_1") == 7
    tables.put("d1")
    assert vector_database.count("knowledge_vectors_1") == 0
    tables.index(["once more"], quantised(some_vectors(9, 1)).tobytes())
    assert tables.library.drop_base("w", "k") == 1
    assert tables.database.purge(1)
    assert vector_database.count("pg_tables WHERE tablename LIKE 'knowledge_vectors_%'") == 0
    assert tables.vectors.nearest(1, some_vectors(9, 1)[0], 5, None) == []  # a retrieval in between


def test_words_are_counted_and_found_as_on_sqlite(both_ways: tuple[Tables, Tables]):
    texts = ["the same words again", "the same words, it's a xylophone", "the same 木琴 words, the c:\\path", "words"]
    asked = [*terms("the same words xylophone it's 木琴 琴 木 c:\\path absent"), "xylophone", "'", "\\"]
    found: list[dict[str, tuple[int, set[int]]]] = []
    for tables in both_ways:
        tables.open_base()
        tables.put("a")
        tables.index(texts)
        tables.put("b")
        tables.index(["the other document"])
        count, search = tables.database.frequency, tables.database.search
        found.append(
            {
                term: (count(1, term), {*search(1, [term, "words"], every=True, limit=9, documents=[1])})
                for term in asked
            }
        )
        assert [*search(1, ["words", "other"], every=False, limit=9, documents=None)].count(5) == 1
    assert found[0] == found[1]
    assert found[0]["the"] == (4, {1, 2, 3})
    assert found[0]["xylophone"] == (1, {2})


def test_chunks_of_two_rankings_are_merged_nearest_first():
    assert merged([], [(2, 0.5)], 5) == [(2, 0.5)]
    assert merged([(1, 0.9), (3, 0.5)], [(1, 0.9), (2, 0.5)], 5) == [(1, 0.9), (2, 0.5), (3, 0.5)]
    assert merged([(1, 0.9), (3, 0.5)], [(2, 0.7)], 2) == [(1, 0.9), (2, 0.7)]


async def test_a_host_retrieves_by_meaning_through_the_server_for_every_document(
    vector_database: VectorDatabase, tmp_path: Path
):
    engine = ProcessEngine(data=tmp_path, database=vector_database.superuser)
    base = SavedKnowledgeBase(kb_id="k")
    with capture_logs() as logs:
        await engine.open_base("w", base)
    assert [entry["vectors_searched_by"] for entry in logs if "started" in entry["event"]] == ["database"]
    try:
        for name, text in (("home", "A cat is a small animal."), ("office", "Pay the invoice by transfer. " * 60)):
            content = text.encode()
            await engine.put(
                "w", "k", NewDocument(document_id=name, name=name, mime_type="text/plain", content=content)
            )
        chunks = await _indexed(engine)
        assert vector_database.count("knowledge_vectors_1") == chunks
        assert vector_database.count("knowledge_vectors") == 0
        kitten = Question(query="kitten", top_k=1)
        assert "cat" in (await engine.retrieve("w", "k", kitten))[0].text

        await engine.open_base("w", base.model_copy(update={"chunk_tokens": 64, "overlap_tokens": 8}))
        more = await _indexed(engine)
        assert vector_database.count("knowledge_vectors_1") == more > chunks
        assert "cat" in (await engine.retrieve("w", "k", kitten))[0].text

        await engine.drop("w", "k", "home")
        assert vector_database.count("knowledge_vectors_1") == more - 1
        assert not any("cat" in chunk.text for chunk in await engine.retrieve("w", "k", kitten))
        await engine.drop_base("w", "k")
        assert vector_database.count("pg_tables WHERE tablename LIKE 'knowledge_vectors_%'") == 0
    finally:
        await engine.close()


async def _indexed(engine: ProcessEngine) -> int:
    """How many chunks there are, once all documents are indexed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            documents = await engine.documents("w", "k", "", 10)
            if all(document.status == "ready" for document in documents):
                return sum(document.chunks for document in documents)
            await asyncio.sleep(0.05)
