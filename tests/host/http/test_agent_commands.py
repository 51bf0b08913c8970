"""Chat commands that agents add, and slash commands of a platform: listed, invoked, switched off and explained."""

import json
from typing import Any

import pytest
from tests.host.http.chat_program import Program, bind, post, save
from tests.host.http.test_channels import program as program
from tests.host.http.test_chat_commands import chat

from bollard.host.settings import Settings

KIT = """
    import asyncio
    import json

    from bollard.sdk import RunContext, runner


    def shown(event, given):
        return json.dumps({"type": event.event_type, "data": event.data, "text": given.text})


    @runner(name="teller", label="Teller", capabilities=["steering"])
    async def teller(ctx: RunContext):
        while ctx.input.text == "hold":
            pulled = await ctx.api.steering.pull()
            if pulled.items:
                yield ctx.completed(shown(pulled.items[0].event, pulled.items[0].input))
                return
            await asyncio.sleep(0.02)
        yield ctx.completed(shown(ctx.event, ctx.input))
"""
WEATHER = {"name": "weather", "description": {"en_US": "the weather of a place", "zh_Hans": "某地的天气"}}
ROLL = {"name": "roll", "description": {"en_US": "roll a die"}}


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


@pytest.fixture(scope="module")
def agents(api: Any) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    for agent_id, command in (("forecast", WEATHER), ("dice", ROLL)):
        body = {"agent_id": agent_id, "runner_id": "plugin:local/kit/teller", "commands": [command]}
        saved = api.put(f"/api/v1/agents/{agent_id}", body)
        assert (saved.status, saved.json["commands"]) == (201, [command])
    return api


def room(api: Any, program: Program, name: str, **more: Any) -> str:
    secret = save(api, name, **{"url": program.url, "agents": ["dice"], **more})["secret"]
    bind(api, name, "forecast")
    return secret


def seen(api: Any, run_id: str) -> dict[str, Any]:
    """What the runner saw of its event."""
    (said,) = [each.data["data"]["message"]["content"] for each in api.read(run_id) if each.type == "message.completed"]
    return json.loads(said)


def test_help_lists_the_commands_of_the_agents_in_the_language_of_the_person(agents: Any, program: Program) -> None:
    secret = room(agents, program, "lists", commands=["help"], rules={"commands_off": ["roll"]})
    chat(agents, secret, "/help", "l-1", room="lists")
    chat(agents, secret, "/help", "l-2", room="lists", locale="zh_Hans")
    texts = [each["text"] for each in program.until(2)]
    assert texts[0] == "Commands:\n/help: show this list\n/weather: the weather of a place"
    assert texts[1].endswith("/weather: 某地的天气")


def test_a_command_starts_a_run_of_the_agent_that_has_it(agents: Any, program: Program) -> None:
    secret = room(agents, program, "calls")
    for number, text, agent, arguments in (
        ("1", "/weather Berlin tomorrow", "forecast", "Berlin tomorrow"),
        ("2", "/ROLL@polly", "dice", ""),
    ):
        accepted = chat(agents, secret, text, f"c-{number}", room="calls")
        assert agents.ended(accepted["run_id"])["agent_id"] == agent
        name = text.split()[0].partition("@")[0].removeprefix("/").lower()
        data = {"command": name, "arguments": arguments}
        assert seen(agents, accepted["run_id"]) == {"type": "command.invoked", "data": data, "text": text}
        assert chat(agents, secret, text, f"c-{number}", room="calls")["event_id"] == accepted["event_id"]


def test_a_command_steers_an_active_run_of_its_agent(agents: Any, program: Program) -> None:
    secret = room(agents, program, "steers")
    held = chat(agents, secret, "hold", "t-1", room="steers")["run_id"]
    assert chat(agents, secret, "/weather Rome", "t-2", room="steers")["run_id"] == held
    told = seen(agents, held)
    assert (told["type"], told["data"]["arguments"]) == ("command.invoked", "Rome")


def test_a_command_that_is_off_or_unknown_is_a_message(agents: Any, program: Program) -> None:
    secret = room(agents, program, "off", rules={"commands_off": ["roll"]})
    for number, text in (("1", "/roll"), ("2", "/fly")):
        accepted = chat(agents, secret, text, f"o-{number}", room="off")
        assert agents.ended(accepted["run_id"])["agent_id"] == "forecast"
        assert seen(agents, accepted["run_id"])["type"] == "message.received"


def slash(api: Any, secret: str, number: str, place: str, **data: Any) -> Any:
    return chat(api, secret, None, number, room=place, type="command.invoked", data=data)  # type: ignore[arg-type]


def test_a_slash_command_of_the_platform_is_an_event_of_its_own(agents: Any, program: Program) -> None:
    secret = room(agents, program, "slash", rules={"commands_off": ["roll"], "groups": "addressed"})
    asked = slash(agents, secret, "s-1", "slash", command="/Help")
    assert (asked["run_id"], asked["reason"]["code"]) == (None, "command")
    accepted = chat(
        agents,
        secret,
        None,  # type: ignore[arg-type]
        "s-2",
        room="slash",
        type="command.invoked",
        is_private=False,
        data={"command": "weather", "arguments": "Berlin"},
    )
    assert agents.ended(accepted["run_id"])["agent_id"] == "forecast", "a command is always for the bot"
    assert slash(agents, secret, "s-3", "slash", command="roll")["reason"]["code"] == "not_answered"
    scope = {"channel": "slash"}
    filters = [{"field": "event_type", "values": ["command.invoked"]}, {"field": "data.command", "values": ["fly"]}]
    bound = {"agent_id": "dice", "scope": scope, "filters": filters}
    assert agents.put("/api/v1/bindings/slash-fly", bound).status == 201
    flown = slash(agents, secret, "s-4", "slash", command="fly")
    assert agents.ended(flown["run_id"])["agent_id"] == "dice", "a command that no agent has can be bound"


def test_wrong_commands_are_refused_by_their_field(agents: Any, program: Program) -> None:
    secret = room(agents, program, "wrong")
    for number, data in enumerate(({}, {"command": ""}, {"command": 7}, {"command": "x", "arguments": ["y"]})):
        body = {"type": "command.invoked", "data": data, "conversation": "c-1", "actor": {"id": "ann"}}
        answer = post(agents, "wrong", secret, body, number=f"w-{number}")
        assert (answer.status, answer.error["details"]["field"].partition(".")[0]) == (400, "data"), answer.body
    agent = {"agent_id": "bad", "runner_id": "plugin:local/parrot/default"}
    for commands in (
        [{"name": "help", "description": {"en_US": "x"}}],
        [{"name": "Fly", "description": {"en_US": "x"}}],
        [{"name": "fly", "description": {}}],
        [ROLL, ROLL],
    ):
        refused = agents.put("/api/v1/agents/bad", {**agent, "commands": commands})
        assert (refused.status, refused.error["details"]["field"].startswith("agent.commands")) == (400, True)


def test_resolve_explains_commands(agents: Any, program: Program) -> None:
    room(agents, program, "explained", rules={"commands_off": ["roll"]})
    for text, key, agent in (
        ("/weather Berlin", "agent_command", "forecast"),
        ("/roll", "command_off", "forecast"),
        ("/status", "host_command", None),
    ):
        body = {"source": "explained", "text": text, "conversation": "c-1", "actor": {"id": "ann"}, "is_private": True}
        found = agents.post("/api/v1/bindings/resolve", body).json
        assert (found["steps"][1]["key"], found["agent"]) == (key, agent), found
        assert text.split()[0] in found["steps"][1]["text"]
