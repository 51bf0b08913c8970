"""Embeddings and reranking over a real connection, in the shapes that servers answer with."""

import base64
import struct
from typing import Any

import pytest
from tests.host.models.conftest import Open
from tests.host.models.provider import KEY, Provider, Reply, bytewise, whole

from bollard.host.errors import ModelFailed
from bollard.host.models.openai_embeddings import batches_of


def packed(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def vectors(*embeddings: Any, first: int = 0) -> dict[str, Any]:
    data = [{"object": "embedding", "index": first + at, "embedding": each} for at, each in enumerate(embeddings)]
    return {"object": "list", "data": data, "model": "tiny", "usage": {"prompt_tokens": 3}}


def as_text(*values: float) -> str:
    return base64.b64encode(packed(*values)).decode()


async def reason_of(asked: Any) -> str:
    with pytest.raises(ModelFailed) as told:
        await asked
    return str(told.value.details["reason"])


async def test_vectors_are_read_as_numbers_or_base64_in_the_order_of_the_texts(there: Provider, opened: Open) -> None:
    backend = opened(style="openai-embeddings")
    mixed = vectors([1, 0.5], as_text(-2.0, 0.25))
    mixed["data"].reverse()
    there.say(whole(mixed), Reply(bytewise(str(vectors([3, 4])).replace("'", '"').encode()), kind="application/json"))
    found = await backend.embed(["a", "b"], KEY)
    assert (found.dimensions, found.content) == (2, (packed(1.0, 0.5), packed(-2.0, 0.25)))
    assert (await backend.embed(["c"], KEY)).content == (packed(3.0, 4.0),)
    asked = there.asked[0]
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"model": "tiny", "input": ["a", "b"], "encoding_format": "base64"}
    assert asked.headers["authorization"] == f"Bearer {KEY}"


async def test_many_texts_are_sent_in_batches_and_long_vectors_work(there: Provider, opened: Open) -> None:
    long = [0.125] * 3072
    there.say(whole(vectors(*[long] * 32)), whole(vectors(*[long] * 8)))
    found = await opened(style="openai-embeddings").embed([f"text {n}" for n in range(40)], KEY)
    assert (found.dimensions, len(found.content)) == (3072, 40)
    assert [len(asked.body["input"]) for asked in there.asked] == [32, 8]


def test_a_batch_is_limited_by_texts_and_by_characters() -> None:
    assert [len(batch) for batch in batches_of(["x"] * 70)] == [32, 32, 6]
    assert [len(batch) for batch in batches_of(["x" * 60_000] * 5)] == [2, 2, 1]
    assert [len(batch) for batch in batches_of(["a", "x" * 500_000, "b"])] == [1, 1, 1]


@pytest.mark.parametrize(
    "body",
    [
        vectors([1.0]),
        vectors([1.0], [1.0], [1.0]),
        vectors([1.0], [1.0, 2.0]),
        vectors([], []),
        vectors([1.0], [1.0], first=1),
        vectors("not base64!", [1.0]),
        vectors("AAA=", [1.0]),
        vectors(as_text(float("nan")), as_text(1.0)),
        vectors(["a"], [1.0]),
        vectors([1e300], [1.0]),
        {"data": None},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        [],
        b'{"data": [NaN]}',
        b"[" * 100_000,
    ],
)
async def test_invalid_vectors_are_refused(body: Any, there: Provider, opened: Open) -> None:
    there.say(whole(body))
    assert await reason_of(opened(style="openai-embeddings").embed(["a", "b"], KEY)) == "broken_answer"


async def test_vectors_must_have_the_requested_dimensions(there: Provider, opened: Open) -> None:
    backend = opened(style="openai-embeddings", extra_args={"dimensions": 2, "encoding_format": "float"})
    there.say(whole(vectors([1, 2])), whole(vectors([1, 2, 3])))
    assert (await backend.embed(["a"], KEY)).dimensions == 2
    assert there.asked[0].body["dimensions"] == 2
    assert there.asked[0].body["encoding_format"] == "float"
    assert await reason_of(backend.embed(["a"], KEY)) == "broken_answer"
    assert await reason_of(backend.embed([], KEY)) == "invalid_request"


@pytest.mark.parametrize(
    "answer",
    [
        {
            "results": [
                {"index": 1, "relevance_score": 0.9, "document": {"text": "b"}},
                {"index": 0, "relevance_score": 1},
            ]
        },
        {"data": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 1.0}]},
        [{"index": 1, "score": 0.9}, {"index": 0, "score": 1.0}],
        {"results": [{"index": 0, "score": 1.0}, {"index": 1, "score": 0.9}, {"index": 2, "score": -5}]},
    ],
)
async def test_scores_of_several_shapes_are_read_and_sorted(answer: Any, there: Provider, opened: Open) -> None:
    there.say(whole(answer))
    scores = await opened(style="rerank").rerank("what?", ["a", "b", "c"], 2, KEY)
    assert [(score.index, score.score) for score in scores] == [(0, 1.0), (1, 0.9)]
    assert there.asked[0].path == "/v1/rerank"
    assert there.asked[0].body == {"model": "tiny", "query": "what?", "documents": ["a", "b", "c"], "top_n": 2}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"results": [{"index": 3, "relevance_score": 1.0}]},
        {"results": [{"index": -1, "relevance_score": 1.0}]},
        {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 0.5}]},
        {"results": [{"index": 0}]},
        {"results": [{"index": 0, "relevance_score": "high"}]},
        b'{"results": [{"index": 0, "relevance_score": NaN}]}',
    ],
)
async def test_invalid_scores_are_refused(answer: Any, there: Provider, opened: Open) -> None:
    there.say(whole(answer))
    assert await reason_of(opened(style="rerank").rerank("q", ["a", "b", "c"], None, KEY)) == "broken_answer"


async def test_a_rerank_has_a_limit_of_documents(there: Provider, opened: Open) -> None:
    backend = opened(style="rerank")
    assert await reason_of(backend.rerank("q", ["x"] * 65, None, KEY)) == "invalid_request"
    assert await reason_of(backend.rerank("q", [], None, KEY)) == "invalid_request"
    assert there.asked == []


@pytest.mark.parametrize("style", ["rerank", "openai-embeddings"])
async def test_errors_of_embeddings_and_reranks_have_their_reason_too(
    style: str, there: Provider, opened: Open
) -> None:
    backend = opened(style=style)
    there.say(
        whole({"error": {"message": "slow"}}, status=429, retry_after="3"), whole({"error": {"type": "server_error"}})
    )
    for reason in ("rate_limited", "overloaded"):
        asked = backend.rerank("q", ["a"], None, KEY) if style == "rerank" else backend.embed(["a"], KEY)
        assert await reason_of(asked) == reason
