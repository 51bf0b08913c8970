"""A runner that answers with its context and with the outcomes of the calls in its event."""

import json

from pydantic import BaseModel

from bollard.sdk import AgentAPIException, Prompt, RunContext, runner

NEEDS = {"history": ["page", "search"], "events": ["get", "page"], "tools": ["call"]}


class Config(BaseModel):
    prompt: Prompt = "Be brief."


@runner(label="Mirror", permissions=NEEDS, capabilities=["steering"])
async def mirror(ctx: RunContext[Config]):
    outcomes = []
    for call in ctx.event.data.get("calls", []):
        family, _, name = call["action"].partition(".")
        try:
            answer = await getattr(getattr(ctx.api, family), name)(**call["params"])
            outcomes.append(answer.to_wire())
        except AgentAPIException as error:
            outcomes.append({"error": error.code})
    if ctx.event.data.get("fails"):
        raise ValueError("on request")
    if ctx.event.data.get("quiet"):
        yield ctx.completed("noted")
        return
    yield ctx.completed(json.dumps({"context": ctx.raw.to_wire(), "outcomes": outcomes}))
