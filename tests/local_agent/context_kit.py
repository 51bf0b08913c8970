"""A runner that prepares a question and asks nothing, so that the question can be looked at."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bollard.sdk import JsonObject, RunContext, runner
from bollard.sdk.agent import CAPABILITIES, PERMISSIONS
from bollard.sdk.agent import AgentSettings as AgentConfig
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.model_request import prepare_request
from bollard.sdk.testing import MemoryHost, RunOutcome, ScriptedModel

Then = Callable[[RunContext[AgentConfig], Any], Awaitable[Any]]


async def prepared(
    host: MemoryHost,
    text: str | None = None,
    config: JsonObject | None = None,
    then: Then | None = None,
    **occasion: Any,
) -> tuple[Any, RunOutcome]:
    """The first request of a run, and its API calls; `then` works on it before the run ends."""
    found: list[Any] = []

    @runner(label="Prepares", capabilities=CAPABILITIES, permissions=PERMISSIONS)
    async def prepares(ctx: RunContext[AgentConfig]):
        question = await prepare_request(ctx, ctx.config, Guard(ctx.config))
        found.append(question if then is None else await then(ctx, question))
        yield ctx.delta("done")

    outcome = await host.run(prepares, text, config=config or {}, **occasion)
    assert outcome.status == "completed", outcome.error
    return found[0], outcome


def shown(question: Any) -> list[tuple[str, Any]]:
    """Roles and contents."""
    return [(message.role, message.content) for message in question.messages]


def memory(models: Mapping[str, ScriptedModel] | None = None, **more: Any) -> MemoryHost:
    return MemoryHost(models=models or {"default": ScriptedModel()}, **more)


def called(outcome: RunOutcome, action: str) -> list[JsonObject]:
    return [dict(call.params) for call in outcome.calls if call.action == action]
