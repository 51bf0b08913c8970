"""LA-09, LA-13: messages that come while a run works, and people who share a conversation but not their rights."""

from itertools import count
from typing import Any

import pytest
from tests.host.http.conftest import Client
from tests.local_agent.host_kit import PAY, WEATHER, AgentHost
from tests.local_agent.test_acceptance_tools import decide, parked

IDA = {"actor": {"type": "user", "id": "ida", "name": "Ida"}}
BOB = {"actor": {"type": "user", "id": "bob", "name": "Bob"}}
PASSWORD = "correct horse battery"
_rooms = count(1)


@pytest.fixture
def room() -> str:
    return f"room-{next(_rooms)}"


def steering(host: AgentHost, run_id: str) -> list[str]:
    return [kind for kind, _ in host.told(run_id).records if kind.startswith("steering.")]


def test_la_09_a_message_during_a_tool_batch_is_injected_before_the_next_model_call(
    agent_host: AgentHost, room: str
) -> None:
    agent_host.save_agent("payer", tools=[PAY])
    run_id = agent_host.tell("payer", 'call pay {"amount": 5}', conversation=room, **IDA)
    item = parked(agent_host, run_id)
    sent = agent_host.client.tell("payer", "and tell me the time", conversation=room, **IDA)
    assert sent.json["steering"] == {"status": "queued", "claimed_by_run_id": run_id}
    decide(agent_host, item, "allow_once")
    told = agent_host.told(run_id)
    assert told.status == "completed"
    assert steering(agent_host, run_id) == ["steering.queued", "steering.injected", "steering.acknowledged"]
    last = agent_host.asked()[-1]["messages"]
    assert [(message["role"], message["content"]) for message in last[-2:]] == [
        ("tool", "paid 5"),
        ("user", "and tell me the time"),
    ]
    assert told.text == "You said: and tell me the time"


def test_la_09_a_message_during_the_answer_continues_the_run(agent_host: AgentHost, room: str) -> None:
    agent_host.save_agent("speaker")
    agent_host.provider.script({"text": "one two three four five six", "hold": True})
    run_id = agent_host.tell("speaker", "speak", conversation=room, **IDA)
    stream = agent_host.client.stream(run_id)
    stream.until("message.delta")
    sent = agent_host.client.tell("speaker", "and then?", conversation=room, **IDA)
    assert sent.json["steering"]["claimed_by_run_id"] == run_id
    agent_host.provider.go_on()
    stream.close()
    told = agent_host.told(run_id)
    assert [message["content"] for message in told.messages] == ["one two three four five six", "You said: and then?"]
    assert steering(agent_host, run_id)[-1] == "steering.acknowledged"


def test_la_09_a_message_for_a_failing_run_is_dropped_and_gets_its_own_run(agent_host: AgentHost, room: str) -> None:
    agent_host.save_agent("breaks")
    agent_host.provider.script({"text": "one two three", "hold": True, "fault": "disconnect"})
    run_id = agent_host.tell("breaks", "speak", conversation=room, **IDA)
    stream = agent_host.client.stream(run_id)
    stream.until("message.delta")
    sent = agent_host.client.tell("breaks", "are you there?", conversation=room, **IDA)
    assert sent.json["steering"]["claimed_by_run_id"] == run_id
    agent_host.provider.go_on()
    stream.close()
    told = agent_host.told(run_id)
    assert told.status == "failed"
    assert told.messages[0]["metadata"]["partial"] is True
    (dropped,) = told.of("steering.dropped")
    assert dropped["redispatch"] is True
    page = agent_host.client.until(
        f"/api/v1/runs?conversation={room}&limit=10",
        lambda page: {run["status"] for run in page["items"]} == {"failed", "completed"},
    )
    (own,) = [run["run_id"] for run in page["items"] if run["run_id"] != run_id]
    assert agent_host.told(own).text == "You said: are you there?"


def test_la_13_a_message_of_another_user_does_not_enter_a_run(agent_host: AgentHost, room: str) -> None:
    agent_host.save_agent("payer", tools=[PAY])
    idas = agent_host.tell("payer", 'call pay {"amount": 5}', conversation=room, **IDA)
    item = parked(agent_host, idas)
    sent = agent_host.client.tell("payer", "make it 5000", conversation=room, **BOB)
    assert "steering" not in sent.json
    decide(agent_host, item, "allow_once")
    told = agent_host.told(idas)
    assert told.messages[1]["content"] == "paid 5"
    assert "5000" not in str([asked["messages"] for asked in agent_host.asked()[:2]])

    bobs = agent_host.told(sent.json["run_id"])
    assert bobs.status == "completed"
    said = [message["content"] for message in agent_host.asked()[-1]["messages"] if message["role"] == "user"]
    assert said[0].startswith("Ida: ")
    assert said[-1] == "Bob: make it 5000"


def test_la_13_talking_and_approving_are_separate_rights(any_host: AgentHost, room: str) -> None:
    client = any_host.client
    people: dict[str, Client] = {}
    for name in ("ida", "bob"):
        assert client.put(f"/api/v1/users/{name}", {"role": "member", "password": PASSWORD}).status in (200, 201)
        login = client.post("/api/v1/session", {"user": name, "password": PASSWORD}, token=None)
        people[name] = Client(client.port, login.json["token"])
    policy: dict[str, Any] = {
        "gate": {"talk": "listed", "actors": ["user:ida", "user:bob"]},
        "audience": {"approve": {"who": "listed", "actors": ["user:ida"]}},
    }
    any_host.save_agent("shared", tools=[PAY, WEATHER], policy=policy)
    eve = {"actor": {"type": "user", "id": "eve"}}
    assert client.tell("shared", "hello", conversation=room, **eve).status == 403
    started = people["bob"].tell("shared", 'call pay {"amount": 7}', conversation=room)
    assert started.status == 202
    item = parked(any_host, started.json["run_id"])
    body = {"decision": "allow_once", "digest": item["digest"]}
    path = f"/api/v1/approvals/{item['approval_id']}/decide"
    assert people["bob"].post(path, body).status == 403
    assert people["ida"].post(path, body).status == 200
    told = any_host.told(started.json["run_id"])
    assert told.messages[1]["content"] == "paid 7"
