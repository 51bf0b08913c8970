import asyncio

from bollard.sdk import AgentAPIException, RunContext, runner
from bollard.sdk.testing import MemoryHost, ScriptedModel


@runner(permissions={"models": ["invoke"]})
async def careful(ctx: RunContext):
    try:
        answer = await ctx.api.models.invoke("small", [{"role": "user", "content": ctx.input.text}])
        yield ctx.completed(answer)
    except AgentAPIException as error:
        yield ctx.fail(f"no model: {error.code}")


async def main() -> None:
    host = MemoryHost(models={"small": ScriptedModel(["fine"])})
    assert (await host.run(careful, "how are you?")).text == "fine"
    host.deny("models.invoke")
    refused = await host.run(careful, "and now?")
    assert (refused.status, refused.error) == ("failed", "no model: capability_denied")


asyncio.run(main())
