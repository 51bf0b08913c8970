"""The interface of a model backend.

A backend speaks the format of one vendor. It knows nothing of runs, grants, budgets or secrets: its caller passes the
key, and every failure is a `ModelFailed`.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from bollard.protocol import FunctionTool, JsonObject, JsonValue, Message, MessageChunk, RerankScore

ModelType = Literal["llm", "rerank", "embedding"]
Style = Literal["openai-chat", "openai-responses", "anthropic", "openai-embeddings", "rerank", "demo"]
"""The API format of an endpoint. `rerank` is the common format of Cohere, Jina and OpenAI-compatible servers."""


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a chat model. Content is text, image_base64, image_url or file_*; artifacts are resolved."""

    messages: tuple[Message, ...]
    tools: tuple[FunctionTool, ...] = ()
    extra_args: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """`temperature`, `max_tokens`, `tool_choice`, `response_format`, `reasoning_effort`, …: a backend sends each under
    the name of its format. Other arguments are refused unless the `extra_args` of the model list them."""


class Vectors(msgspec.Struct, frozen=True):
    """Embeddings: little-endian float32, one after the other."""

    dimensions: int
    content: tuple[bytes, ...]


class ModelBackend(Protocol):
    """One model of one provider. All methods raise `ModelFailed`, and stop cleanly when they are cancelled."""

    def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        """Yield chunks as they arrive. The last has `finish_reason`, and `usage` if the provider reports it. Tool calls
        come in chunks with an index. Thoughts of the model are `reasoning`, never `content`. `metadata.cached_tokens`
        beside the usage counts prompt tokens from the cache of the provider."""
        ...

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        """A complete answer without streaming."""
        ...

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        """Best first."""
        ...

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors: ...

    async def close(self) -> None: ...
