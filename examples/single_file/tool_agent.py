from bollard.sdk import Prompt, RunContext, Tools, agent, runner, tool


@tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False}, effects="none")
def count_words(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())


class Settings(agent.AgentSettings):
    prompt: Prompt = "You help people who write. Never guess a length: count with your tool."
    tools: Tools = ("count_words",)


@runner(
    label={"en_US": "Writing aid", "zh_Hans": "写作助手"},
    capabilities=agent.CAPABILITIES,
    permissions={"models": ["invoke", "stream"], "tools": ["detail", "call"], "history": ["page"]},
)
async def writing_aid(ctx: RunContext[Settings]):
    """Helps people who write, and counts their words."""
    async for result in agent.Agent().run(ctx):
        yield result
