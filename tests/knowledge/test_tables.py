"""Bases, documents and chunks in a SQLite file, and questions to them, without the process around."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.knowledge.tables_kit import Tables
from tests.tables import for_each

from bollard.knowledge.chunking import Piece
from bollard.knowledge.embedding import DIMENSIONS, Embedder, Vectors, quantised
from bollard.knowledge.errors import Absent, Unusable
from bollard.knowledge.limits import INDEX_ATTEMPTS, MATCHES
from bollard.knowledge.retrieval import Retrieval, chosen_terms, fused, matches
from bollard.knowledge.sqlite import SqliteKnowledge
from bollard.knowledge.vectors import Matrices, VectorTables


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    database = SqliteKnowledge(tmp_path)
    database.open()
    made = Tables(database, Matrices(database))
    made.open_base()
    yield made
    database.close()


def test_the_knowledge_files_are_private_to_their_owner(tmp_path: Path):
    database = SqliteKnowledge(tmp_path)
    database.open()
    database.close()
    (tmp_path / "knowledge.sqlite").chmod(0o644)  # as an earlier version left it
    database = SqliteKnowledge(tmp_path)
    database.open()
    files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("knowledge.*")}
    database.close()
    assert {"knowledge.sqlite", "knowledge.sqlite-wal"} <= files.keys()
    assert set(files.values()) == {0o600}


def test_a_document_that_kills_the_process_each_time_is_given_up(tables: Tables):
    tables.put("poison")
    for _ in range(INDEX_ATTEMPTS):
        assert tables.jobs.next() is not None  # and no word of it again: the process died
    assert tables.jobs.next() is None
    found = tables.library.document(tables.library.base("w", "k"), "poison")
    assert found.status == "failed"
    assert found.error == f"indexing it ended the process {INDEX_ATTEMPTS} times"
    assert found.problem is not None
    assert (found.problem.reason, found.problem.details) == ("index_attempts", {"attempts": INDEX_ATTEMPTS})


def test_an_orderly_end_is_not_counted_as_an_attempt(tables: Tables):
    tables.put("long")
    for _ in range(INDEX_ATTEMPTS + 2):
        job = tables.jobs.next()
        assert job is not None
        tables.jobs.put_back(job)


def test_a_replaced_document_is_not_written_to(tables: Tables):
    tables.put("a")
    job = tables.jobs.next()
    assert job is not None
    tables.put("a")
    assert tables.jobs.plan(job, 1) is None
    assert not tables.jobs.add(job, [(Piece(0, 1, ()), "x")], None, 1, 1)
    again = tables.jobs.next()
    assert again is not None
    assert again.number != job.number


def test_interrupted_indexing_resumes_at_its_position(tables: Tables):
    tables.put("a")
    job = tables.jobs.next()
    assert job is not None
    assert tables.jobs.plan(job, 3) == 0
    assert tables.jobs.add(job, [(Piece(0, 1, ()), "first")], None, 1, 3)
    resumed = tables.jobs.next()
    assert resumed is not None
    assert (resumed.number, tables.jobs.plan(resumed, 3)) == (job.number, 1)
    assert tables.jobs.plan(resumed, 4) == 0  # it is cut otherwise now, so all of it is made anew


def test_vectors_beyond_the_memory_limit_find_the_same_chunks(tables: Tables):
    random = np.random.default_rng(7)
    rows = random.standard_normal((600, DIMENSIONS)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for index in range(3):
        tables.put(f"d{index}")
        part = rows[200 * index : 200 * (index + 1)]
        tables.index([f"text {number}" for number in range(200)], quantised(part).tobytes())
    kept, read = tables.vectors, Matrices(tables.database, most_bytes=1000)

    def nearest(vectors: VectorTables, question: Vectors, limit: int, documents: list[int] | None = None) -> list[int]:
        return [number for number, _ in vectors.nearest(tables.base, question, limit, documents)]

    for question in rows[:5]:
        exact = [int(number) + 1 for number in np.argsort(-(rows @ question))[:10]]
        found = nearest(kept, question, 10)
        assert found[0] == exact[0]
        assert len(set(found) & set(exact)) >= 9
        assert nearest(read, question, 10) == found
    assert all(200 < number <= 400 for number in nearest(kept, rows[0], 10, [2]))

    tables.library.drop("w", "k", "d0")
    assert all(number > 200 for number in nearest(kept, rows[0], 10))
    tables.put("d3")
    tables.index([f"more {number}" for number in range(200)], quantised(rows[:200]).tobytes())
    assert nearest(kept, rows[3], 1) == [604]


def test_a_retrieval_during_a_deletion_leaves_no_deleted_vector_in_memory(tables: Tables):
    rows = np.eye(4, DIMENSIONS, dtype=np.float32)
    for document, row in enumerate(rows):
        tables.put(f"d{document}")
        tables.index(["text"], quantised(row[np.newaxis]).tobytes())
    question = rows.sum(axis=0)
    assert len(tables.vectors.nearest(tables.base, question, 10, None)) == 4
    with tables.database.writing():
        tables.vectors.remove(tables.base, 2)
        assert len(tables.vectors.nearest(tables.base, question, 10, None)) == 4  # that is not committed yet
    assert [number for number, _ in tables.vectors.nearest(tables.base, question, 10, None)] == [1, 3, 4]


def test_a_retrieval_has_a_limit_of_chunks(tables: Tables, embedder: Embedder):
    retrieval = Retrieval(tables.database, tables.library, tables.chunks, lambda: embedder)
    base = tables.library.base("w", "k")
    assert retrieval.answer(base, "anything", 5, {}) == []
    assert retrieval.answer(base, '" OR * NEAR( \\ \0 %', 5, {}) == []
    for top_k in (0, 51, -1):
        with pytest.raises(Unusable):
            retrieval.answer(base, "anything", top_k, {})
    with pytest.raises(Absent):
        tables.library.base("w", "other")


def test_a_common_word_beside_a_rare_one_does_not_hide_it(tables: Tables, embedder: Embedder):
    tables.put("a")
    tables.index(["the same words again", "the same words and a xylophone", "the same 木琴 words"])
    retrieval = Retrieval(tables.database, tables.library, tables.chunks, lambda: embedder)
    base = tables.library.base("w", "k")
    assert "xylophone" in retrieval.answer(base, "the xylophone", 1, {})[0].text
    for query in ("木琴", "琴", "木"):
        assert "木琴" in retrieval.answer(base, query, 1, {})[0].text


def test_the_rarest_words_are_searched_and_all_words_if_none_is_rare():
    assert chosen_terms({"the": MATCHES, "port": 10, "absent": 0, "host": 500}) == (["port", "host"], False)
    assert chosen_terms({"the": MATCHES + 1, "and": MATCHES + 2}) == (["the", "and"], True)
    assert chosen_terms({"absent": 0}) == ([], True)


def test_rankings_are_fused_and_a_unanimous_first_has_score_1():
    assert fused([[1, 2, 3], [1, 3]])[0] == (1, 1.0)
    assert [number for number, _ in fused([[1, 2, 3], [1, 3]])] == [1, 3, 2]
    assert fused([[], []]) == []


@for_each(
    ("metadata", "filters", "fits"),
    [
        ({"lang": "en"}, {"lang": "en"}, True),
        ({"lang": "en"}, {"lang": ["de", "en"]}, True),
        ({"lang": "en"}, {"lang": []}, False),
        ({"lang": "en"}, {"team": "a"}, False),
        ({"tags": ["a", "b"]}, {"tags": "b"}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1, "m": 2}, {"n": 1, "m": 3}, False),
        ({}, {"n": None}, False),
    ],
)
def test_filters_compare_each_key(metadata: dict[str, object], filters: dict[str, object], fits: bool):
    assert matches(metadata, filters) is fits


def test_texts_have_unit_vectors_and_an_empty_text_a_zero_vector(embedder: Embedder):
    vectors = embedder.embed(["a cat on the sofa", "", "知识库", "word " * 20_000])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
    cat, kitten, invoice = embedder.embed(["a cat sleeps", "kittens are asleep", "pay the invoice"])
    assert cat @ kitten > cat @ invoice


def test_more_different_words_than_the_cache_holds_change_nothing(embedder: Embedder):
    before = embedder.embed(["a cat on the sofa"])
    embedder.embed([" ".join(f"w{index}" for index in range(start, start + 5000)) for start in range(0, 25_000, 5000)])
    assert np.allclose(before, embedder.embed(["a cat on the sofa"]), atol=1e-6)
