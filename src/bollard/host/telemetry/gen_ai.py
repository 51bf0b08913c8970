"""What the spans of runs and their calls are called: OpenTelemetry's GenAI conventions. Pure.

Names and ids only. What people and models say is never in a span.
"""

from collections.abc import Mapping
from typing import Final

from bollard.host.log.facts import RunFacts
from bollard.host.telemetry.counts import ModelCalled

__all__ = ["SPANS_OF_THEIR_OWN", "call_span", "model_span", "run_span"]

Attributes = Mapping[str, str | int | float | bool | None]
_PROVIDER: Final = "bollard"
_OPERATIONS: Final = {
    "tools.call": ("execute_tool", "gen_ai.tool.name"),
    "models.invoke": ("chat", "gen_ai.request.model"),
    "models.stream": ("chat", "gen_ai.request.model"),
    "models.embed": ("embeddings", "gen_ai.request.model"),
    "models.rerank": ("rerank", "gen_ai.request.model"),
    "knowledge.retrieve": ("retrieval", "gen_ai.data_source.id"),
}
"""Actions of the run API that the conventions have a word for, and the attribute that names what they use."""


SPANS_OF_THEIR_OWN: Final = frozenset({"models.invoke", "models.stream", "models.rerank", "models.embed"})
"""Actions that say more in their span than is known at the gate."""


def run_span(facts: RunFacts, status: str) -> tuple[str, Attributes]:
    """Name and attributes of a run."""
    return f"invoke_agent {facts.agent_id}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "bollard.run.id": facts.run_id,
        "bollard.run.status": status,
        "bollard.run.parent": facts.parent_run_id,
        "bollard.event.id": facts.event_id,
        "bollard.runner.id": facts.runner_id,
        "bollard.workspace": facts.workspace,
    }


def call_span(facts: RunFacts, action: str, thing: str | None) -> tuple[str, Attributes]:
    """Name and attributes of one call of the run API, and of the thing that it names."""
    told: dict[str, str | None] = {
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "bollard.run.id": facts.run_id,
        "bollard.api.action": action,
        "bollard.workspace": facts.workspace,
    }
    known = _OPERATIONS.get(action)
    if known is None:
        return f"api {action}", {**told, "bollard.api.resource": thing}
    operation, attribute = known
    name = operation if thing is None else f"{operation} {thing}"
    return name, {**told, "gen_ai.operation.name": operation, "gen_ai.provider.name": _PROVIDER, attribute: thing}


def model_span(facts: RunFacts, called: ModelCalled) -> tuple[str, Attributes]:
    """Name and attributes of one call of a model."""
    operation = _OPERATIONS[f"models.{called.operation}"][0]
    model = called.model or called.model_id
    return f"{operation} {model}", {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": called.provider,
        "gen_ai.request.model": model,
        "gen_ai.request.stream": called.operation == "stream" or None,
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "gen_ai.usage.input_tokens": called.prompt_tokens,
        "gen_ai.usage.output_tokens": called.completion_tokens,
        "gen_ai.response.time_to_first_chunk": None if called.first_token_s is None else round(called.first_token_s, 6),
        "bollard.run.id": facts.run_id,
        "bollard.workspace": facts.workspace,
        "bollard.model.id": called.model_id,
        "bollard.model.cost": called.cost,
        "bollard.model.currency": called.currency,
        "error.type": called.reason,
    }
