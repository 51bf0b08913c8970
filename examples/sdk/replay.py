import asyncio
import tempfile
from pathlib import Path

from bollard.sdk import RunContext, runner
from bollard.sdk.testing import MemoryHost, ScriptedModel, replay


@runner(permissions={"models": ["invoke"]})
async def answer(ctx: RunContext):
    yield ctx.completed(await ctx.api.models.invoke("small", [{"role": "user", "content": ctx.input.text}]))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        await MemoryHost(models={"small": ScriptedModel(["fine"])}).run(answer, "how are you?", record=file)
        assert (await replay(answer, file)).text == "fine"


asyncio.run(main())
