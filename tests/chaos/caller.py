"""A runner that calls itself by its plan, sequentially or concurrently, and writes a line for each run."""

import asyncio
import json
from pathlib import Path

from bollard.sdk import RunContext, runner


def leave_line(effects: Path, run_id: str) -> None:
    """One append to the end of the file, safe beside other writers."""
    with effects.open("ab", buffering=0) as file:
        file.write(f"{run_id}\n".encode())


@runner(label="Caller", permissions={"agents": ["call"]}, capabilities=["interrupt"])
async def caller(ctx: RunContext):
    plan = ctx.event.data or json.loads(ctx.input.text or "{}")
    leave_line(Path(plan["effects"]), ctx.run_id)
    for number in range(plan["deltas"]):
        yield ctx.delta(f"{number} ")
        await asyncio.sleep(plan["pause_ms"] / 1000)
    calls = [ctx.api.agents.call("nest", json.dumps(child)) for child in plan["calls"]]
    if plan["at_once"]:
        told = await asyncio.gather(*calls)
    else:
        told = [await call for call in calls]
    if plan["raises"]:
        raise RuntimeError("as planned")
    yield ctx.completed(json.dumps({outcome.run_id: outcome.status for outcome in told}))
