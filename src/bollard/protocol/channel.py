"""The channel between host and worker: its methods and their parameters (§11)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field

from bollard.protocol import limits
from bollard.protocol.context import ActorContext, AgentRunRequest, ConversationContext
from bollard.protocol.manifest import Effects, FlowBits, Name, Risk, RunnerList
from bollard.protocol.message import ContentElement
from bollard.protocol.results import AgentRunResult
from bollard.protocol.shape import Digest, Flag, Int, JsonObject, JsonValue, Number, Shape, Strict, Tolerant

__all__ = [
    "CHANNEL_FD_VARIABLE",
    "METHODS",
    "ApiCall",
    "ApiCancel",
    "ApiChunk",
    "ApiCredit",
    "ApiStream",
    "ChannelLimits",
    "Empty",
    "InitializeParams",
    "InitializeResult",
    "LogLevel",
    "LogRecord",
    "Method",
    "PluginIdentity",
    "RunCancel",
    "RunCredit",
    "RunStarted",
    "Shutdown",
    "ToolAnswer",
    "ToolCallContext",
    "ToolCallParams",
    "ToolCancel",
    "ToolDefinition",
    "ToolList",
    "WorkerIdentity",
]

CHANNEL_FD_VARIABLE: Final = "BOLLARD_CHANNEL_FD"
"""The environment variable that holds the number of the inherited socket."""

LogLevel = Literal["debug", "info", "warning", "error", "critical"]


class Empty(Tolerant):
    """No fields."""


class ChannelLimits(Tolerant):
    """What one side can take."""

    frame_bytes: Int = Field(default=limits.FRAME_BYTES, ge=1024)
    window_results: Int = Field(default=limits.WINDOW_RESULTS, ge=1)
    window_bytes: Int = Field(default=limits.WINDOW_BYTES, ge=1024)


class InitializeParams(Tolerant):
    """The host introduces itself."""

    protocol: Int
    host_version: str
    limits: ChannelLimits = Field(default_factory=ChannelLimits)


class WorkerIdentity(Strict):
    """What serves the plugin."""

    name: str
    version: str
    language: str


class PluginIdentity(Strict):
    """Which plugin the channel speaks for; fixed once."""

    author: Name
    name: Name
    version: str
    digest: Digest | None = None


class InitializeResult(Strict):
    """The worker introduces itself."""

    protocol: Int
    worker: WorkerIdentity
    plugin: PluginIdentity
    limits: ChannelLimits = Field(default_factory=ChannelLimits)


class RunStarted(Strict):
    """The answer to `run/start`, sent when the run has ended."""

    last_sequence: Int = Field(ge=0)


class RunCancel(Tolerant):
    """Parameters of `run/cancel`; the reason is a failure code."""

    run_id: str
    reason: str = "cancelled"


class RunCredit(Tolerant):
    """Parameters of `run/credit`: committed through `sequence`."""

    run_id: str
    sequence: Int = Field(ge=0)


class Shutdown(Tolerant):
    """Parameters of `shutdown`: what runs may end within `grace_s`."""

    grace_s: Number = Field(default=limits.CANCEL_GRACE_S, ge=0)


class ToolDefinition(Strict):
    """One tool of a plugin, as its worker describes it."""

    name: Name
    description: str = Field(max_length=limits.TEXT_CHARACTERS)
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    risk: Risk | None = None
    flow: FlowBits | None = None
    effects: Effects | None = None


class ToolList(Strict):
    """The answer to `tools/list`. A host validates each entry on its own."""

    tools: tuple[ToolDefinition, ...] = ()


class ToolCallContext(Tolerant):
    """For whom a tool is called. A tool has no run API."""

    run_id: str
    workspace_id: str
    agent_id: str
    actor: ActorContext | None = None
    conversation: ConversationContext | None = None
    locale: str | None = None
    traceparent: str | None = None


class ToolCallParams(Tolerant):
    """Parameters of `tool/call`."""

    call_id: str
    """Unique on its connection, over the calls of all runs."""
    tool: str
    arguments: JsonObject
    timeout_ms: Int = Field(ge=1)
    context: ToolCallContext


class ToolAnswer(Strict):
    """The answer to `tool/call`."""

    content: tuple[ContentElement, ...] = ()
    structured: JsonValue = None
    is_error: Flag = False


class ToolCancel(Tolerant):
    """Parameters of `tool/cancel`."""

    call_id: str


class ApiCall(Strict):
    """Parameters of `api/call`."""

    run_id: str
    action: str
    params: JsonObject = Field(default_factory=dict)


class ApiStream(Strict):
    """Parameters of `api/stream`; the response closes the stream."""

    run_id: str
    stream_id: str = Field(min_length=1, max_length=128)
    action: str
    params: JsonObject = Field(default_factory=dict)


class ApiChunk(Tolerant):
    """Parameters of `api/chunk`; `index` counts 1, 2, 3 …"""

    stream_id: str
    index: Int = Field(ge=1)
    data: JsonValue


class ApiCredit(Strict):
    """Parameters of `api/credit`: taken through `index`."""

    stream_id: str
    index: Int = Field(ge=0)


class ApiCancel(Strict):
    """Parameters of `api/cancel`: the JSON-RPC id of the call or stream that is given up."""

    run_id: str
    id: Int | str


class LogRecord(Strict):
    """Parameters of `log`."""

    level: LogLevel
    message: str = Field(max_length=limits.LOG_MESSAGE_CHARACTERS)
    fields: JsonObject = Field(default_factory=dict)
    run_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One method of the channel. A notification has no result."""

    name: str
    sent_by: Literal["host", "worker"]
    params: type[Shape]
    result: type[Shape] | None


def _table() -> Mapping[str, Method]:
    rows: tuple[tuple[str, Literal["host", "worker"], type[Shape], type[Shape] | None], ...] = (
        ("initialize", "host", InitializeParams, InitializeResult),
        ("runners/list", "host", Empty, RunnerList),
        ("run/start", "host", AgentRunRequest, RunStarted),
        ("run/cancel", "host", RunCancel, None),
        ("run/credit", "host", RunCredit, None),
        ("ping", "host", Empty, Empty),
        ("shutdown", "host", Shutdown, Empty),
        ("tools/list", "host", Empty, ToolList),
        ("tool/call", "host", ToolCallParams, ToolAnswer),
        ("tool/cancel", "host", ToolCancel, None),
        ("api/chunk", "host", ApiChunk, None),
        ("run/result", "worker", AgentRunResult, None),
        ("api/call", "worker", ApiCall, Empty),
        ("api/stream", "worker", ApiStream, Empty),
        ("api/credit", "worker", ApiCredit, None),
        ("api/cancel", "worker", ApiCancel, None),
        ("log", "worker", LogRecord, None),
    )
    return MappingProxyType(
        {name: Method(name=name, sent_by=side, params=params, result=result) for name, side, params, result in rows}
    )


METHODS: Final = _table()
"""Every method of the channel by name. The result of `api/call` is the answer of its action (`ACTIONS`)."""
