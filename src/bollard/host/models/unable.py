"""What a model of one kind cannot do, said in the same words by all of them."""

from collections.abc import AsyncGenerator, Sequence

from bollard.host.models.boundary import ModelCall, Vectors
from bollard.host.models.failures import failed
from bollard.protocol import Message, MessageChunk, RerankScore

__all__ = ["Unable"]


class Unable:
    """Refuses everything; a backend overrides what it can do."""

    def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not talk")

    async def invoke(self, call: ModelCall, key: str | None) -> Message:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not talk")

    async def rerank(
        self,
        query: str,  # noqa: ARG002 -- the boundary's, like those below
        documents: Sequence[str],  # noqa: ARG002
        top_k: int | None,  # noqa: ARG002
        key: str | None,  # noqa: ARG002
    ) -> tuple[RerankScore, ...]:
        raise failed("not_supported", "this model does not rerank")

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model has no embeddings")
