import asyncio

from bollard.sdk import RunContext, runner
from bollard.sdk.testing import MemoryHost


@runner(permissions={"knowledge_bases": ["list", "retrieve"]})
async def librarian(ctx: RunContext):
    for base in await ctx.api.knowledge.list():
        for chunk in await ctx.api.knowledge.retrieve(base.kb_id, ctx.input.text or "", limit=1):
            yield ctx.delta(chunk.text)


host = MemoryHost(knowledge={"handbook": ["Holidays are 30 days.", "The office opens at nine."]})
assert asyncio.run(host.run(librarian, "how many holidays?")).text == "Holidays are 30 days."
