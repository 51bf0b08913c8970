"""Many at once at the edge of a budget: as many as there is room for are taken, no more, and the rest are refused by
name; also across a restart. Who was refused, or failed, keeps no place."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bollard.host.settings import Settings

MANY = 24
KIT = """
    import asyncio
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Kit", permissions={"tools": ["call"]})
    async def kit(ctx: RunContext):
        many = int(ctx.input.text or "1")
        async def one(number):
            try:
                name, parameters = "calculate", {"expression": "1 + 1" if number >= 0 else "1 +"}
                return "failed" if (await ctx.api.tools.call(name, parameters)).is_error else "done"
            except AgentAPIException as refusal:
                return refusal.error.code
        came = await asyncio.gather(*(one(number) for number in range(many)))
        yield ctx.completed(" ".join(sorted(came)))
"""
TOOLS = {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/calculate"]}}}


@pytest.fixture
def settings(kit_settings: Settings, tmp_path: Any) -> Settings:
    from tests.changing import replace

    return replace(kit_settings, data=tmp_path / "data")


def up(start: Any, client_of: Any, settings: Settings, token: str | None = None) -> tuple[Any, Any]:
    host = start(settings)
    client = client_of(host.port, token or host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    return host, client


def told(answers: list[Any]) -> Counter[str]:
    return Counter("taken" if each.status == 202 else each.error["code"] for each in answers)


def all_at_once(many: int, ask: Any) -> list[Any]:
    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(ask, range(many)))


def test_of_many_messages_at_once_as_many_get_runs_as_the_day_has(
    start_host: Any, client_of: Any, settings: Settings
) -> None:
    host, client = up(start_host, client_of, settings)
    client.save_agent("daily", budget={"runs_per_day": 5})
    first = all_at_once(MANY, lambda _: client.tell("daily", "hi"))
    assert told(first) == {"taken": 5, "budget_exceeded": MANY - 5}
    host.stop()
    host, client = up(start_host, client_of, settings, client.token)
    assert told(all_at_once(4, lambda _: client.tell("daily", "hi"))) == {"budget_exceeded": 4}
    client.save_agent("daily", budget={"runs_per_day": 8})
    assert told(all_at_once(MANY, lambda _: client.tell("daily", "hi"))) == {"taken": 3, "budget_exceeded": MANY - 3}


def test_of_many_messages_at_once_as_many_run_as_may_and_who_ends_makes_room(
    start_host: Any, client_of: Any, settings: Settings
) -> None:
    _, client = up(start_host, client_of, settings)
    client.save_agent("few", budget={"runs_at_once": 3})
    for _ in range(3):
        answers = all_at_once(MANY, lambda _: client.tell("few", "wait"))
        assert told(answers) == {"taken": 3, "budget_exceeded": MANY - 3}
        for each in answers:
            if each.status == 202:
                assert client.post(f"/api/v1/runs/{each.json['run_id']}/cancel").status == 202
                client.read(each.json["run_id"])


def test_the_same_message_many_times_at_once_takes_one_place(
    start_host: Any, client_of: Any, settings: Settings
) -> None:
    _, client = up(start_host, client_of, settings)
    client.save_agent("once", budget={"runs_per_day": 2})
    answers = all_at_once(MANY, lambda _: client.tell("once", "hi", id="the-same"))
    assert {each.json["run_id"] for each in answers} == {answers[0].json["run_id"]}
    assert told(all_at_once(MANY, lambda _: client.tell("once", "hi"))) == {"taken": 1, "budget_exceeded": MANY - 1}


def test_of_many_messages_at_once_a_sender_has_as_many_as_the_rate(
    start_host: Any, client_of: Any, settings: Settings
) -> None:
    _, client = up(start_host, client_of, settings)
    client.save_agent("slow", gate={"messages_per_minute": 1, "burst": 4})
    answers = all_at_once(MANY, lambda number: client.tell("slow", "hi", actor={"id": "ab"[number % 2]}))
    assert told(answers) == {"taken": 8, "rate_limited": MANY - 8}


@pytest.mark.parametrize("whose", ["per_run", "per_day", "per_actor_day"])
def test_of_many_calls_at_once_as_many_are_made_as_the_budget_has(
    start_host: Any, client_of: Any, settings: Settings, whose: str
) -> None:
    host, client = up(start_host, client_of, settings)
    client.save_agent("caller", "kit/default", access=TOOLS, budget={whose: {"calls": 6}})
    run_ids = [each.json["run_id"] for each in all_at_once(2, lambda _: client.tell("caller", "10", actor={"id": "a"}))]
    said = Counter[str]()
    for run_id in run_ids:
        (message,) = [each.data["data"]["message"] for each in client.read(run_id) if each.type == "message.completed"]
        said.update(message["content"].split())
    runs = 2 if whose == "per_run" else 1
    assert said == {"done": 6 * runs, "budget_exceeded": 20 - 6 * runs}
    if whose != "per_run":
        host.stop()
        host, client = up(start_host, client_of, settings, client.token)
        run_id = client.tell("caller", "3", actor={"id": "a"}).json["run_id"]
        (message,) = [each.data["data"]["message"] for each in client.read(run_id) if each.type == "message.completed"]
        assert message["content"].split() == ["budget_exceeded"] * 3
