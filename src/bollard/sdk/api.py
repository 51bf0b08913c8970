"""`ctx.api`: the calls of the run API by family. The families that store data are in `api_stores`."""

import sys
from array import array
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from bollard.protocol import (
    AgentEventRecord,
    AgentInput,
    AgentPrompt,
    ChildRunResult,
    Embeddings,
    EventPage,
    FunctionTool,
    HistoryPage,
    HistorySearchResult,
    HostInfo,
    JsonObject,
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeChunk,
    KnowledgeResult,
    Message,
    MessageChunk,
    PlatformOutcome,
    RerankResult,
    RerankScore,
    SteeringPullResult,
    ToolDetail,
    ToolDetailList,
    ToolResult,
)
from bollard.sdk.api_stores import ArtifactsApi, FilesApi, StateApi, StorageApi
from bollard.sdk.calls import ApiCaller, Namespace, decode_content
from bollard.sdk.errors import api_failure

Messages = Sequence[Message | Mapping[str, Any]]
Functions = Sequence[FunctionTool | Mapping[str, Any]]


class ModelsApi(Namespace):
    """Models the run may use; their ids are in `ctx.resources.models`."""

    __slots__ = ()

    async def invoke(
        self, model_id: str, messages: Messages, tools: Functions | None = None, extra_args: JsonObject | None = None
    ) -> Message:
        """Return the complete answer."""
        fields = {"model_id": model_id, "messages": messages, "tools": tools, "extra_args": extra_args}
        return await self._ask("models.invoke", Message, fields)

    def stream(
        self, model_id: str, messages: Messages, tools: Functions | None = None, extra_args: JsonObject | None = None
    ) -> AsyncGenerator[MessageChunk, None]:
        """Yield the answer in increments. Close the generator (`contextlib.aclosing`) to cancel the rest."""
        fields = {"model_id": model_id, "messages": messages, "tools": tools, "extra_args": extra_args}
        return self._ask_stream("models.stream", MessageChunk, fields)

    async def rerank(
        self, model_id: str, query: str, documents: Sequence[str], limit: int | None = None, *, top_k: int | None = None
    ) -> tuple[RerankScore, ...]:
        """Score at most 64 documents against the query. Returns the best ones first, all of them without `limit`."""
        most = limit if top_k is None else top_k
        fields = {"model_id": model_id, "query": query, "documents": documents, "top_k": most}
        return (await self._ask("models.rerank", RerankResult, fields)).results

    async def embed(self, model_id: str, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text."""
        answer = await self._ask("models.embed", Embeddings, {"model_id": model_id, "texts": texts})
        return [_vector(encoded, answer.dimensions) for encoded in answer.vectors_base64]


def _vector(encoded: str, dimensions: int) -> list[float]:
    content = decode_content("models.embed", encoded)
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
        """Return the schemas of the tools."""
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
        """Return the granted knowledge bases."""
        return (await self._ask("knowledge.list", KnowledgeBaseList, {})).knowledge_bases

    async def retrieve(
        self, kb_id: str, query: str, limit: int = 5, filters: JsonObject | None = None, *, top_k: int | None = None
    ) -> tuple[KnowledgeChunk, ...]:
        """Return the best matching chunks with their sources, at most 50."""
        most = limit if top_k is None else top_k
        fields = {"kb_id": kb_id, "query": query, "top_k": most, "filters": filters}
        return (await self._ask("knowledge.retrieve", KnowledgeResult, fields)).chunks


class HistoryApi(Namespace):
    """The transcript: of this conversation and thread, unless more was granted."""

    __slots__ = ()

    async def page(
        self,
        conversation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        direction: Literal["backward", "forward"] = "backward",
        include_artifacts: bool = False,
    ) -> HistoryPage:
        """One page, at most 100 items."""
        fields = {
            "conversation_id": conversation_id,
            "before": before,
            "after": after,
            "limit": limit,
            "direction": direction,
            "include_artifacts": include_artifacts,
        }
        return await self._ask("history.page", HistoryPage, fields)

    async def search(
        self, query: str, filters: JsonObject | None = None, limit: int = 10, *, top_k: int | None = None
    ) -> HistorySearchResult:
        """Return the best matching items, at most 50."""
        most = limit if top_k is None else top_k
        fields = {"query": query, "filters": filters, "top_k": most}
        return await self._ask("history.search", HistorySearchResult, fields)


class EventsApi(Namespace):
    """The events of this conversation."""

    __slots__ = ()

    async def get(self, event_id: str) -> AgentEventRecord:
        """One event."""
        return await self._ask("events.get", AgentEventRecord, {"event_id": event_id})

    async def page(self, before: str | None = None, limit: int = 50) -> EventPage:
        """One page, at most 100 items."""
        return await self._ask("events.page", EventPage, {"before": before, "limit": limit})


class SteeringApi(Namespace):
    """Messages that were absorbed into this run."""

    __slots__ = ()

    async def pull(self, mode: Literal["all", "one-at-a-time"] = "all", limit: int | None = None) -> SteeringPullResult:
        """Return the waiting messages. Pull after a tool batch, before a model call, and once more before ending."""
        return await self._ask("steering.pull", SteeringPullResult, {"mode": mode, "limit": limit})


class AgentsApi(Namespace):
    """Other agents the run may call; their ids are in `ctx.resources.agents`."""

    __slots__ = ()

    # `input` is the protocol's own name.
    async def call(self, agent_id: str, input: str | AgentInput | Mapping[str, Any]) -> ChildRunResult:  # noqa: A002
        """Run another agent to its end."""
        given = AgentInput(text=input) if isinstance(input, str) else input
        return await self._ask("agents.call", ChildRunResult, {"agent_id": agent_id, "input": given})


class PlatformApi(Namespace):
    """Actions on the platform the event came from."""

    __slots__ = ()

    async def request(
        self, action: str, target: JsonObject | None = None, payload: JsonObject | None = None
    ) -> PlatformOutcome:
        """Request an action and return its outcome, after policy and approval."""
        fields = {"action": action, "target": target, "payload": payload}
        return await self._ask("platform.request", PlatformOutcome, fields)


class HostApi(Namespace):
    """The host itself."""

    __slots__ = ()

    async def info(self) -> HostInfo:
        """Return the host's version and limits."""
        return await self._ask("host.info", HostInfo, {})

    async def prompt(self, name: str | None = None) -> AgentPrompt:
        """Return a prompt that people configured for the agent: a field of type `prompt-editor`, by default the first.
        It does not change during the run."""
        return await self._ask("host.prompt", AgentPrompt, {"name": name})


class RunApi:
    """The run API of one run, by family. Every call raises `AgentAPIException` if the host refuses it.

    `top_k` is the old name of `limit` and wins over it.
    """

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller

    # Families are created on first use: most runs use one or two of them.
    models = cached_property(lambda self: ModelsApi(self._caller))
    tools = cached_property(lambda self: ToolsApi(self._caller))
    knowledge = cached_property(lambda self: KnowledgeApi(self._caller))
    history = cached_property(lambda self: HistoryApi(self._caller))
    events = cached_property(lambda self: EventsApi(self._caller))
    steering = cached_property(lambda self: SteeringApi(self._caller))
    artifacts = cached_property(lambda self: ArtifactsApi(self._caller))
    state = cached_property(lambda self: StateApi(self._caller))
    storage = cached_property(lambda self: StorageApi(self._caller))
    files = cached_property(lambda self: FilesApi(self._caller))
    agents = cached_property(lambda self: AgentsApi(self._caller))
    platform = cached_property(lambda self: PlatformApi(self._caller))
    host = cached_property(lambda self: HostApi(self._caller))
