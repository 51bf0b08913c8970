"""LA-04, LA-11, LA-12: tools through a real host: granted, approved, cancelled."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from tests.host.http.chat_program import Program, post
from tests.local_agent.host_kit import ACCESS, PAY, WAIT, WEATHER, AgentHost


def offered(asked: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in asked.get("tools", [])]


def parked(host: AgentHost, run_id: str) -> dict[str, Any]:
    """The question of a run that waits."""
    host.client.until(f"/api/v1/runs/{run_id}", lambda run: run["status"] == "waiting")
    page = host.client.until(
        "/api/v1/approvals?status=requested", lambda page: [item for item in page["items"] if item["run_id"] == run_id]
    )
    (item,) = [item for item in page["items"] if item["run_id"] == run_id]
    return item


def decide(host: AgentHost, item: dict[str, Any], decision: str) -> None:
    body = {"decision": decision, "digest": item["digest"]}
    answer = host.client.post(f"/api/v1/approvals/{item['approval_id']}/decide", body)
    assert answer.status == 200, answer.body


def is_whole(messages: list[dict[str, Any]]) -> bool:
    """Whether every call has its result right behind it, as providers demand."""
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message["role"] == "tool":
            return False
        for call in message.get("tool_calls") or ():
            if at >= len(messages) or messages[at].get("tool_call_id") != call["id"]:
                return False
            at += 1
    return True


def test_la_04_a_tool_is_called_and_only_granted_tools_are_visible(agent_host: AgentHost) -> None:
    agent_host.save_agent("errands", tools=[WEATHER])
    told = agent_host.run("errands", 'call weather {"city": "Rome"}', conversation="la-04")
    assert told.status == "completed"
    assert "sunny in Rome" in told.text
    first, second = agent_host.asked()
    assert offered(first) == ["weather"]
    schema = first["tools"][0]["function"]["parameters"]
    assert schema["properties"]["city"]["type"] == "string"
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert [message["role"] for message in told.messages] == ["assistant", "tool", "assistant"]
    (done,) = told.of("action.completed")
    assert done["call_id"] == told.messages[1]["tool_call_id"]


def test_la_04_an_ungranted_tool_cannot_be_called_by_the_model(agent_host: AgentHost) -> None:
    agent_host.save_agent("errands", tools=[WEATHER])
    agent_host.provider.script({"tool_calls": [{"name": "pay", "arguments": {"amount": 9}}]}, {"text": "I may not"})
    told = agent_host.run("errands", "pay them")
    assert told.text == "I may not"
    assert "there is no tool pay" in told.messages[1]["content"]
    assert not told.of("action.started")


def test_la_04_an_agent_without_tools_offers_none(agent_host: AgentHost) -> None:
    agent_host.save_agent("bare")
    agent_host.run("bare", "hello")
    assert offered(agent_host.asked()[0]) == []


@pytest.mark.parametrize("style", ["openai-responses", "anthropic"])
def test_la_04_two_tools_are_called_at_once_in_every_vendor_format(any_host: AgentHost, style: str) -> None:
    any_host.save_model(style, style=style)
    any_host.save_agent("formats", tools=[WEATHER], model={"primary": style, "fallbacks": []})
    any_host.provider.script(
        {
            "tool_calls": [{"name": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")],
            "bytewise": True,
        },
        {"text": "sunny in both 都晴", "bytewise": True},
    )
    told = any_host.run("formats", "the weather?", conversation=f"la-04-{style}")
    assert (told.status, told.text) == ("completed", "sunny in both 都晴")
    assert [message["content"] for message in told.messages[1:3]] == ["sunny in Rome", "sunny in Oslo"]
    again = any_host.run("formats", "thanks", conversation=f"la-04-{style}")
    assert again.text == "You said: thanks"


def test_la_11_one_call_of_a_batch_waits_for_an_approval_and_the_order_is_kept(agent_host: AgentHost) -> None:
    agent_host.save_agent("payer", tools=[WEATHER, PAY])
    text = 'call pay {"amount": 5}\ncall weather {"city": "Rome"}'
    run_id = agent_host.tell("payer", text)
    item = parked(agent_host, run_id)
    assert len(agent_host.asked()) == 1  # the model is asked again when the whole batch has ended
    decide(agent_host, item, "allow_once")
    told = agent_host.told(run_id)
    assert told.status == "completed"
    assert [message["content"] for message in told.messages[1:3]] == ["paid 5", "sunny in Rome"]
    assert [kind for kind, _ in told.records if kind in ("run.waiting", "run.resumed")] == [
        "run.waiting",
        "run.resumed",
    ]
    assert is_whole(agent_host.asked()[1]["messages"])


def test_la_11_the_model_learns_of_a_denial_and_the_run_continues(agent_host: AgentHost) -> None:
    agent_host.save_agent("payer", tools=[WEATHER, PAY])
    run_id = agent_host.tell("payer", 'call pay {"amount": 5}\ncall weather {"city": "Rome"}')
    decide(agent_host, parked(agent_host, run_id), "deny")
    told = agent_host.told(run_id)
    assert told.status == "completed"
    assert "a person was asked, and said no" in told.messages[1]["content"]
    assert told.messages[2]["content"] == "sunny in Rome"


def test_la_12_a_run_cancelled_during_its_answer_keeps_its_text(agent_host: AgentHost) -> None:
    agent_host.save_agent("speaker")
    agent_host.provider.script({"text": "one two three four", "fault": "hang", "after": 2})
    run_id = agent_host.tell("speaker", "speak", conversation="la-12-stream")
    stream = agent_host.client.stream(run_id)
    stream.until("message.delta")
    assert agent_host.client.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    stream.close()
    told = agent_host.told(run_id)
    assert told.status == "cancelled"
    (message,) = told.messages
    assert (message["content"], message["finish_reason"]) == ("".join(told.deltas), "cancelled")
    assert message["content"].startswith("one")

    again = agent_host.run("speaker", "go on", conversation="la-12-stream")
    assert again.text == "You said: go on"
    said = [(each["role"], each["content"]) for each in agent_host.asked()[-1]["messages"][1:]]
    assert said == [("user", "speak"), ("assistant", message["content"]), ("user", "go on")]


def test_la_12_a_run_cancelled_in_a_tool_leaves_a_valid_history(agent_host: AgentHost) -> None:
    agent_host.save_agent("waiter", tools=[WEATHER, WAIT])
    run_id = agent_host.tell("waiter", 'call weather {"city": "Rome"}\ncall wait', conversation="la-12-tool")
    stream = agent_host.client.stream(run_id)
    stream.until("action.completed")
    assert agent_host.client.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    stream.close()
    told = agent_host.told(run_id)
    assert told.status == "cancelled"
    assert [message["role"] for message in told.messages] == ["assistant", "tool", "tool"]
    assert is_whole(told.messages)

    again = agent_host.run("waiter", "go on", conversation="la-12-tool")
    assert again.status == "completed"
    last = agent_host.asked()[-1]["messages"]
    assert is_whole(last)
    assert "sunny in Rome" in [message["content"] for message in last]


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    program.results = {"message.react": {"result": {"reacted": True}}}
    yield program
    program.stop()


SECRET = f"whsec_{base64.b64encode(bytes(32)).decode()}"
EVERYONE = {"approve": {"who": "everyone"}}


def chatted(host: AgentHost, program: Program, text: str, number: str, **config: Any) -> str:
    """Send a message through a channel with actions to an agent that may request them; its run."""
    channel = {"url": program.url, "actions": ["message.react", "group.member.remove"], "secret": SECRET}
    saved = host.client.put("/api/v1/channels/hall", channel)
    assert saved.status in (200, 201), saved.body
    access = {**ACCESS, "permissions": {**ACCESS["permissions"], "platform": ["request"]}}
    host.save_agent("warden", policy={"access": access, "audience": EVERYONE}, **config)
    bound = host.client.put("/api/v1/bindings/hall", {"agent_id": "warden", "scope": {"channel": "hall"}})
    assert bound.status in (200, 201), bound.body
    body = {"text": text, "conversation": "lobby", "actor": {"id": "ann"}, "is_private": True}
    answer = post(host.client, "hall", SECRET, body, number=number)
    assert answer.status == 202, answer.body
    return answer.json["run_id"]


def test_platform_actions_are_no_tools_unless_the_agent_offers_them(any_host: AgentHost, program: Program) -> None:
    told = any_host.told(chatted(any_host, program, "hello", "off"))
    assert told.status == "completed"
    assert offered(any_host.asked()[0]) == []


def test_the_model_requests_a_platform_action_of_its_channel(agent_host: AgentHost, program: Program) -> None:
    text = 'call message_react {"message": "m1", "reaction": "+1"}'
    told = agent_host.told(chatted(agent_host, program, text, "react", platform_actions=True))
    assert (told.status, told.messages[1]["content"]) == ("completed", '{"reacted": true}')
    request = agent_host.asked()[0]
    assert offered(request) == ["group_member_remove", "message_react", "message_send"]
    schema = request["tools"][1]["function"]["parameters"]
    assert schema["required"] == ["message", "reaction"], "the conversation of the run is the default"
    assert schema["properties"]["reaction"]["maxLength"] == 64
    (sent,) = [each for each in program.came if each["type"] == "action.requested"]
    expected = {"message": "m1", "reaction": "+1", "target": "lobby"}
    assert (sent["action"], sent["arguments"]) == ("message.react", expected)
    assert [kind for kind, _ in told.records if kind.startswith("action.")] == ["action.started", "action.completed"]


def test_a_risky_platform_action_waits_for_an_approval(agent_host: AgentHost, program: Program) -> None:
    text = 'call group_member_remove {"user": "bob"}'
    run_id = chatted(agent_host, program, text, "remove", platform_actions=True)
    item = parked(agent_host, run_id)
    assert not [each for each in program.came if each["type"] == "action.requested"]
    decide(agent_host, item, "deny")
    told = agent_host.told(run_id)
    assert "approval_denied" in told.messages[1]["content"]
    assert not [each for each in program.came if each["type"] == "action.requested"]
