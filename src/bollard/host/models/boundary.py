"""What a model is to the rest of the host, whoever serves it.

A backend speaks one vendor's format. It knows nothing of runs, grants, budgets or secrets: it is given the key, it
yields what the vendor said, and it raises `ModelFailed` with what a caller can decide on.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from bollard.protocol import FunctionTool, JsonObject, JsonValue, Message, MessageChunk, RerankScore

ModelType = Literal["llm", "rerank", "embedding"]
Style = Literal["openai-chat", "openai-responses", "anthropic", "openai-embeddings", "rerank", "demo"]
"""The API format of an endpoint. `rerank` is the common format of Cohere, Jina and OpenAI-compatible servers."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a million tokens, in one currency."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None
    currency: str = "USD"


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one model: everything that a call needs except the key."""

    model_id: str
    model_type: ModelType
    style: Style
    base_url: str = ""
    """The base URL with the API version: `https://api.openai.com/v1`."""
    model: str = ""
    """The name of the model at the provider."""
    secret: str | None = None
    """The name of the secret that holds the key."""
    headers: tuple[tuple[str, str], ...] = ()
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool = False
    extra_args: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """Arguments of every call; those of the call itself win."""
    price: Price | None = None
    connect_s: float = 10.0
    first_token_s: float = 60.0
    idle_s: float = 60.0
    """Maximum time between two chunks of an answer."""
    tries: int = 3
    """Maximum attempts of a call; it is not retried after a part of the answer was emitted."""
    at_once: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a chat model. Content is text, image_base64, image_url or file_*; artifacts are resolved."""

    messages: tuple[Message, ...]
    tools: tuple[FunctionTool, ...] = ()
    extra_args: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """`temperature`, `max_tokens`, `tool_choice`, `response_format`, `reasoning_effort`, …: a backend passes them on by
    the name that its format has for them. An argument that is not known must be opened by an operator, who names it in
    the model's own `extra_args`."""


class Vectors(msgspec.Struct, frozen=True):
    """Embeddings: little-endian float32, one after the other."""

    dimensions: int
    content: tuple[bytes, ...]


class ModelBackend(Protocol):
    """One model of one provider. All methods raise `ModelFailed`, and stop cleanly when they are cancelled."""

    def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        """Increments as they come. The last carries `finish_reason`, and `usage` where the provider told it; tool calls
        come in increments with an index; what a model thinks is `reasoning`, never `content`. `metadata.cached_tokens`
        beside the usage is how much of the prompt came from the provider's cache."""
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
