"""The run API of the in-memory host: the checks of every call, and one handler for each action."""

import asyncio
import hashlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, Shape, Strict, first_problem, limits
from bollard.sdk.errors import AgentAPIException, api_failure
from bollard.sdk.testing.grant import Denials
from bollard.sdk.testing.ledger import ApiRecord, RunLedger
from bollard.sdk.testing.models import ScriptedModel
from bollard.sdk.testing.occasion import WORKSPACE_ID
from bollard.sdk.testing.resources import knowledge_bases_of
from bollard.sdk.testing.stores import Blobs, measure_json
from bollard.sdk.testing.world import World

# The second argument is the checked parameters of the action, whose type the table of actions knows.
Handler = Callable[[RunLedger, Any], Shape | Awaitable[Shape]]

_LIMITS: JsonObject = {
    "calls_in_flight": limits.CALLS_IN_FLIGHT,
    "page_items": limits.PAGE_ITEMS,
    "read_bytes": limits.READ_BYTES,
    "result_bytes": limits.RESULT_BYTES,
    "state_value_bytes": limits.STATE_VALUE_BYTES,
}


def _build_handlers(world: World) -> Mapping[str, Handler]:
    """Return the handler of every action but the streamed one. Handlers run after the checks."""
    areas, artifacts, state = world.storage, world.artifacts, world.state
    return {
        "models.invoke": lambda _, asked: _find_model(world, asked.model_id, "invoke").invoke(asked),
        "models.rerank": lambda _, asked: _find_model(world, asked.model_id, "rerank").rerank(asked),
        "models.embed": lambda _, asked: _find_model(world, asked.model_id, "embed").embed(asked),
        "tools.detail": lambda _, asked: protocol.ToolDetailList(tools=world.tools.details(asked.names)),
        "tools.call": lambda run, asked: _call_tool(world, run, asked),
        "knowledge.list": lambda run, _: protocol.KnowledgeBaseList(
            knowledge_bases=knowledge_bases_of(world, run.grant)
        ),
        "knowledge.retrieve": lambda _, asked: world.knowledge.retrieve(asked),
        "history.page": lambda _, asked: world.transcript.page(asked),
        "history.search": lambda _, asked: world.transcript.search(asked),
        "events.get": lambda run, asked: world.events.get(asked.event_id, run.context),
        "events.page": lambda run, asked: world.events.page(asked, run.context),
        "steering.pull": lambda run, asked: run.steering.pull(asked),
        "agents.call": lambda run, asked: _call_agent(world, run, asked),
        "platform.request": lambda run, asked: _request_action(world, run, asked),
        "host.info": lambda _, __: protocol.HostInfo(
            host_version="memory", protocol=limits.PROTOCOL_VERSION, limits={**_LIMITS}
        ),
        "host.prompt": _prompt,
        "state.get": lambda run, asked: state.get(run.scope_key(asked.scope), asked.key),
        "state.set": lambda run, asked: state.set(run.scope_key(asked.scope), asked),
        "state.delete": lambda run, asked: state.delete(run.scope_key(asked.scope), asked),
        "state.list": lambda run, asked: state.list(run.scope_key(asked.scope), asked),
        "storage.get": lambda _, asked: areas[asked.area].get(asked.key, asked.offset, asked.length),
        "storage.set": lambda _, asked: areas[asked.area].set(asked.key, asked.content_base64),
        "storage.delete": lambda _, asked: areas[asked.area].delete(asked.key),
        "storage.list": lambda _, asked: areas[asked.area].list(asked),
        "files.get": lambda _, asked: _read_file(world, asked),
        "artifacts.metadata": lambda _, asked: artifacts.metadata(asked.artifact_id),
        "artifacts.read": lambda _, asked: artifacts.read(asked),
        "artifacts.begin": lambda _, asked: artifacts.begin(asked),
        "artifacts.append": lambda _, asked: artifacts.append(asked),
        "artifacts.finish": lambda run, asked: artifacts.finish(asked, run.maker),
    }


_ENDS = {"tool_failed": "failed", "outcome_unknown": "unknown"}
"""The ends of calls by the code of their error. Another error rejects the call."""


async def _call_tool(world: World, run: RunLedger, request: protocol.ToolsCall) -> protocol.ToolResult:
    """Call a tool and leave a fact of its end."""
    if not world.tools.is_new(request, run.context.run_id):
        return await world.tools.call(request, _tool_context(run))
    with _fact_of_call(world, run, request.name, request.call_id) as fact:
        result = await world.tools.call(request, _tool_context(run))
        fact.call_id = result.call_id
    return result


async def _call_agent(world: World, run: RunLedger, request: protocol.AgentsCall) -> protocol.ChildRunResult:
    if request.agent_id not in world.agents.known:
        raise api_failure("not_found", f"no agent {request.agent_id}")
    number = len(run.calls) + 1
    with _fact_of_call(world, run, f"agent:{request.agent_id}", f"agent-call-{number}"):
        return await world.agents.call(request, f"{run.context.run_id}-child-{number}")


async def _request_action(world: World, run: RunLedger, request: protocol.PlatformRequest) -> protocol.PlatformOutcome:
    """Request an action of the named channel, or of the one that the run answers to."""
    if request.action not in world.platform.outcomes:
        raise api_failure("not_found", f"no platform action {request.action}")
    target, default = request.target or {}, run.context.delivery.reply_target or {}
    if not isinstance(target.get("channel", default.get("channel")), str):
        message = "target: names no channel, and the run has no delivery target"
        raise api_failure("invalid_argument", message, {"field": "target"})
    call_id = f"platform-call-{len(run.calls) + 1}"
    with _fact_of_call(world, run, request.action, call_id):
        return await world.platform.request(request, call_id)


@dataclass(slots=True)
class _CallFact:
    call_id: str | None


@contextmanager
def _fact_of_call(world: World, run: RunLedger, name: str, call_id: str | None) -> Generator[_CallFact]:
    """Leave a fact of the end of a call."""
    fact = _CallFact(call_id)
    try:
        yield fact
    except AgentAPIException as error:
        end = _ENDS.get(error.code, "rejected")
        world.fact(run.context, f"action.{end}", tool_name=name, call_id=fact.call_id, code=error.code)
        raise
    world.fact(run.context, "action.completed", tool_name=name, call_id=fact.call_id)


def _read_file(world: World, request: protocol.FilesGet) -> protocol.BytesResult:
    """A range of a file of the configuration, or of a document of a knowledge base."""
    document = world.knowledge.document(request.file_id)
    held = world.files if document is None else Blobs("file", {request.file_id: document})
    return held.get(request.file_id, request.offset, request.length)


def _prompt(run: RunLedger, request: protocol.HostPrompt) -> protocol.AgentPrompt:
    name = request.name or next(iter(run.prompts), None)
    if name is None or name not in run.prompts:
        raise api_failure("not_found", "the agent has no such prompt")
    text = run.prompts[name]
    return protocol.AgentPrompt(name=name, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


def _find_model(world: World, model_id: str, operation: str) -> ScriptedModel:
    if model_id not in world.models:
        raise api_failure("not_found", f"no model {model_id}")
    model = world.models[model_id]
    if operation not in model.operations:
        raise api_failure("capability_denied", f"the model {model_id} is not granted for {operation}")
    return model


def _tool_context(run: RunLedger) -> protocol.ToolCallContext:
    context = run.context
    return protocol.ToolCallContext(
        run_id=context.run_id,
        workspace_id=WORKSPACE_ID,
        agent_id="agent-1",
        actor=context.actor,
        conversation=context.conversation,
        locale=context.runtime.locale,
    )


class RunApiHandler:
    """Every action of the run API."""

    def __init__(self, world: World, denials: Denials) -> None:
        self._world = world
        self._denials = denials
        self._handlers = _build_handlers(world)

    async def one(self, ledger: RunLedger | None, action: str, params: JsonObject) -> JsonValue:
        """Answer one call."""
        run, request = self._admitted(ledger, action, params, streamed=False)
        with _recorded(run, action, params):
            await asyncio.sleep(0)  # a real host never answers before the runner waits
            self._permitted(run, action, request)
            answer = self._handlers[action](run, request)
            shape = await answer if inspect.isawaitable(answer) else answer
            return _check_answer_size(action, shape)

    async def stream(
        self, ledger: RunLedger | None, action: str, params: JsonObject
    ) -> AsyncGenerator[JsonValue, None]:
        """Answer one streamed call, chunk by chunk."""
        run, request = self._admitted(ledger, action, params, streamed=True)
        with _recorded(run, action, params):
            await asyncio.sleep(0)
            self._permitted(run, action, request)
            for chunk in _find_model(self._world, request.model_id, "stream").stream(request):
                yield chunk.to_wire()
                await asyncio.sleep(0)

    def _admitted(
        self, ledger: RunLedger | None, action: str, params: JsonObject, *, streamed: bool
    ) -> tuple[RunLedger, Any]:
        """Return the run and the checked parameters. Raises the refusal of a real host."""
        if ledger is None or ledger.closed or ledger.terminal is not None:
            raise api_failure("not_found", "no such active run")
        try:
            if action not in protocol.ACTIONS:
                raise api_failure("invalid_argument", f"there is no action {action}", {"field": "action"})
            if protocol.ACTIONS[action].streamed is not streamed:
                way = "a stream" if protocol.ACTIONS[action].streamed else "a plain call"
                raise api_failure("invalid_argument", f"{action} is {way}", {"field": "action"})
            if ledger.in_flight >= limits.CALLS_IN_FLIGHT:
                message = f"{limits.CALLS_IN_FLIGHT} calls of this run are unanswered; await some first"
                raise api_failure("rate_limited", message)
            request = _check_params(action, params)
        except AgentAPIException as error:
            ledger.calls.append(ApiRecord(action, params, error.code))
            raise
        ledger.in_flight += 1
        return ledger, request

    def _permitted(self, run: RunLedger, action: str, request: Strict) -> None:
        self._denials.check(action)
        run.grant.check(action, request)


@contextmanager
def _recorded(run: RunLedger, action: str, params: JsonObject) -> Generator[None]:
    """Record the outcome of a call. An error of a script becomes an error of the API."""
    outcome = "given up"
    try:
        yield
        outcome = "ok"
    except Exception as error:
        failure = _failure(action, error)
        outcome = failure.code
        raise failure from error
    finally:
        run.in_flight -= 1
        run.calls.append(ApiRecord(action, params, outcome))
        run.steering.happened(action)


def _check_params(action: str, params: JsonObject) -> Strict:
    try:
        if measure_json(params) > limits.CALL_BYTES:
            message = f"the parameters of {action} exceed {limits.CALL_BYTES} bytes"
            raise api_failure("payload_too_large", message)
        return protocol.ACTIONS[action].params.from_wire(params)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise api_failure("invalid_argument", f"{action}: {field}: {problem}", {"field": field}) from error
    except (TypeError, ValueError) as error:
        raise api_failure("invalid_argument", f"the parameters of {action} are not JSON: {error}") from error


def _check_answer_size(action: str, answer: Shape) -> JsonObject:
    wire = answer.to_wire()
    if action not in protocol.RANGED_READS and measure_json(wire) > limits.CALL_BYTES:
        raise api_failure("payload_too_large", f"the answer to {action} exceeds {limits.CALL_BYTES} bytes")
    return wire


def _failure(action: str, error: Exception) -> AgentAPIException:
    if isinstance(error, AgentAPIException):
        return error
    return api_failure("runtime_error", f"the script behind {action} failed: {type(error).__name__}: {error}")
