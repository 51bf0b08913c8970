import asyncio

from bollard.sdk import RunContext, runner
from bollard.sdk.testing import MemoryHost


@runner()
async def counter(ctx: RunContext):
    found = await ctx.api.state.find("conversation", "visits")
    visits = 1 + (found.value if found and isinstance(found.value, int) else 0)
    await ctx.api.state.set("conversation", "visits", visits, if_version=found.version if found else 0)
    yield f"visit {visits}"


async def main() -> None:
    host = MemoryHost()
    await host.run(counter, "hi")
    assert (await host.run(counter, "hi again")).text == "visit 2"


asyncio.run(main())
