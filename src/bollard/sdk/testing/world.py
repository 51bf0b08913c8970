"""The resources and stores of the in-memory host, and the part of them that a run sees."""

import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, limits
from bollard.sdk.errors import AgentAPIException, api_failure
from bollard.sdk.testing.checks import check_question
from bollard.sdk.testing.clock import Clock
from bollard.sdk.testing.grant import DOCUMENTS, Grant
from bollard.sdk.testing.models import ScriptedModel, overlap
from bollard.sdk.testing.occasion import build_event_record
from bollard.sdk.testing.steering import SteeringStatus
from bollard.sdk.testing.stores import Artifacts, Blobs, StateStore, measure_json
from bollard.sdk.testing.transcript import Events, Transcript
from bollard.sdk.tool import build_answer, failed_answer, tool_declaration_of

Callback = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tool:
    definition: protocol.ToolDefinition
    function: Callback

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.definition.to_wire(), sort_keys=True).encode()).hexdigest()

    def check(self, arguments: JsonObject, call_id: str) -> None:
        """Refuse arguments that a declared tool does not take, as a host does by its schema."""
        declared = tool_declaration_of(self.function)
        problem = None if declared is None else declared.problem(arguments)
        if problem is not None:
            raise api_failure("invalid_argument", problem, {"call_id": call_id})

    async def answer(self, arguments: JsonObject, context: protocol.ToolCallContext) -> protocol.ToolAnswer:
        declared = tool_declaration_of(self.function)
        if declared is not None:
            return await declared.invoke(arguments, context)
        try:
            returned = self.function(**arguments)
            return build_answer(self.definition.name, await returned if inspect.isawaitable(returned) else returned)
        except AgentAPIException:
            raise
        except Exception as error:  # noqa: BLE001 -- the test's own tool: its failure is an answer
            return failed_answer(f"{type(error).__name__}: {error}")


class Tools:
    """Tools by name. A plain callable takes its arguments by name and may raise `AgentAPIException`."""

    def __init__(self, tools: Iterable[Callback] | Mapping[str, Callback], clock: Clock) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._outcomes: dict[tuple[str, str], tuple[JsonObject, protocol.ToolResult]] = {}
        """By run and call id."""
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
            definition = protocol.ToolDefinition(name=own_name, description=text, input_schema={"type": "object"})
        self.offered[name or definition.name] = _Tool(definition=definition, function=function)

    def details(self, names: Iterable[str]) -> tuple[protocol.ToolDetail, ...]:
        """Return the schemas of tools."""
        return tuple(
            protocol.ToolDetail(
                tool_name=name,
                description=self._find(name).definition.description,
                input_schema=self._find(name).definition.input_schema,
                output_schema=self._find(name).definition.output_schema,
                risk=self._find(name).definition.risk or "medium",
                definition_sha256=self._find(name).sha256,
            )
            for name in names
        )

    def is_new(self, request: protocol.ToolsCall, run_id: str) -> bool:
        """Whether the call is not a repeat, and its tool exists."""
        return request.name in self.offered and (run_id, request.call_id or "") not in self._outcomes

    async def call(self, request: protocol.ToolsCall, context: protocol.ToolCallContext) -> protocol.ToolResult:
        """Call one; in one run, the same call id with the same parameters returns the recorded outcome."""
        found = self._find(request.name)
        call_id = request.call_id or f"tool-call-{next(self._numbers)}"
        key = (context.run_id, call_id)
        asked: JsonObject = {"name": request.name, "parameters": request.parameters}
        if key in self._outcomes:
            before, result = self._outcomes[key]
            if before == asked:
                return result
            message = f"call_id: {call_id} was used with other parameters"
            details: JsonObject = {"field": "call_id", "reason": "call_id_other_arguments", "call_id": call_id}
            raise api_failure("invalid_argument", message, details)
        found.check(request.parameters, call_id)
        started = self._clock.monotonic()
        answer = await found.answer(request.parameters, context)
        result = protocol.ToolResult(
            call_id=call_id,
            content=answer.content,
            structured=answer.structured,
            is_error=answer.is_error,
            duration_ms=(self._clock.monotonic() - started) * 1000,
        )
        self._outcomes[key] = (asked, result)
        return result

    def _find(self, name: str) -> _Tool:
        if name not in self.offered:
            raise api_failure("not_found", f"no tool {name}")
        return self.offered[name]


def documents_of(kb_id: str) -> str:
    """The prefix of the file ids of a knowledge base's documents."""
    return f"{DOCUMENTS}{kb_id}/"


class KnowledgeBases:
    """Pieces of text by knowledge base, ranked by the words they share with the query."""

    def __init__(self, bases: Mapping[str, Iterable[str | protocol.KnowledgeChunk]]) -> None:
        self.chunks: dict[str, list[protocol.KnowledgeChunk]] = {
            kb_id: [_chunk(kb_id, number, piece) for number, piece in enumerate(pieces, start=1)]
            for kb_id, pieces in bases.items()
        }

    def retrieve(self, request: protocol.KnowledgeRetrieve) -> protocol.KnowledgeResult:
        """Return the best matching chunks."""
        if request.kb_id not in self.chunks:
            raise api_failure("not_found", f"no knowledge base {request.kb_id}")
        check_question(request.query)
        wanted = (request.filters or {}).items()
        fitting = [chunk for chunk in self.chunks[request.kb_id] if wanted <= chunk.metadata.items()]
        scored = [chunk.model_copy(update={"score": overlap(request.query, chunk.text)}) for chunk in fitting]
        ranked = sorted(scored, key=lambda chunk: -chunk.score)
        return protocol.KnowledgeResult(chunks=tuple(ranked[: request.top_k]))

    def document(self, file_id: str) -> bytes | None:
        """The pieces of a document together; `None` for a file that is no document here."""
        kb_id, _, document_id = file_id.removeprefix(DOCUMENTS).partition("/")
        if not file_id.startswith(DOCUMENTS):
            return None
        found = [chunk.text for chunk in self.chunks.get(kb_id, ()) if _document_of(chunk) == document_id]
        return "\n\n".join(found).encode() if found else None


def _document_of(chunk: protocol.KnowledgeChunk) -> JsonValue:
    return chunk.source.get("document_id") if isinstance(chunk.source, dict) else None


def _chunk(kb_id: str, number: int, piece: str | protocol.KnowledgeChunk) -> protocol.KnowledgeChunk:
    if isinstance(piece, protocol.KnowledgeChunk):
        return piece.model_copy(update={"kb_id": kb_id})
    source: JsonObject = {"document_id": kb_id, "name": kb_id, "source": kb_id, "headings": []}
    position: JsonObject = {"start": 0, "end": len(piece)}
    return protocol.KnowledgeChunk(
        chunk_id=f"{kb_id}-{number}",
        kb_id=kb_id,
        text=piece,
        score=0.0,
        source=source,
        metadata={"document_id": kb_id, "headings": [], "position": position},
    )


class ChildAgents:
    """Other agents: an answer, or a function of the input that returns one."""

    def __init__(self, agents: Mapping[str, str | protocol.ChildRunResult | Callback]) -> None:
        self.known = dict(agents)

    async def call(self, request: protocol.AgentsCall, run_id: str) -> protocol.ChildRunResult:
        """Return the answer of one agent."""
        if request.agent_id not in self.known:
            raise api_failure("not_found", f"no agent {request.agent_id}")
        answer = await _run_script(self.known[request.agent_id], request.input)
        if isinstance(answer, protocol.ChildRunResult):
            return answer
        return protocol.ChildRunResult(run_id=run_id, status="completed", messages=(_message(answer),))


def _message(answer: object) -> protocol.Message:
    return answer if isinstance(answer, protocol.Message) else protocol.Message(role="assistant", content=str(answer))


@dataclass(slots=True)
class PlatformActions:
    """Outcomes of platform actions by name: an error, a whole outcome, the result, or a function of the request that
    gives one."""

    outcomes: Mapping[str, Any]
    requested: list[protocol.PlatformRequest] = field(default_factory=list[protocol.PlatformRequest])

    async def request(self, request: protocol.PlatformRequest, call_id: str) -> protocol.PlatformOutcome:
        """Return the outcome of one action."""
        self.requested.append(request)
        answer = await _run_script(self.outcomes[request.action], request)
        if isinstance(answer, protocol.PlatformOutcome):
            return answer
        return protocol.PlatformOutcome(call_id=call_id, outcome="completed", result=cast("JsonValue", answer))


async def _run_script(scripted: Any, request: protocol.AgentInput | protocol.PlatformRequest) -> Any:
    answer = scripted(request) if callable(scripted) and not isinstance(scripted, Exception) else scripted
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, protocol.AgentAPIError):
        raise AgentAPIException(answer)
    if isinstance(answer, Exception):
        raise answer
    return answer


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Models, tools, knowledge, records and stores."""

    models: Mapping[str, ScriptedModel]
    tools: Tools
    knowledge: KnowledgeBases
    transcript: Transcript
    events: Events
    state: StateStore
    initial_state: Mapping[str, Mapping[str, JsonValue]]
    """By scope; added to the state of each run."""
    storage: Mapping[str, Blobs]
    artifacts: Artifacts
    files: Blobs
    agents: ChildAgents
    platform: PlatformActions
    clock: Clock

    def fact(self, context: protocol.AgentRunContext, event_type: str, **said: JsonValue) -> None:
        """Leave a fact of a run in the events of its conversation."""
        self.events.add_fact(context, event_type, self.clock.now(), **said)

    def steered(
        self, context: protocol.AgentRunContext, item: protocol.SteeringInputItem, status: SteeringStatus
    ) -> None:
        """Add a message into a run to the conversation when it arrives, and write its steering mark."""
        if status == "queued":
            self.events.add(build_event_record(item, item.claimed_at))
            self.transcript.receive(item, item.claimed_at)
        mark: JsonObject = {
            "status": status,
            "trigger_behavior": "absorbed_into_active_run",
            "claimed_by_run_id": item.claimed_run_id,
            "claimed_runner_id": item.runner_id,
            "claimed_at": item.claimed_at,
        }
        self.events.mark(item.event.event_id, mark)
        self.fact(context, f"steering.{status}", event_id=item.event.event_id)

    def projection(
        self, context: protocol.AgentRunContext, grant: Grant, keys: Mapping[str, str]
    ) -> tuple[protocol.ContextAccess, protocol.AgentRunState, JsonObject]:
        """Return the run's position in its conversation, its initial state, and the scopes with keys only."""
        items = self.transcript.items
        access = context.context.model_copy(
            update={
                "latest_cursor": items[-1].cursor if items else None,
                "transcript_seq": len(items),
                "event_seq": len(self.events.items) + 1,
                "has_history_before": any(item.event_id != context.event.event_id for item in items),
                "available_apis": grant.available_apis,
            }
        )
        snapshots: dict[str, Any] = {}
        shortened: JsonObject = {}
        left = limits.STATE_SNAPSHOT_BYTES
        for scope in sorted(keys.keys() & set(grant.state_scopes)):
            self.state.seed(keys[scope], self.initial_state.get(scope, {}))
            values = self.state.snapshot(keys[scope])
            inlined = dict(sorted(values.items())[: limits.STATE_LIST_KEYS])
            size, more = (
                sum(measure_json(value) + len(key.encode()) for key, value in inlined.items()),
                inlined != values,
            )
            if more or size > left:
                inlined = dict.fromkeys(inlined)
                shortened[scope] = {"keys_only": True, "more_keys": more}
            else:
                left -= size
            snapshots[scope] = inlined
        return access, protocol.AgentRunState(**snapshots), shortened
