"""The same calls of the run API on a real host and on the in-memory host: answers, errors and facts agree."""

import asyncio
from typing import Any

import pytest
from tests.parity.hosts import CHANNEL, LEAVE, RULES, RealHost, heard, occasion_of, remembered
from tests.parity.mirror import weigh, wide

from bollard import protocol
from bollard.sdk.testing import MemoryHost

OWN = {
    *("call_id", "run_id", "artifact_id", "upload_id", "event_id", "version", "seq", "cursor", "next_cursor"),
    *("created_at", "expires_at", "duration_ms", "runner_id", "workspace_id", "definition_sha256", "conversation_id"),
    *("claimed_at", "claimed_run_id", "claimed_by_run_id", "claimed_runner_id", "file_id", "chunk_id", "score"),
}
"""Fields that both hosts fill, each with its own value."""


def common(value: Any) -> Any:
    """What both hosts must agree on: own values count as present or absent only."""
    if isinstance(value, list):
        return [common(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "artifact_type" in value:  # how long an artifact lives is a setting of a real host
        value = {name: each for name, each in value.items() if name != "expires_at"}
    return {name: "own" if name in OWN and each is not None else common(each) for name, each in value.items()}


def state(action: str, **params: Any) -> dict[str, Any]:
    return {"action": f"state.{action}", "params": params}


def in_scope(action: str, scope: str, key: str = "k", **params: Any) -> dict[str, Any]:
    return state(action, scope=scope, key=key, **params)


def storage(area: str, action: str, **params: Any) -> dict[str, Any]:
    return {"action": f"storage.{area}.{action}", "params": params}


def call(name: str, /, **params: Any) -> dict[str, Any]:
    return {"action": name, "params": params}


NOTE = "quarter,revenue"
CALLS: dict[str, list[dict[str, Any]]] = {
    "values of a scope": [
        in_scope("get", "conversation"),
        in_scope("set", "conversation", value={"n": 1}),
        in_scope("set", "conversation", value={"n": 2}, if_version=0),
        in_scope("set", "conversation", value={"n": 2}, ttl=60),
        in_scope("get", "conversation"),
        in_scope("set", "conversation", "l", value=None),
        state("list", scope="conversation"),
        state("list", scope="conversation", limit=1),
        state("list", scope="conversation", prefix="l"),
        in_scope("delete", "conversation", if_version=1),
        in_scope("delete", "conversation"),
        in_scope("delete", "conversation"),
        in_scope("delete", "conversation", if_version=7),
        in_scope("get", "conversation"),
    ],
    "values of other scopes": [
        in_scope("set", "actor", value=1),
        in_scope("set", "runner", value=1),
        in_scope("set", "subject", value=1),
        in_scope("get", "subject"),
        state("list", scope="subject"),
        in_scope("get", "elsewhere"),
    ],
    "wrong values": [
        in_scope("set", "actor", "", value=1),
        in_scope("set", "actor", "x" * 600, value=1),
        in_scope("set", "actor", value={"$repeat": protocol.limits.STATE_VALUE_BYTES}),
        in_scope("set", "actor", value=1, ttl=0),
        in_scope("set", "actor", value=1, ttl=20 * 366 * 24 * 3600),
        state("list", scope="actor", limit=0),
        state("list", scope="actor", limit=101),
        state("list", scope="actor", cursor="made up"),
        in_scope("get", "actor", "a\0b"),
    ],
    "stored bytes": [
        each
        for area in ("plugin", "workspace")
        for each in (
            storage(area, "get", key="a"),
            storage(area, "set", key="a", content="some bytes"),
            storage(area, "set", key="a", content="other bytes"),
            storage(area, "set", key="b", content=""),
            storage(area, "get", key="a", offset=2, length=3),
            storage(area, "get", key="a", offset=50),
            storage(area, "get", key="b"),
            storage(area, "list"),
            storage(area, "list", limit=1),
            storage(area, "list", prefix="b"),
            storage(area, "get", key=""),
            storage(area, "set", key="\0", content="x"),
            storage(area, "delete", key="a"),
            storage(area, "delete", key="a"),
        )
    ],
    "artifacts of the run": [
        call("artifacts.write", name="notes.txt", mime_type="text/plain", stream=NOTE),
        call("artifacts.metadata", artifact_id="$0.artifact_id"),
        call("artifacts.read", artifact_id="$0.artifact_id"),
        call("artifacts.read", artifact_id="$0.artifact_id", offset=8, length=3),
        call("artifacts.read", artifact_id="$0.artifact_id", offset=99),
        call("artifacts.read", artifact_id="$0.artifact_id", offset=-1),
        call("artifacts.read", artifact_id="elsewhere"),
        call("artifacts.metadata", artifact_id="elsewhere"),
        call("artifacts.write", name="", mime_type="text/plain", stream=NOTE),
        call("artifacts.write", name="notes.txt", mime_type="nonsense", stream=NOTE),
    ],
    "other agents": [
        call("agents.call", agent_id="echo", input="hello"),
        call("agents.call", agent_id="echo", input="fail"),
        call("agents.call", agent_id="nobody", input="hello"),
    ],
    "documents": [
        call("knowledge.list"),
        call("knowledge.retrieve", kb_id="handbook", query="days of leave", limit=1),
        call("knowledge.retrieve", kb_id="elsewhere", query="days of leave"),
        call("knowledge.retrieve", kb_id="handbook", query="", limit=1),
        call("knowledge.retrieve", kb_id="handbook", query="days", limit=0),
        call("files.get", file_id="kb:handbook/handbook"),
        call("files.get", file_id="kb:handbook/missing"),
        call("files.get", file_id="kb:elsewhere/leave"),
        call("files.get", file_id="elsewhere"),
    ],
    "tools": [
        call("tools.detail", names=["weigh"]),
        call("tools.detail", names=["lift"]),
        call("tools.call", name="weigh", parameters={"thing": "a door"}, call_id="once"),
        call("tools.call", name="weigh", parameters={"thing": "a door"}, call_id="once"),
        call("tools.call", name="weigh", parameters={"thing": "another"}, call_id="once"),
        call("tools.call", name="weigh", parameters={"thing": 7}),
        call("tools.call", name="weigh", parameters={}),
        call("tools.call", name="lift", parameters={}),
    ],
}


def everything(**more: Any) -> MemoryHost:
    """The in-memory host with all that the agent `polymath` has."""

    def heard_by_echo(given: protocol.AgentInput) -> str | protocol.ChildRunResult:
        if given.text == "fail":
            return protocol.ChildRunResult(run_id="own", status="failed", code="runner.error")
        return f"heard {given.text}"

    return MemoryHost(
        tools=[weigh],
        agents={"echo": heard_by_echo},
        files={"rules.txt": RULES.encode()},
        knowledge={"handbook": [LEAVE]},
        platform={
            "message.react": {"reacted": True},
            "message.send": {"channel": CHANNEL},
            "message.pin": protocol.AgentAPIError(code="tool_failed", message="no", details={"call_id": "own"}),
        },
        **more,
    )


@pytest.mark.parametrize("name", CALLS)
def test_calls_have_the_same_outcomes(real: RealHost, name: str) -> None:
    data = {"calls": CALLS[name]}
    theirs = real.send("hello", data, conversation=name, agent="polymath")["outcomes"]
    ours = remembered(everything(), "hello", data, wide, conversation_id=name)["outcomes"]
    differing = [
        f"{asked}\n  in memory {common(memory)}\n  a host    {common(actual)}"
        for asked, memory, actual in zip(CALLS[name], ours, theirs, strict=True)
        if common(memory) != common(actual)
    ]
    assert not differing, "\n".join(differing)


PAGE = call("events.page")
HALL = {"channel": CHANNEL, "target": "lobby"}
REQUESTS = [
    call("platform.request", action="message.react", target=HALL, payload={"message": "m1", "reaction": "+1"}),
    call("platform.request", action="message.pin", target=HALL, payload={"message": "m1"}),
    call("platform.request", action="message.fly", target=HALL),
    call("platform.request", action="message.react", payload={"message": "m1", "reaction": "+1"}),
    call("platform.request", action="message.react", target={"target": "lobby"}, payload={"message": "m1"}),
    PAGE,
]


def test_platform_actions_have_the_same_outcomes_and_facts(real: RealHost) -> None:
    theirs = real.send("hello", {"calls": REQUESTS}, conversation="actions", agent="polymath")["outcomes"]
    ours = remembered(everything(), "hello", {"calls": REQUESTS}, wide, conversation_id="actions")["outcomes"]
    assert [common(each) for each in theirs[:-1]] == [common(each) for each in ours[:-1]]
    assert facts(theirs[-1]) == facts(ours[-1])
    assert [name for name, _ in facts(ours[-1])] == ["message.received", "action.completed", "action.failed"]


def facts(page: dict[str, Any]) -> list[tuple[str, Any]]:
    """The types of the events of a page, and what their metadata says."""
    return [(each["event_type"], common(each["metadata"])) for each in page["items"]]


def test_a_call_of_another_agent_leaves_the_same_facts(real: RealHost) -> None:
    calls = [call("agents.call", agent_id="echo", input="hello"), call("agents.call", agent_id="echo", input="fail")]
    data = {"calls": [*calls, PAGE]}
    theirs = real.send("hello", data, conversation="delegation", agent="polymath")["outcomes"]
    ours = remembered(everything(), "hello", data, wide, conversation_id="delegation")["outcomes"]
    assert facts(theirs[-1]) == facts(ours[-1])


def test_a_question_to_the_person_has_the_same_outcome_and_fact(real: RealHost) -> None:
    asked = {"question": "Which one?", "choices": ["left", "right"]}
    data = {"calls": [call("tools.call", name="ask_user", parameters=asked), PAGE]}
    run_id = real.sent("hello", data, conversation="questions", agent="asker")
    (question,) = real.client.until(f"/api/v1/runs/{run_id}/questions", lambda page: bool(page["items"]))["items"]
    answered = real.client.post(f"/api/v1/runs/{run_id}/questions/{question['question_id']}/answer", {"answer": "left"})
    assert answered.status == 200, answered.body
    theirs = real.said(run_id, data)["outcomes"]

    def ask_user(question: str, choices: list[str]) -> protocol.ToolAnswer:
        assert (question, choices) == (asked["question"], asked["choices"])
        return protocol.ToolAnswer(content=(protocol.TextContent(text="left"),), structured={"answer": "left"})

    memory = MemoryHost(tools={"ask_user": ask_user})
    ours = remembered(memory, "hello", data, wide, conversation_id="questions")["outcomes"]
    assert common(theirs[0]) == common(ours[0])
    assert facts(theirs[1]) == facts(ours[1])


def said_by(item: dict[str, Any]) -> tuple[str, str]:
    """The role of a message, and the text of a person."""
    return item["role"], item["content"] if item["role"] == "user" else ""


def test_a_message_into_a_run_has_the_same_mark_and_facts(real: RealHost) -> None:
    waits, looks = {"waits": True}, {"calls": [PAGE, call("history.page")]}
    run_id = real.sent("hello", waits, conversation="steered", agent="polymath")
    stream = real.client.stream(run_id)
    stream.until("message.delta")
    stream.close()
    assert real.sent("and this", {}, conversation="steered", agent="polymath") == run_id
    theirs = [real.said(run_id, waits), real.send("look", looks, conversation="steered", agent="polymath")]

    async def run_in_memory() -> list[dict[str, Any]]:
        memory = everything()
        live = memory.start(wide, "hello", **occasion_of(waits, conversation_id="steered"))
        await live.result("message.delta")
        live.steer("and this")
        first = heard(await live.outcome(), waits)
        looked = await memory.run(wide, "look", **occasion_of(looks, conversation_id="steered"))
        return [first, heard(looked, looks)]

    ours = asyncio.run(run_in_memory())
    assert common(theirs[0]["outcomes"]) == common(ours[0]["outcomes"])
    assert facts(theirs[1]["outcomes"][0]) == facts(ours[1]["outcomes"][0])
    told = [[said_by(each) for each in host[1]["outcomes"][1]["items"]] for host in (theirs, ours)]
    assert told[0] == told[1]
    marked = [each["metadata"] for each in ours[1]["outcomes"][0]["items"] if "steering" in each["metadata"]]
    assert [(each["steering"]["status"]) for each in marked] == ["acknowledged"]


def test_a_run_without_a_conversation_reads_its_own_event_and_facts(real: RealHost) -> None:
    weighed = call("tools.call", name="weigh", parameters={"thing": "a door"}, call_id="once")
    memory, data = everything(), {"calls": [weighed, PAGE, call("events.page", limit=1)]}
    for _ in range(2):  # the facts of the first run are not those of the second
        theirs = real.send("hello", data, agent="polymath")["outcomes"]
        ours = remembered(memory, "hello", data, wide, conversation_id=None)["outcomes"]
    assert [common(each) for each in theirs[1:]] == [common(each) for each in ours[1:]]
    assert [name for name, _ in facts(ours[1])] == ["message.received", "action.completed"]
