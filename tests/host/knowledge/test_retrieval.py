"""Questions and answers: valid questions, and the size of the answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.errors import InvalidRequest
from bollard.host.knowledge.boundary import CUT, check_metadata, checked_question, fitted, reordered
from bollard.host.knowledge.limits import ANSWER_BYTES, CHUNK_TEXT_CHARACTERS
from bollard.protocol import KnowledgeChunk, RerankScore
from bollard.wire import encode


def chunk(text: str, score: float = 1.0, **metadata: Any) -> KnowledgeChunk:
    return KnowledgeChunk(chunk_id="c", kb_id="k", text=text, score=score, source={"name": "n"}, metadata=metadata)


@for_each(
    ("query", "filters", "field"),
    [
        ("", None, "query"),
        (" \n", None, "query"),
        ("x" * 4097, None, "query"),
        ("q", {str(number): 1 for number in range(17)}, "filters"),
        ("q", {"year": []}, "filters.year"),
        ("q", {"year": [1] * 65}, "filters.year"),
        ("q", {"year": {"$gt": 3}}, "filters.year"),
        ("q", {"year": [[1]]}, "filters.year"),
        ("q", {"year": None}, "filters.year"),
        ("q", {"year": "x" * 257}, "filters.year"),
    ],
)
def test_an_invalid_question_is_refused_by_its_field(query: str, filters: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        checked_question(query, 5, filters)
    assert caught.value.details["field"] == field


def test_a_question_may_be_filtered_by_values_and_lists() -> None:
    asked = checked_question("leave", 3, {"year": [2025, 2026], "language": "zh", "draft": False})
    assert (asked.top_k, asked.filters["year"]) == (3, [2025, 2026])


@for_each("metadata", [{"a": {"b": 1}}, {"a": [[1]]}, {"": 1}, {"x" * 129: 1}, {"a": [1] * 101}, {"a": "x" * 17_000}])
def test_metadata_that_cannot_be_filtered_is_refused(metadata: Any) -> None:
    with pytest.raises(InvalidRequest, match="metadata"):
        check_metadata(metadata)


def test_an_overlong_text_ends_with_a_mark() -> None:
    (shown,) = fitted([chunk("x" * 50_000, page=3)], 5)
    assert len(shown.text) == CHUNK_TEXT_CHARACTERS
    assert shown.text.endswith(CUT)
    assert shown.metadata == {"page": 3, "cut": True}


@given(st.lists(st.integers(min_value=0, max_value=40_000), max_size=60), st.integers(min_value=1, max_value=50))
def test_an_answer_holds_the_best_chunks_that_fit(sizes: list[int], top_k: int) -> None:
    chunks = [chunk("字" * size) for size in sizes]
    shown = fitted(chunks, top_k)
    assert len(shown) <= top_k
    assert sum(len(encode(each.to_wire())) + 1 for each in shown) <= ANSWER_BYTES
    assert [each.text[:10] for each in shown] == [each.text[:10] for each in chunks[: len(shown)]]
    if len(shown) < min(len(chunks), top_k):
        following = fitted([chunks[len(shown)]], 1)
        used = sum(len(encode(each.to_wire())) + 1 for each in [*shown, *following])
        assert used > ANSWER_BYTES


def test_reranked_chunks_are_first_and_the_rest_keeps_its_order() -> None:
    chunks = [chunk(text) for text in "abcd"]
    scores = [RerankScore(index=1, score=0.2), RerankScore(index=2, score=0.9), RerankScore(index=7, score=1.0)]
    found = reordered(chunks, scores)
    assert [(each.text, each.score) for each in found] == [("c", 0.9), ("b", 0.2), ("a", 1.0), ("d", 1.0)]
