"""The run API: every wire action, its parameters, its answer and the permission it needs (§6).

Parameters travel from runner to host, so they are strict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field

from bollard.protocol import limits, pages
from bollard.protocol.context import AgentInput
from bollard.protocol.message import Message, MessageChunk
from bollard.protocol.results import StateScope
from bollard.protocol.shape import Bytes64, Digest, Flag, Int, JsonObject, JsonValue, Shape, Strict, Timestamp, Tolerant

__all__ = [
    "ACTIONS",
    "RANGED_READS",
    "Action",
    "AgentsCall",
    "ArtifactsAppend",
    "ArtifactsBegin",
    "ArtifactsFinish",
    "ArtifactsMetadata",
    "ArtifactsRead",
    "EventsGet",
    "EventsPage",
    "FilesGet",
    "FunctionTool",
    "FunctionToolSpec",
    "HistoryFilters",
    "HistoryPageQuery",
    "HistorySearch",
    "HostInfoQuery",
    "HostPrompt",
    "KnowledgeListQuery",
    "KnowledgeRetrieve",
    "ModelsEmbed",
    "ModelsInvoke",
    "ModelsRerank",
    "PlatformRequest",
    "StateDelete",
    "StateGet",
    "StateList",
    "StateSet",
    "SteeringPull",
    "StorageArea",
    "StorageDelete",
    "StorageGet",
    "StorageList",
    "StorageSet",
    "ToolsCall",
    "ToolsDetail",
]

Key = Annotated[str, Field(min_length=1, max_length=limits.STATE_KEY_CHARACTERS)]
PageLimit = Annotated[Int, Field(ge=1, le=limits.PAGE_ITEMS)]
TopK = Annotated[Int, Field(ge=1, le=limits.SEARCH_TOP_K)]
Offset = Annotated[Int, Field(ge=0)]
Length = Annotated[Int, Field(ge=1, le=limits.READ_BYTES)]
StorageArea = Literal["plugin", "workspace"]


class FunctionToolSpec(Tolerant):
    """A function offered to a model."""

    name: str
    description: str | None = None
    parameters: JsonObject = Field(default_factory=dict)


class FunctionTool(Tolerant):
    """A tool offered to a model, in the form models know."""

    type: Literal["function"] = "function"
    function: FunctionToolSpec


class ModelsInvoke(Strict):
    """Parameters of `models.invoke` and `models.stream`."""

    model_id: str
    messages: tuple[Message, ...] = Field(min_length=1)
    tools: tuple[FunctionTool, ...] | None = None
    extra_args: JsonObject | None = None


class ModelsRerank(Strict):
    """Parameters of `models.rerank`."""

    model_id: str
    query: str
    documents: tuple[str, ...] = Field(min_length=1, max_length=limits.RERANK_DOCUMENTS)
    top_k: Int | None = Field(default=None, ge=1)


class ModelsEmbed(Strict):
    """Parameters of `models.embed`."""

    model_id: str
    texts: tuple[str, ...] = Field(min_length=1)


class ToolsDetail(Strict):
    """Parameters of `tools.detail`: many at once."""

    names: tuple[str, ...] = Field(min_length=1, max_length=limits.PAGE_ITEMS)


class ToolsCall(Strict):
    """Parameters of `tools.call`. The same call id with the same parameters returns the recorded outcome."""

    name: str
    parameters: JsonObject
    call_id: str | None = Field(default=None, min_length=1, max_length=128)


class KnowledgeListQuery(Strict):
    """Parameters of `knowledge.list`: none."""


class KnowledgeRetrieve(Strict):
    """Parameters of `knowledge.retrieve`."""

    kb_id: str
    query: str
    top_k: TopK = 5
    filters: JsonObject | None = None


class HistoryPageQuery(Strict):
    """Parameters of `history.page`."""

    conversation_id: str | None = None
    before: str | None = None
    after: str | None = None
    limit: PageLimit = 50
    direction: Literal["backward", "forward"] = "backward"
    include_artifacts: Flag = False


class HistorySearch(Strict):
    """Parameters of `history.search`."""

    query: str
    filters: JsonObject | None = None
    top_k: TopK = 10


class HistoryFilters(Strict):
    """`filters` of `history.search`. Every given filter must match; times are exclusive."""

    conversation_id: str | None = Field(default=None, description="Another conversation that the grant names.")
    event_types: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=16)
    role: str | None = None
    actor_type: str | None = None
    actor_id: str | None = Field(default=None, description="The sender of the message.")
    before: Timestamp | None = None
    after: Timestamp | None = None


class EventsGet(Strict):
    """Parameters of `events.get`."""

    event_id: str


class EventsPage(Strict):
    """Parameters of `events.page`."""

    before: str | None = None
    limit: PageLimit = 50


class SteeringPull(Strict):
    """Parameters of `steering.pull`."""

    mode: Literal["all", "one-at-a-time"] = "all"
    limit: Int | None = Field(default=None, ge=1, le=limits.STEERING_QUEUE)


class ArtifactsMetadata(Strict):
    """Parameters of `artifacts.metadata`."""

    artifact_id: str


class ArtifactsRead(Strict):
    """Parameters of `artifacts.read`."""

    artifact_id: str
    offset: Offset = 0
    length: Length = limits.READ_BYTES_DEFAULT


class ArtifactsBegin(Strict):
    """Parameters of `artifacts.begin`: open an upload."""

    name: str
    mime_type: str
    artifact_type: str = "file"


class ArtifactsAppend(Strict):
    """Parameters of `artifacts.append`: the bytes at `offset`; the same bytes again change nothing."""

    upload_id: str
    offset: Offset
    content_base64: Bytes64


class ArtifactsFinish(Strict):
    """Parameters of `artifacts.finish`: the digest of the whole decides whether it is kept."""

    upload_id: str
    sha256: Digest


class StateGet(Strict):
    """Parameters of `state.get`."""

    scope: StateScope
    key: Key


class StateSet(Strict):
    """Parameters of `state.set`; `if_version` makes it compare-and-set, 0 means "must not exist"."""

    scope: StateScope
    key: Key
    value: JsonValue
    if_version: Int | None = Field(default=None, ge=0)
    ttl: Int | None = Field(default=None, ge=1, description="Seconds.")


class StateDelete(Strict):
    """Parameters of `state.delete`."""

    scope: StateScope
    key: Key
    if_version: Int | None = Field(default=None, ge=0)


class StateList(Strict):
    """Parameters of `state.list`."""

    scope: StateScope
    prefix: str = ""
    cursor: str | None = None
    limit: Annotated[Int, Field(ge=1, le=limits.STATE_LIST_KEYS)] = limits.STATE_LIST_KEYS


class StorageGet(Strict):
    """Parameters of `storage.get`."""

    area: StorageArea
    key: Key
    offset: Offset = 0
    length: Length = limits.READ_BYTES_DEFAULT


class StorageSet(Strict):
    """Parameters of `storage.set`."""

    area: StorageArea
    key: Key
    content_base64: Bytes64


class StorageDelete(Strict):
    """Parameters of `storage.delete`."""

    area: StorageArea
    key: Key


class StorageList(Strict):
    """Parameters of `storage.list`."""

    area: StorageArea
    prefix: str = ""
    cursor: str | None = None
    limit: Annotated[Int, Field(ge=1, le=limits.STATE_LIST_KEYS)] = limits.STATE_LIST_KEYS


class FilesGet(Strict):
    """Parameters of `files.get`."""

    file_id: str
    offset: Offset = 0
    length: Length = limits.READ_BYTES_DEFAULT


class AgentsCall(Strict):
    """Parameters of `agents.call`."""

    agent_id: str
    input: AgentInput


class PlatformRequest(Strict):
    """Parameters of `platform.request`."""

    action: str
    target: JsonObject | None = None
    payload: JsonObject | None = None


class HostInfoQuery(Strict):
    """Parameters of `host.info`: none."""


class HostPrompt(Strict):
    """Parameters of `host.prompt`. Without a name, the first prompt of the form."""

    name: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS)] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One row of the run API table."""

    name: str
    params: type[Strict]
    result: type[Shape]
    """The answer, or each chunk of a streamed call."""
    permission: tuple[str, str | None] | None
    """The manifest's permission key and value; `None` where the manifest has no key for it. A `None` value means
    that the parameters or the resource decide which value is needed."""
    streamed: bool = False


def _table() -> Mapping[str, Action]:
    rows: tuple[tuple[str, type[Strict], type[Shape], tuple[str, str | None] | None], ...] = (
        ("models.invoke", ModelsInvoke, Message, ("models", "invoke")),
        ("models.stream", ModelsInvoke, MessageChunk, ("models", "stream")),
        ("models.rerank", ModelsRerank, pages.RerankResult, ("models", "rerank")),
        ("models.embed", ModelsEmbed, pages.Embeddings, ("models", "embed")),
        ("tools.detail", ToolsDetail, pages.ToolDetailList, ("tools", "detail")),
        ("tools.call", ToolsCall, pages.ToolResult, ("tools", "call")),
        ("knowledge.list", KnowledgeListQuery, pages.KnowledgeBaseList, ("knowledge_bases", "list")),
        ("knowledge.retrieve", KnowledgeRetrieve, pages.KnowledgeResult, ("knowledge_bases", "retrieve")),
        ("history.page", HistoryPageQuery, pages.HistoryPage, ("history", "page")),
        ("history.search", HistorySearch, pages.HistorySearchResult, ("history", "search")),
        ("events.get", EventsGet, pages.AgentEventRecord, ("events", "get")),
        ("events.page", EventsPage, pages.EventPage, ("events", "page")),
        ("steering.pull", SteeringPull, pages.SteeringPullResult, None),
        ("artifacts.metadata", ArtifactsMetadata, pages.ArtifactMetadata, ("artifacts", "metadata")),
        ("artifacts.read", ArtifactsRead, pages.ArtifactReadResult, ("artifacts", "read")),
        ("artifacts.begin", ArtifactsBegin, pages.ArtifactUpload, ("artifacts", "write")),
        ("artifacts.append", ArtifactsAppend, pages.ArtifactUpload, ("artifacts", "write")),
        ("artifacts.finish", ArtifactsFinish, pages.ArtifactMetadata, ("artifacts", "write")),
        ("state.get", StateGet, pages.StateValue, None),
        ("state.set", StateSet, pages.Written, None),
        ("state.delete", StateDelete, pages.Written, None),
        ("state.list", StateList, pages.KeyPage, None),
        ("storage.get", StorageGet, pages.BytesResult, ("storage", None)),
        ("storage.set", StorageSet, pages.Written, ("storage", None)),
        ("storage.delete", StorageDelete, pages.Written, ("storage", None)),
        ("storage.list", StorageList, pages.KeyPage, ("storage", None)),
        ("files.get", FilesGet, pages.BytesResult, ("files", None)),
        ("agents.call", AgentsCall, pages.ChildRunResult, ("agents", "call")),
        ("platform.request", PlatformRequest, pages.PlatformOutcome, ("platform", "request")),
        ("host.info", HostInfoQuery, pages.HostInfo, None),
        ("host.prompt", HostPrompt, pages.AgentPrompt, None),
    )
    return MappingProxyType(
        {
            name: Action(
                name=name, params=params, result=result, permission=permission, streamed=name == "models.stream"
            )
            for name, params, result, permission in rows
        }
    )


ACTIONS: Final = _table()
"""Every wire action by name."""

RANGED_READS: Final = frozenset({"artifacts.read", "files.get", "storage.get"})
"""Actions that answer with `READ_BYTES` of content at most. Encoded that is more than `CALL_BYTES`, so that the frame
is what limits their answers."""
