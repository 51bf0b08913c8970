"""A reusable agent: the loop that asks a model, calls its tools and asks again, until the model has answered.

    from bollard.sdk import RunContext, runner
    from bollard.sdk.agent import CAPABILITIES, PERMISSIONS, Agent, AgentSettings

    @runner(label="Assistant", capabilities=CAPABILITIES, permissions=PERMISSIONS)
    async def assistant(ctx: RunContext[AgentSettings]):
        async for result in Agent().run(ctx):
            yield result

The settings are the form of the runner: prompt, model with fallbacks, tools, knowledge bases, limits, steering and
compaction. `Hooks` changes what happens between the steps. `import bollard.sdk` does not load this package.
"""

from bollard.sdk.agent.agent import CAPABILITIES, PERMISSIONS, Agent
from bollard.sdk.agent.hooks import Hooks, Turn
from bollard.sdk.agent.settings import DEFAULT_MODEL, AgentSettings

__all__ = ["CAPABILITIES", "DEFAULT_MODEL", "PERMISSIONS", "Agent", "AgentSettings", "Hooks", "Turn"]
