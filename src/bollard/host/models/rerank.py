"""Reranking over `/rerank`, with the answer formats of Cohere, Jina and compatible servers."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bollard.host.models.endpoint import Endpoint
from bollard.host.models.failures import ProviderError, failed
from bollard.host.models.formats import UnsupportedModel, arguments_of, parsed
from bollard.host.models.openai_chat import bearer
from bollard.host.models.specs import SavedModel
from bollard.protocol import JsonObject, RerankScore, limits

_PATH: Final = "/rerank"


class _Score(msgspec.Struct):
    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Scores(msgspec.Struct):
    results: list[_Score] | None = None
    data: list[_Score] | None = None
    error: Any = None


class Reranker(UnsupportedModel):
    """A rerank model. Implements `ModelBackend`."""

    def __init__(self, endpoint: Endpoint, spec: SavedModel) -> None:
        self._endpoint = endpoint
        self._spec = spec

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        if not documents or len(documents) > limits.RERANK_DOCUMENTS:
            raise failed(
                "invalid_request",
                f"{len(documents)} documents were sent, 1 to {limits.RERANK_DOCUMENTS} can be ranked",
                "model.documents",
                hint="send fewer at once",
                count=len(documents),
                limit=limits.RERANK_DOCUMENTS,
            )
        wanted = min(top_k or len(documents), len(documents))
        body: JsonObject = {"model": self._spec.model, "query": query, "documents": [*documents], "top_n": wanted}
        body |= arguments_of(self._spec)
        body = {name: value for name, value in body.items() if value is not None}
        async with self._endpoint.asked(_PATH, body, bearer(key), key) as answer:
            return read_scores(await answer.whole(), len(documents))[:wanted]

    async def close(self) -> None:
        await self._endpoint.close()


def read_scores(answer: bytes, documents: int) -> tuple[RerankScore, ...]:
    """Best first. Raises `ModelFailed` and `ProviderError`."""
    if answer.lstrip()[:1] == b"[":
        body = _Scores(results=parsed(answer, list[_Score], "the answer"))
    else:
        body = parsed(answer, _Scores, "the answer")
    if body.error:
        raise ProviderError.read(body.error)
    scores = body.results if body.results is not None else body.data
    if scores is None:
        raise failed("broken_answer", "the answer has no scores", "model.no_scores")
    found: dict[int, RerankScore] = {}
    for each in scores:
        value = each.relevance_score if each.relevance_score is not None else each.score
        if value is None or not 0 <= each.index < documents or each.index in found:
            message = "the answer scores an unknown document, or one document twice"
            raise failed("broken_answer", message, "model.scores")
        found[each.index] = RerankScore(index=each.index, score=float(value))
    return tuple(sorted(found.values(), key=lambda score: (-score.score, score.index)))
