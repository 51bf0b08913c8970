"""Runners that answer with their context and with the outcomes of the calls in their event."""

import asyncio
import json
from typing import Any

from pydantic import BaseModel

from bollard.sdk import AgentAPIException, Prompt, RunContext, runner, tool

NEEDS = {"history": ["page", "search"], "events": ["get", "page"], "tools": ["call"]}
WIDE = {
    **NEEDS,
    "tools": ["detail", "call"],
    "artifacts": ["metadata", "read", "write"],
    "storage": ["plugin", "workspace"],
    "files": ["config", "knowledge"],
    "knowledge_bases": ["list", "retrieve"],
    "agents": ["call"],
    "platform": ["request"],
}
TURN_S = 0.01


class Config(BaseModel):
    prompt: Prompt = "Be brief."


@tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False})
def weigh(thing: str) -> str:
    """Weigh a thing."""
    return f"{thing}: {len(thing)} kg"


@runner(label="Mirror", permissions=NEEDS, capabilities=["steering"])
async def mirror(ctx: RunContext[Config]):
    async for result in _reflected(ctx):
        yield result


@runner(name="wide", label="Wide mirror", permissions=WIDE, capabilities=["steering"])
async def wide(ctx: RunContext[Config]):
    async for result in _reflected(ctx):
        yield result


@runner(name="echo", label="echo")
async def echo(ctx: RunContext):
    if ctx.input.text == "fail":
        raise ValueError("on request")
    yield ctx.completed(f"heard {ctx.input.text}")


async def _reflected(ctx: RunContext[Config]):
    data, outcomes = ctx.event.data, []
    if data.get("waits"):
        yield ctx.delta("waiting ")
        pulled = await ctx.api.steering.pull()
        while not pulled.items:
            await asyncio.sleep(TURN_S)
            pulled = await ctx.api.steering.pull()
        outcomes.append(pulled.to_wire())
    for call in data.get("calls", []):
        outcomes.append(await _outcome(ctx, call["action"], _filled(call.get("params", {}), outcomes)))
    if data.get("fails"):
        raise ValueError("on request")
    if data.get("quiet"):
        yield ctx.completed("noted")
        return
    yield ctx.completed(json.dumps({"context": ctx.raw.to_wire(), "outcomes": outcomes}))


async def _outcome(ctx: RunContext[Config], action: str, params: dict[str, Any]) -> Any:
    method: Any = ctx.api
    for name in action.split("."):
        method = getattr(method, name)
    try:
        answer = await method(**params)
    except AgentAPIException as error:
        return {"error": error.code, "details": error.error.details}
    return [each.to_wire() for each in answer] if isinstance(answer, tuple) else answer.to_wire()


def _filled(params: dict[str, Any], outcomes: list[Any]) -> dict[str, Any]:
    """The parameters as the calls take them. Contents are bytes."""
    values = {name: _value(value, outcomes) for name, value in params.items()}
    return {name: value.encode() if name in ("content", "stream") else value for name, value in values.items()}


def _value(value: Any, outcomes: list[Any]) -> Any:
    """`$0.name` is a field of the first outcome, and `$repeat` a long text."""
    if isinstance(value, str) and value.startswith("$"):
        number, _, field = value[1:].partition(".")
        return outcomes[int(number)].get(field)
    return "x" * value["$repeat"] if isinstance(value, dict) and "$repeat" in value else value
