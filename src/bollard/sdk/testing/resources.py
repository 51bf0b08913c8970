"""Tools, knowledge, child agents and platform actions of the in-memory host, from plain values and callables."""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from bollard.protocol import (
    AgentAPIError,
    AgentInput,
    AgentsCall,
    ChildRunResult,
    JsonObject,
    JsonValue,
    KnowledgeChunk,
    KnowledgeResult,
    KnowledgeRetrieve,
    Message,
    PlatformOutcome,
    PlatformRequest,
    ToolAnswer,
    ToolCallContext,
    ToolDefinition,
    ToolDetail,
    ToolResult,
    ToolsCall,
)
from bollard.sdk.errors import AgentAPIException, api_failure
from bollard.sdk.testing.clock import Clock
from bollard.sdk.testing.models import overlap
from bollard.sdk.tool import tool_declaration_of
from bollard.sdk.toolanswer import answer_of, failed

__all__ = ["ChildAgents", "KnowledgeBases", "PlatformActions", "Tools"]

Callback = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tool:
    definition: ToolDefinition
    function: Callback

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.definition.to_wire(), sort_keys=True).encode()).hexdigest()

    async def answer(self, arguments: JsonObject, context: ToolCallContext) -> ToolAnswer:
        declared = tool_declaration_of(self.function)
        if declared is not None:
            return await declared.invoke(arguments, context)
        try:
            returned = self.function(**arguments)
            return answer_of(self.definition.name, await returned if inspect.isawaitable(returned) else returned)
        except AgentAPIException:
            raise
        except Exception as error:  # noqa: BLE001 -- the test's own tool: its failure is an answer
            return failed(f"{type(error).__name__}: {error}")


class Tools:
    """Tools by name. A plain callable takes its arguments by name and may raise `AgentAPIException`."""

    def __init__(self, tools: Iterable[Callback] | Mapping[str, Callback], clock: Clock) -> None:
        self._clock = clock
        self._outcomes: dict[str, tuple[JsonObject, ToolResult]] = {}
        self.offered: dict[str, _Tool] = {}
        if isinstance(tools, Mapping):
            for name, function in cast("Mapping[str, Callback]", tools).items():
                self._offer(name, function)
        else:
            for function in tools:
                self._offer(None, function)

    def _offer(self, name: str | None, function: Callback) -> None:
        declared = tool_declaration_of(function)
        if declared is not None:
            definition = declared.definition()
        else:
            text = inspect.getdoc(function) or function.__name__
            own_name = name or function.__name__.lower()
            definition = ToolDefinition(name=own_name, description=text, input_schema={"type": "object"})
        self.offered[name or definition.name] = _Tool(definition=definition, function=function)

    def details(self, names: Iterable[str]) -> tuple[ToolDetail, ...]:
        """How tools are called."""
        return tuple(
            ToolDetail(
                tool_name=name,
                description=self._find(name).definition.description,
                input_schema=self._find(name).definition.input_schema,
                output_schema=self._find(name).definition.output_schema,
                risk=self._find(name).definition.risk or "medium",
                definition_sha256=self._find(name).sha256,
            )
            for name in names
        )

    async def call(self, request: ToolsCall, context: ToolCallContext) -> ToolResult:
        """Call one; the same call id with the same parameters returns the recorded outcome."""
        found = self._find(request.name)
        call_id = request.call_id or f"tool-call-{len(self._outcomes) + 1}"
        asked: JsonObject = {"name": request.name, "parameters": request.parameters}
        if call_id in self._outcomes:
            before, result = self._outcomes[call_id]
            if before == asked:
                return result
            message = f"call_id: {call_id} was used with other parameters"
            raise api_failure("invalid_argument", message, {"field": "call_id"})
        started = self._clock.monotonic()
        answer = await found.answer(request.parameters, context)
        result = ToolResult(
            call_id=call_id,
            content=answer.content,
            structured=answer.structured,
            is_error=answer.is_error,
            duration_ms=(self._clock.monotonic() - started) * 1000,
        )
        self._outcomes[call_id] = (asked, result)
        return result

    def _find(self, name: str) -> _Tool:
        if name not in self.offered:
            raise api_failure("not_found", f"no tool {name}")
        return self.offered[name]


class KnowledgeBases:
    """Pieces of text by knowledge base, ranked by the words they share with the query."""

    def __init__(self, bases: Mapping[str, Iterable[str | KnowledgeChunk]]) -> None:
        self.chunks: dict[str, list[KnowledgeChunk]] = {
            kb_id: [_chunk(kb_id, number, piece) for number, piece in enumerate(pieces, start=1)]
            for kb_id, pieces in bases.items()
        }

    def retrieve(self, request: KnowledgeRetrieve) -> KnowledgeResult:
        """The pieces that fit best."""
        if request.kb_id not in self.chunks:
            raise api_failure("not_found", f"no knowledge base {request.kb_id}")
        wanted = (request.filters or {}).items()
        fitting = [chunk for chunk in self.chunks[request.kb_id] if wanted <= chunk.metadata.items()]
        scored = [chunk.model_copy(update={"score": overlap(request.query, chunk.text)}) for chunk in fitting]
        ranked = sorted(scored, key=lambda chunk: -chunk.score)
        return KnowledgeResult(chunks=tuple(ranked[: request.top_k]))


def _chunk(kb_id: str, number: int, piece: str | KnowledgeChunk) -> KnowledgeChunk:
    if isinstance(piece, KnowledgeChunk):
        return piece.model_copy(update={"kb_id": kb_id})
    return KnowledgeChunk(chunk_id=f"{kb_id}-{number}", kb_id=kb_id, text=piece, score=0.0, source={"document": kb_id})


class ChildAgents:
    """Other agents: an answer, or a function of the input that gives one."""

    def __init__(self, agents: Mapping[str, str | ChildRunResult | Callback]) -> None:
        self.known = dict(agents)

    async def call(self, request: AgentsCall, run_id: str) -> ChildRunResult:
        """Ask one."""
        if request.agent_id not in self.known:
            raise api_failure("not_found", f"no agent {request.agent_id}")
        answer = await _given(self.known[request.agent_id], request.input)
        if isinstance(answer, ChildRunResult):
            return answer
        return ChildRunResult(run_id=run_id, status="completed", messages=(_message(answer),))


def _message(answer: object) -> Message:
    return answer if isinstance(answer, Message) else Message(role="assistant", content=str(answer))


@dataclass(slots=True)
class PlatformActions:
    """Outcomes of platform actions by name: a word, an error, JSON, or a function of the request that gives one."""

    outcomes: Mapping[str, Any]
    requested: list[PlatformRequest] = field(default_factory=list[PlatformRequest])

    async def request(self, request: PlatformRequest) -> PlatformOutcome:
        """Ask for one."""
        if request.action not in self.outcomes:
            raise api_failure("not_found", f"no platform action {request.action}")
        self.requested.append(request)
        answer = await _given(self.outcomes[request.action], request)
        if isinstance(answer, PlatformOutcome):
            return answer
        call_id = f"platform-call-{len(self.requested)}"
        if isinstance(answer, str):
            return PlatformOutcome(call_id=call_id, outcome=answer)
        return PlatformOutcome(call_id=call_id, outcome="done", result=cast("JsonValue", answer))


async def _given(scripted: Any, request: AgentInput | PlatformRequest) -> Any:
    answer = scripted(request) if callable(scripted) and not isinstance(scripted, Exception) else scripted
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, AgentAPIError):
        raise AgentAPIException(answer)
    if isinstance(answer, Exception):
        raise answer
    return answer
