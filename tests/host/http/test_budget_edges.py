"""Many concurrent requests at the edge of a budget: as many as fit are accepted, no more, and the rest are refused by
name; also across a restart. A refused request takes no slot, and an ended run frees one."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.settings import Settings

MANY = 24
KIT = """
    import asyncio
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Kit", permissions={"tools": ["call"]})
    async def kit(ctx: RunContext):
        async def one():
            try:
                await ctx.api.tools.call("calculate", {"expression": "1 + 1"})
                return "done"
            except AgentAPIException as refusal:
                return refusal.error.code
        came = await asyncio.gather(*(one() for _ in range(int(ctx.input.text))))
        yield ctx.completed(" ".join(came))
"""
TOOLS = {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/calculate"]}}}


def up(start: Any, client_of: Any, settings: Settings, token: str | None = None) -> tuple[Any, Any]:
    host = start(settings)
    client = client_of(host.port, token or host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    return host, client


@pytest.fixture(scope="module")
def edge(start_module_host: Any, client_of: Any, kit_settings: Settings) -> Any:
    return up(start_module_host, client_of, kit_settings)[1]


def told(answers: list[Any]) -> Counter[str]:
    return Counter("taken" if each.status == 202 else each.error["code"] for each in answers)


def at_once(many: int, ask: Any) -> list[Any]:
    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(ask, range(many)))


def calls(client: Any, agent: str, runs: int, each: int) -> Counter[str]:
    """The outcomes of concurrent calls, of concurrent runs of one actor."""
    said = Counter[str]()
    for answer in at_once(runs, lambda _: client.tell(agent, str(each), actor={"id": "ada"})):
        records = client.read(answer.json["run_id"])
        (message,) = [record.data["data"]["message"] for record in records if record.type == "message.completed"]
        said.update(message["content"].split())
    return said


def test_concurrent_runs_stay_within_the_limit_and_an_end_frees_a_slot(edge: Any) -> None:
    edge.save_agent("few", budget={"runs_at_once": 3})
    for _ in range(3):
        answers = at_once(MANY, lambda _: edge.tell("few", "wait"))
        assert told(answers) == {"taken": 3, "budget_exceeded": MANY - 3}
        for run_id in [each.json["run_id"] for each in answers if each.status == 202]:
            assert edge.post(f"/api/v1/runs/{run_id}/cancel").status == 202
            edge.read(run_id)


def test_the_same_message_sent_many_times_takes_one_place(edge: Any) -> None:
    edge.save_agent("once", budget={"runs_per_day": 2})
    answers = at_once(MANY, lambda _: edge.tell("once", "hi", id="the-same"))
    assert {each.json["run_id"] for each in answers} == {answers[0].json["run_id"]}
    assert told(at_once(MANY, lambda _: edge.tell("once", "hi"))) == {"taken": 1, "budget_exceeded": MANY - 1}


def test_of_many_concurrent_messages_each_sender_passes_up_to_the_rate(edge: Any) -> None:
    edge.save_agent("slow", gate={"messages_per_minute": 1, "burst": 4})
    answers = at_once(MANY, lambda number: edge.tell("slow", "hi", actor={"id": "ab"[number % 2]}))
    assert told(answers) == {"taken": 8, "rate_limited": MANY - 8}


@pytest.mark.parametrize(("whose", "made"), [("per_run", 12), ("per_day", 6), ("per_actor_day", 6)])
def test_of_many_concurrent_calls_as_many_pass_as_the_budget_allows(edge: Any, whose: str, made: int) -> None:
    edge.save_agent(name := whose.replace("_", "-"), "kit/default", access=TOOLS, budget={whose: {"calls": 6}})
    assert calls(edge, name, runs=2, each=10) == {"done": made, "budget_exceeded": 20 - made}


def test_a_restart_keeps_the_rest_of_the_daily_budget(
    start_host: Any, client_of: Any, kit_settings: Settings, tmp_path: Any
) -> None:
    settings = replace(kit_settings, data=tmp_path)
    host, client = up(start_host, client_of, settings)
    client.save_agent("daily", budget={"runs_per_day": 8})
    client.save_agent("calling", "kit/default", access=TOOLS, budget={"per_day": {"calls": 6}})
    assert told(at_once(5, lambda _: client.tell("daily", "hi"))) == {"taken": 5}
    assert calls(client, "calling", runs=2, each=2) == {"done": 4}
    host.stop()
    _, client = up(start_host, client_of, settings, client.token)
    assert told(at_once(MANY, lambda _: client.tell("daily", "hi"))) == {"taken": 3, "budget_exceeded": MANY - 3}
    assert calls(client, "calling", runs=2, each=5) == {"done": 2, "budget_exceeded": 8}
