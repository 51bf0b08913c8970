"""A support desk: it answers from a handbook, remembers its customers, and refunds only with approval."""

from typing import Annotated

from bollard.sdk import Form, KnowledgeBases, Prompt, RunContext, Tools, agent, runner, tool


@tool(risk="high")  # each call needs approval
def refund(order: str, euros: float) -> str:
    """Refunds money for an order."""
    return f"refunded {euros:.2f} EUR for order {order}"


class Settings(agent.AgentSettings):
    prompt: Prompt = "You are a support desk. Answer from the sources, and refund only what the customer asks for."
    tools: Tools = ("refund",)
    knowledge_bases: KnowledgeBases = ("handbook",)
    greeting: Annotated[str, Form(label={"en_US": "Greeting", "zh_Hans": "问候语"})] = "Welcome to the support desk."


@runner(
    label={"en_US": "Support desk", "zh_Hans": "客服台"},
    capabilities=agent.CAPABILITIES,
    permissions={
        "models": ["invoke", "stream"],
        "tools": ["detail", "call"],
        "knowledge_bases": ["list", "retrieve"],
        "history": ["page"],
    },
)
async def support_desk(ctx: RunContext[Settings]):
    if "greeted" not in ctx.state_snapshot.actor:
        yield ctx.completed(ctx.config.greeting)
        yield ctx.state("actor", "greeted", True)
    async for result in agent.Agent().run(ctx):
        yield result
