"""The spending of a run, in memory: summaries count like answers, and leave something for the answer."""

import re
from typing import Any

import pytest
from tests.local_agent.context_kit import called, memory

from bollard.sdk import runner
from bollard.sdk.agent import CAPABILITIES, PERMISSIONS
from bollard.sdk.agent import Agent as LocalAgent
from bollard.sdk.testing import MemoryHost, RunOutcome, ScriptedModel, tool_calls

pytestmark = pytest.mark.anyio

FACT = "Remember that the code of the vault is 7341."
TURNS = 500
"""Of a conversation that needs more summaries than one run may make."""


@runner(label="Local agent", capabilities=CAPABILITIES, permissions=PERMISSIONS)
class Agent(LocalAgent):
    pass


def frugal(summary_cost: float = 0.0, answer: Any = "it is 7341") -> ScriptedModel:
    """A model that remembers the fact, and answers."""

    def reply(request: Any) -> Any:
        if "<messages>" not in request.messages[-1].content:
            return answer
        kept = re.findall(r"Remember[^.]*\.", request.messages[-1].content)
        return {"content": " ".join(dict.fromkeys(kept)) or "Nothing.", "metadata": {"cost": summary_cost}}

    return ScriptedModel([reply] * 100, context_window=3000)


def long_talk(main: ScriptedModel, turns: int = TURNS, **more: Any) -> MemoryHost:
    said = [(f"This is question number {at} about nothing.", ("assistant", f"Answer {at}.")) for at in range(turns)]
    history = [FACT, ("assistant", "I will."), *(each for pair in said for each in pair)]
    return memory({"default": main}, history=history, **more)


def summaries(main: ScriptedModel) -> int:
    return sum("<messages>" in request.messages[-1].content for request in main.requests)


def last(outcome: RunOutcome) -> dict[str, Any]:
    return outcome.of_type("message.completed")[-1].data["message"]


@pytest.mark.parametrize(("max_steps", "made"), [(24, 4), (4, 3), (2, 1), (1, 0)])
async def test_summaries_count_as_steps_and_leave_one_for_the_answer(max_steps: int, made: int):
    main = frugal()
    outcome = await long_talk(main).run(Agent, "what is the code?", config={"max_steps": max_steps})
    assert (outcome.status, outcome.text) == ("completed", "it is 7341")
    assert (summaries(main), len(main.requests)) == (made, made + 1)
    assert "7341" in main.requests[-1].messages[1].content  # kept without a model where none may be asked


@pytest.mark.parametrize(("cost", "made"), [(0.0, 4), (0.2, 3), (0.3, 2), (0.9, 1)])
async def test_summaries_leave_half_of_the_cost_for_the_answer(cost: float, made: int):
    main = frugal(cost)
    outcome = await long_talk(main).run(Agent, "what is the code?", config={"max_cost": 1.0})
    assert (outcome.status, outcome.text) == ("completed", "it is 7341")
    assert summaries(main) == made


async def test_a_summary_that_uses_the_whole_cost_ends_the_run_and_the_next_one_continues():
    main = frugal(2.0)
    host = long_talk(main, 100)
    outcome = await host.run(Agent, "密码是多少？", config={"max_cost": 1.0})
    assert outcome.of_type("run.completed")[0].data["finish_reason"] == "max_cost"
    assert last(outcome)["metadata"]["stopped"] == "max_cost"
    assert last(outcome)["content"] == "我先停在这里：这次运行的费用已到上限。再发一条消息可以继续。"
    assert len(main.requests) == summaries(main) == 1

    again = await host.run(Agent, "and now?", config={"max_cost": 1.0})
    assert again.text == "it is 7341"
    assert summaries(main) == 1


async def test_a_stopping_run_makes_no_summary():
    def look() -> str:
        """Much to read."""
        return "word " * 20_000

    dear = {**tool_calls(("look", {})).model_dump(exclude_none=True), "metadata": {"cost": 2.0}}
    main = frugal(answer=dear)
    config = {"max_cost": 1.0, "tool_result_characters": 100_000, "compaction_at": 1.0}
    outcome = await long_talk(main, 20, tools=[look]).run(Agent, "look", config=config)
    assert last(outcome)["finish_reason"] == "max_cost"
    assert len(main.requests) == 1
    assert not called(outcome, "state.set")
