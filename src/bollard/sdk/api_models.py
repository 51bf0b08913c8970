"""Calls that reach models, tools and knowledge: `api.models`, `api.tools`, `api.knowledge`."""

import sys
from array import array
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from bollard.protocol import (
    Embeddings,
    FunctionTool,
    JsonObject,
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeChunk,
    KnowledgeResult,
    Message,
    MessageChunk,
    RerankResult,
    RerankScore,
    ToolDetail,
    ToolDetailList,
    ToolResult,
)
from bollard.sdk.calls import Namespace, decoded
from bollard.sdk.errors import api_failure

__all__ = ["KnowledgeApi", "ModelsApi", "ToolsApi"]

Messages = Sequence[Message | Mapping[str, Any]]
Functions = Sequence[FunctionTool | Mapping[str, Any]]


class ModelsApi(Namespace):
    """Models the run may use; their ids are in `ctx.resources.models`."""

    __slots__ = ()

    async def invoke(
        self, model_id: str, messages: Messages, tools: Functions | None = None, extra_args: JsonObject | None = None
    ) -> Message:
        """One whole answer."""
        fields = {"model_id": model_id, "messages": messages, "tools": tools, "extra_args": extra_args}
        return await self._ask("models.invoke", Message, fields)

    def stream(
        self, model_id: str, messages: Messages, tools: Functions | None = None, extra_args: JsonObject | None = None
    ) -> AsyncGenerator[MessageChunk, None]:
        """The answer in increments. Close it (`contextlib.aclosing`) to give the rest up."""
        fields = {"model_id": model_id, "messages": messages, "tools": tools, "extra_args": extra_args}
        return self._ask_stream("models.stream", MessageChunk, fields)

    async def rerank(
        self, model_id: str, query: str, documents: Sequence[str], top_k: int | None = None
    ) -> tuple[RerankScore, ...]:
        """How well each document fits, best first; at most 64 documents."""
        fields = {"model_id": model_id, "query": query, "documents": documents, "top_k": top_k}
        return (await self._ask("models.rerank", RerankResult, fields)).results

    async def embed(self, model_id: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        answer = await self._ask("models.embed", Embeddings, {"model_id": model_id, "texts": texts})
        return [_vector(encoded, answer.dimensions) for encoded in answer.vectors_base64]


def _vector(encoded: str, dimensions: int) -> list[float]:
    content = decoded("models.embed", encoded)
    if len(content) != 4 * dimensions:
        message = f"the host's answer to models.embed has a vector of {len(content)} bytes for {dimensions} dimensions"
        raise api_failure("runtime_error", message)
    values = array("f")
    values.frombytes(content)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


class ToolsApi(Namespace):
    """Tools the run may use; their names are in `ctx.resources.tools`."""

    __slots__ = ()

    async def detail(self, names: Sequence[str]) -> tuple[ToolDetail, ...]:
        """How the tools are called, many at once."""
        fields = {"names": (names,) if isinstance(names, str) else names}
        return (await self._ask("tools.detail", ToolDetailList, fields)).tools

    async def call(self, name: str, parameters: JsonObject, call_id: str | None = None) -> ToolResult:
        """Call a tool. The same `call_id` with the same parameters returns the recorded outcome."""
        fields = {"name": name, "parameters": parameters, "call_id": call_id}
        return await self._ask("tools.call", ToolResult, fields)


class KnowledgeApi(Namespace):
    """Knowledge bases the run may ask."""

    __slots__ = ()

    async def list(self) -> tuple[KnowledgeBaseResource, ...]:
        """Those that were granted."""
        return (await self._ask("knowledge.list", KnowledgeBaseList, {})).knowledge_bases

    async def retrieve(
        self, kb_id: str, query: str, top_k: int = 5, filters: JsonObject | None = None
    ) -> tuple[KnowledgeChunk, ...]:
        """The pieces that fit best, with where they came from."""
        fields = {"kb_id": kb_id, "query": query, "top_k": top_k, "filters": filters}
        return (await self._ask("knowledge.retrieve", KnowledgeResult, fields)).chunks
