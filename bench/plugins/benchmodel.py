"""The runners of the agent benchmark: only calls of a model through the run API."""

import time
from statistics import median

from pydantic import BaseModel

from bollard.sdk import ModelSelector, RunContext, runner, tool


class Config(BaseModel):
    """The model of the environment: the loopback provider."""

    model: ModelSelector = "openai"


@runner(name="default", label="Model", permissions={"models": ["invoke", "stream"]})
async def relay(ctx: RunContext[Config]):
    """Forwards the model's answer as it arrives, then sends the mark that ends a run of the benchmark."""
    question = [{"role": "user", "content": ctx.input.text}]
    async for chunk in ctx.api.models.stream(ctx.config.model or "", question):
        if chunk.content:
            yield ctx.delta(chunk)
    yield ctx.completed("FINAL-ANSWER")


@runner(name="turns", label="Turns", permissions={"models": ["invoke", "stream"]})
async def turns(ctx: RunContext[Config]):
    """Calls the model `event.data.turns` times, one after the other, and reports the median time of a turn."""
    count = ctx.event.data["turns"]
    if not isinstance(count, int):
        raise TypeError("event.data.turns is a number")
    question = [{"role": "user", "content": ctx.input.text}]
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        async for _chunk in ctx.api.models.stream(ctx.config.model or "", question):
            pass
        taken.append(time.perf_counter() - started)
    yield ctx.completed(f"MEDIAN={median(taken):.9f}")


@tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False})
def nothing(n: int) -> str:
    """Does nothing, and says so."""
    return f"nothing was done for {n}"
