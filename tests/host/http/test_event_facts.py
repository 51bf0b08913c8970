"""Facts in the events of a conversation: deliveries, steering, tools and failures of the agent's own runs."""

import json
from typing import Any

import pytest
from tests.host.http.chat_program import Program, bind, save
from tests.host.http.test_channels import program as program
from tests.host.http.test_chat_commands import chat

from bollard.host.settings import Settings

KIT = """
    import asyncio
    import json

    from bollard.sdk import AgentAPIException, RunContext, runner

    NEEDS = {"events": ["get", "page"], "tools": ["call"]}


    @runner(name="reader", label="Reader", permissions=NEEDS, capabilities=["steering"])
    async def reader(ctx: RunContext):
        text = ctx.input.text
        if text == "fail":
            raise ValueError("on request")
        if text in ("sum", "sum and look"):
            await ctx.api.tools.call("calculate", {"expression": "6 * 7"})
        while text == "hold":
            if (await ctx.api.steering.pull()).items:
                break
            await asyncio.sleep(0.02)
        if text not in ("look", "sum and look"):
            yield ctx.completed("noted")
            return
        page = await ctx.api.events.page(limit=100)
        facts = [item for item in page.items if item.event_id.startswith("fact_")]
        again = [await ctx.api.events.get(item.event_id) for item in facts]
        foreign = []
        for event_id in ("fact_1", "fact_0", "fact_x", "fact_" + "9" * 30):
            try:
                await ctx.api.events.get(event_id)
            except AgentAPIException as refused:
                foreign.append(refused.error.code)
        ordered = [item.seq for item in page.items] == sorted(item.seq for item in page.items)
        shown = [[item.event_type, item.metadata] for item in facts]
        said = {"facts": shown, "same": again == facts, "ordered": ordered, "foreign": foreign}
        yield ctx.completed(json.dumps(said))
"""


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


def looked(api: Any, run_id: str) -> dict[str, Any]:
    (said,) = [each.data["data"]["message"]["content"] for each in api.read(run_id) if each.type == "message.completed"]
    return json.loads(said)


def test_a_run_reads_the_facts_of_earlier_runs_of_its_agent_in_its_conversation(api: Any, program: Program) -> None:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    tools = {"tools": {"add": ["tool:builtin/calculate"]}}
    access = {"permissions": {"events": ["get", "page"], "tools": ["call"]}, "resources": tools}
    for agent in ("reader", "other"):
        api.save_agent(agent, "kit/reader", access=access)
    secret = save(api, "facts", url=program.url, agents=["other"])["secret"]
    bind(api, "facts", "reader")

    def say(text: str, number: str, **more: Any) -> str:
        return chat(api, secret, text, number, room="facts", **more)["run_id"]

    summed = say("sum", "1")
    assert api.ended(summed)["status"] == "completed"
    failed = say("fail", "2")
    assert api.ended(failed)["status"] == "failed"
    held = say("hold", "3")
    assert say("more", "4") == held
    assert api.ended(held)["status"] == "completed"
    assert api.ended(say("sum", "5", conversation="c-2"))["status"] == "completed"
    chat(api, secret, "/agent other", "6", room="facts")
    assert api.ended(say("sum", "7"))["status"] == "completed"
    chat(api, secret, "/agent default", "8", room="facts")
    api.until("/api/v1/deliveries?channel=facts", lambda found: {each["status"] for each in found["items"]} == {"sent"})
    seen = looked(api, say("look", "9"))
    assert (seen["same"], seen["ordered"], seen["foreign"]) == (True, True, ["not_found"] * 4)
    of_runs = {run_id: [] for run_id in (summed, failed, held)}
    for event_type, metadata in seen["facts"]:
        of_runs[metadata["run_id"]].append(event_type)  # a fact of another agent or conversation has no place here
    assert of_runs[summed] == ["action.completed", "delivery.sent"]
    assert of_runs[failed] == ["run.failed"]
    assert of_runs[held] == ["steering.queued", "steering.injected", "delivery.sent", "steering.acknowledged"]
    told = {event_type: {**metadata, "run_id": ""} for event_type, metadata in seen["facts"]}
    assert told["run.failed"] == {"run_id": "", "status": "failed", "code": "runner.error"}
    assert told["action.completed"] == {"run_id": "", "tool_name": "calculate", "call_id": "call_1"}
    assert told["delivery.sent"]["channel_id"] == "facts"


def test_a_run_without_a_conversation_reads_its_own_facts_and_no_others(api: Any) -> None:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    access = {"permissions": {"events": ["get", "page"], "tools": ["call"]}}
    tools = {"tools": {"add": ["tool:builtin/calculate"]}}
    api.save_agent("alone", "kit/reader", access={**access, "resources": tools})
    summed = api.tell("alone", "sum").json["run_id"]
    assert api.ended(summed)["status"] == "completed"
    seen = looked(api, api.tell("alone", "sum and look").json["run_id"])
    assert [[event_type, {**metadata, "run_id": ""}] for event_type, metadata in seen["facts"]] == [
        ["action.completed", {"run_id": "", "tool_name": "calculate", "call_id": "call_1"}]
    ]
    assert summed not in {metadata["run_id"] for _, metadata in seen["facts"]}
    assert (seen["same"], seen["ordered"], seen["foreign"]) == (True, True, ["not_found"] * 4)
