"""A runner that follows its event: a number of deltas, pauses, messages, state and artifacts, then an ending."""

import asyncio

from bollard.sdk import RunContext, runner


@runner(label="Scripted", permissions={"artifacts": ["write"]}, capabilities=["interrupt"])
async def scripted(ctx: RunContext):
    plan = ctx.event.data
    for number in range(plan.get("deltas", 0)):
        yield ctx.delta(f"{plan.get('word', '')}{number} ")
        if plan.get("pause_ms") and number % 8 == 7:
            await asyncio.sleep(plan["pause_ms"] / 1000)
    if plan.get("state"):
        yield ctx.state("runner", "last", {"run": ctx.run_id})
    if plan.get("artifact"):
        yield ctx.artifact("text", content=ctx.run_id.encode())
    if plan.get("raises"):
        raise RuntimeError("as planned")
    yield ctx.completed(plan.get("answer", "done"))
