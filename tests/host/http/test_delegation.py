"""Limits on calls from agent to agent: at once, in total, and how deep."""

from typing import Any

import pytest

from bollard.host.settings import Settings

KIT = """
    import asyncio

    from bollard.sdk import AgentAPIException, RunContext, runner


    @runner(name="boss", label="Boss", permissions={"agents": ["call"]})
    async def boss(ctx: RunContext):
        plan, _, rest = ctx.input.text.partition(" ")

        async def call():
            try:
                child = await ctx.api.agents.call("below", {"text": rest or "end"})
            except AgentAPIException as refused:
                return refused.error.code
            return child.messages[-1].content

        if plan == "end":
            yield ctx.completed("ended")
        elif plan == "together":
            yield ctx.completed(" ".join(sorted(await asyncio.gather(call(), call(), call()))))
        else:
            yield ctx.completed(" ".join([await call() for _ in range(int(plan))]))
"""
CALLS = {"permissions": {"agents": ["call"]}, "resources": {"agents": {"add": ["below"]}}}


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


@pytest.fixture(scope="module")
def office(api: Any) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    api.save_agent("below", "kit/boss", access=CALLS)
    return api


def said(api: Any, text: str, **delegation: Any) -> str:
    api.save_agent("boss", "kit/boss", access=CALLS, delegation=delegation)
    run_id = api.tell("boss", text).json["run_id"]
    (message,) = [each for each in api.read(run_id) if each.type == "message.completed"]
    return message.data["data"]["message"]["content"]


def test_calls_at_once_are_limited(office: Any) -> None:
    assert said(office, "together", parallel_calls=1).split().count("ended") == 1
    assert said(office, "together", parallel_calls=3) == "ended ended ended"
    assert said(office, "3", parallel_calls=1) == "ended ended ended", "one after the other"


def test_calls_in_total_are_limited(office: Any) -> None:
    assert said(office, "3", iterations=2) == "ended ended budget_exceeded"


def test_the_depth_is_limited_for_the_agents_below_too(office: Any) -> None:
    assert said(office, "1", depth=0) == "budget_exceeded"
    assert said(office, "1 1", depth=1) == "budget_exceeded", "the child may not call"
    assert said(office, "1 1", depth=2) == "ended"
