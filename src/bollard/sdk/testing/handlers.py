"""One handler for each action of the run API, over the in-memory world. Gates are not here: a handler is past them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from bollard.protocol import (
    HostInfo,
    JsonObject,
    KnowledgeBaseList,
    MessageChunk,
    ModelsInvoke,
    Shape,
    ToolCallContext,
    ToolDetailList,
    limits,
)
from bollard.sdk.errors import api_failure
from bollard.sdk.testing.ledger import RunLedger
from bollard.sdk.testing.models import ScriptedModel
from bollard.sdk.testing.world import World

__all__ = ["Handler", "handlers_of", "streamed_reply"]

# The second argument is the checked parameters of the action, whose type the table of actions knows.
Handler = Callable[[RunLedger, Any], Shape | Awaitable[Shape]]

_LIMITS: JsonObject = {
    "calls_in_flight": limits.CALLS_IN_FLIGHT,
    "page_items": limits.PAGE_ITEMS,
    "read_bytes": limits.READ_BYTES,
    "result_bytes": limits.RESULT_BYTES,
    "state_value_bytes": limits.STATE_VALUE_BYTES,
}


def handlers_of(world: World) -> Mapping[str, Handler]:
    """Every action but the streamed one."""
    return _models(world) | _records(world) | _state(world) | _stores(world)


def streamed_reply(world: World, request: ModelsInvoke) -> Iterator[MessageChunk]:
    """The chunks of `models.stream`."""
    return _model(world, request.model_id, "stream").stream(request)


def _model(world: World, model_id: str, operation: str) -> ScriptedModel:
    if model_id not in world.models:
        raise api_failure("not_found", f"no model {model_id}")
    model = world.models[model_id]
    if operation not in model.operations:
        raise api_failure("capability_denied", f"the model {model_id} is not granted for {operation}")
    return model


def _models(world: World) -> dict[str, Handler]:
    return {
        "models.invoke": lambda _, asked: _model(world, asked.model_id, "invoke").invoke(asked),
        "models.rerank": lambda _, asked: _model(world, asked.model_id, "rerank").rerank(asked),
        "models.embed": lambda _, asked: _model(world, asked.model_id, "embed").embed(asked),
        "tools.detail": lambda _, asked: ToolDetailList(tools=world.tools.details(asked.names)),
        "tools.call": lambda run, asked: world.tools.call(asked, _tool_context(run)),
        "knowledge.list": lambda run, _: KnowledgeBaseList(knowledge_bases=world.knowledge_bases(run.grant)),
        "knowledge.retrieve": lambda _, asked: world.knowledge.retrieve(asked),
    }


def _tool_context(run: RunLedger) -> ToolCallContext:
    context = run.context
    return ToolCallContext(
        run_id=context.run_id,
        workspace_id="workspace-1",
        agent_id="agent-1",
        actor=context.actor,
        conversation=context.conversation,
        locale=context.runtime.locale,
    )


def _records(world: World) -> dict[str, Handler]:
    return {
        "history.page": lambda _, asked: world.transcript.page(asked),
        "history.search": lambda _, asked: world.transcript.search(asked),
        "events.get": lambda _, asked: world.events.get(asked.event_id),
        "events.page": lambda _, asked: world.events.page(asked),
        "steering.pull": lambda run, asked: run.steering.pull(asked),
        "agents.call": lambda run, asked: world.agents.call(asked, f"{run.context.run_id}-child-{len(run.calls) + 1}"),
        "platform.request": lambda _, asked: world.platform.request(asked),
        "host.info": lambda _, __: HostInfo(
            host_version="memory", protocol=limits.PROTOCOL_VERSION, limits=dict(_LIMITS)
        ),
    }


def _state(world: World) -> dict[str, Handler]:
    state = world.state
    return {
        "state.get": lambda run, asked: state.get(run.scope_keys[asked.scope], asked.key),
        "state.set": lambda run, asked: state.set(run.scope_keys[asked.scope], asked),
        "state.delete": lambda run, asked: state.delete(run.scope_keys[asked.scope], asked),
        "state.list": lambda run, asked: state.list(
            run.scope_keys[asked.scope], asked.prefix, asked.cursor, asked.limit
        ),
    }


def _stores(world: World) -> dict[str, Handler]:
    areas, files, artifacts = world.storage, world.files, world.artifacts
    return {
        "storage.get": lambda _, asked: areas[asked.area].get(asked.key, asked.offset, asked.length),
        "storage.set": lambda _, asked: areas[asked.area].set(asked.key, asked.content_base64),
        "storage.delete": lambda _, asked: areas[asked.area].delete(asked.key),
        "storage.list": lambda _, asked: areas[asked.area].list(asked.prefix, asked.cursor, asked.limit),
        "files.get": lambda _, asked: files.get(asked.file_id, asked.offset, asked.length),
        "artifacts.metadata": lambda _, asked: artifacts.metadata(asked.artifact_id),
        "artifacts.read": lambda _, asked: artifacts.read(asked),
        "artifacts.begin": lambda _, asked: artifacts.begin(asked),
        "artifacts.append": lambda _, asked: artifacts.append(asked),
        "artifacts.finish": lambda run, asked: artifacts.finish(asked, run.context.run_id),
    }
