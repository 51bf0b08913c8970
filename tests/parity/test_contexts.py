"""The same scenarios on a real host and on the in-memory host of the SDK: contexts and answers agree field by field."""

import base64
from typing import Any

import pytest
from tests.parity.hosts import ACTIONS, CHANNEL, LEAVE, RULES, RealHost, flat, remembered
from tests.parity.mirror import weigh, wide

from bollard import protocol
from bollard.sdk.testing import MemoryArtifact, MemoryHost

CONVERSATION = "conversation-1"
OWN = {
    *("run_id", "event.event_id", "trigger.timestamp", "context.latest_cursor"),
    *("context.transcript_seq", "context.event_seq", "conversation.workspace_id"),
    *("runtime.host_version", "runtime.deadline_at", "runtime.static_refs.access.sha256"),
    "runtime.static_refs.tools.sha256",
}
"""Fields that both hosts fill, each with its own value."""
TRACED = {"runtime.trace_id", "runtime.traceparent"}
"""Fields that only a host with a tracer fills."""

SCENARIOS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a plain message": ({}, {}),
    "a message of a named person": (
        {"actor": {"id": "ann", "name": "Ann", "metadata": {"team": "desk"}}},
        {"actor_id": "ann", "actor_name": "Ann", "actor_metadata": {"team": "desk"}},
    ),
    "a message in a thread of a group": (
        {"thread": "t1", "bot": "porter", "launcher": {"type": "group", "id": "g1"}, "session": "s1"},
        {"thread_id": "t1", "bot_id": "porter", "launcher_type": "group", "launcher_id": "g1", "session_id": "s1"},
    ),
    "a message with a language and a time zone": (
        {"locale": "zh_Hans", "timezone": "Asia/Shanghai"},
        {"locale": "zh_Hans", "timezone": "Asia/Shanghai"},
    ),
    "an event about a ticket": (
        {"type": "ticket.opened", "subject_type": "ticket", "subject_id": "7", "subject_data": {"title": "Door"}},
        {
            "event_type": "ticket.opened",
            "subject": protocol.SubjectContext(subject_type="ticket", subject_id="7", data={"title": "Door"}),
        },
    ),
    "an event of a platform": (
        {"type": "reaction.added", "source_event_type": "im.reaction", "time": 1794735484.5},
        {"event_type": "reaction.added", "source_event_type": "im.reaction", "event_time": 1794735484.5},
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_contexts_of_both_hosts_have_the_same_fields(real: RealHost, name: str) -> None:
    event, occasion = SCENARIOS[name]
    conversation = f"{CONVERSATION}-{name}"
    theirs = flat(real.send("hello", {}, conversation=conversation, **event)["context"])
    ours = flat(remembered(MemoryHost(), "hello", {}, conversation_id=conversation, **occasion)["context"])

    assert set(theirs) - TRACED == set(ours)
    differing = {path for path in ours if path not in OWN and ours[path] != theirs[path]}
    assert {path: (ours[path], theirs[path]) for path in differing} == {}


def compare(theirs: dict[str, Any], ours: dict[str, Any], *, own: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields that differ, each with both values."""
    real, memory = flat(theirs["context"]), flat(ours["context"])
    names = {*real, *memory} - TRACED - OWN - own
    return {each: (memory.get(each), real.get(each)) for each in names if memory.get(each) != real.get(each)}


NOTE = b"quarter,revenue\n1,12\n"


def test_a_message_with_contents_and_attachments_has_the_same_input(real: RealHost) -> None:
    conversation = "contents"
    uploaded = real.upload(conversation, NOTE, "notes.txt")
    named = uploaded["artifact_id"]
    kept = MemoryArtifact(metadata=protocol.ArtifactMetadata.from_wire({**uploaded, "source": "message"}), content=NOTE)
    contents: list[dict[str, Any]] = [
        {"type": "text", "text": "and this"},
        {"type": "file_base64", "file_base64": base64.b64encode(NOTE).decode(), "file_name": "inline.txt"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "artifact", "artifact_id": named},
    ]
    attachments = [{"artifact_id": named, "artifact_type": "file", "name": "a lie", "size_bytes": 1}]
    reads = {"calls": [{"action": "artifacts.read", "params": {"artifact_id": named}}]}
    theirs = real.send(
        "hello", reads, conversation=conversation, contents=contents, attachments=attachments, agent="polymath"
    )
    given = protocol.AgentInput.from_wire({"contents": contents, "attachments": attachments})
    ours = remembered(
        MemoryHost(artifacts={named: kept}),
        *("hello", reads, wide),
        conversation_id=conversation,
        contents=given.contents,
        attachments=given.attachments,
    )
    theirs["context"]["resources"] = ours["context"]["resources"]
    inline = theirs["context"]["input"]["contents"][1]["artifact_id"]
    assert inline == theirs["context"]["input"]["attachments"][0]["artifact_id"]
    ids = {"input.contents.1.artifact_id", "input.attachments.0.artifact_id"}
    lives = {f"input.attachments.{number}.expires_at" for number in range(2)}
    assert compare(theirs, ours, own=frozenset(ids | lives)) == {}
    assert theirs["outcomes"] == ours["outcomes"]


def test_a_message_of_a_channel_has_the_same_delivery(real: RealHost) -> None:
    data = {"calls": []}
    theirs = real.chat("hello", data, conversation="lobby", is_private=True)
    abilities = real.client.get(f"/api/v1/channels/{CHANNEL}").json["abilities"]
    own_field = ("supports_streaming", "supports_edit", "supports_reaction", "max_message_size")
    delivery = protocol.DeliveryContext(
        surface="http",
        reply_target={"channel": CHANNEL, "target": "lobby"},
        supports_streaming=True,
        supports_edit=True,
        supports_reaction=True,
        max_message_size=4000,
        platform_capabilities={name: value for name, value in abilities.items() if name not in own_field},
    )
    occasion = {"source": "platform", "event_source": CHANNEL, "actor_type": CHANNEL, "bot_id": "porter"}
    ours = remembered(MemoryHost(), "hello", data, conversation_id="lobby", delivery=delivery, **occasion)
    assert compare(theirs, ours) == {}


def test_an_agent_with_everything_has_the_same_resources(real: RealHost) -> None:
    theirs = real.send("hello", {}, conversation="resources", agent="polymath")
    host = MemoryHost(
        tools=[weigh],
        agents={"echo": "heard"},
        files={"rules.txt": RULES.encode()},
        knowledge={"handbook": [LEAVE]},
        platform=dict.fromkeys((*ACTIONS, "message.send"), "completed"),
    )
    ours = remembered(host, "hello", {}, wide, conversation_id="resources")
    own = frozenset({"resources.files.0.file_id", "resources.tools.0.definition_sha256"})
    assert compare(theirs, ours, own=own) == {}


SEARCHES: dict[str, dict[str, Any]] = {
    "all words": {"query": "blue whale"},
    "messages of people": {"query": "whale", "filters": {"role": "user"}},
    "messages of one person": {"query": "whale", "filters": {"actor_type": "user", "actor_id": "user-1"}},
    "messages of another person": {"query": "whale", "filters": {"actor_id": "ann"}},
    "an event type": {"query": "whale", "filters": {"event_types": ["message.received"]}},
    "another event type": {"query": "whale", "filters": {"event_types": ["ticket.opened"]}},
    "a time before everything": {"query": "whale", "filters": {"before": 1.0}},
    "a time after everything": {"query": "whale", "filters": {"after": 4e9}},
    "an unknown conversation": {"query": "whale", "filters": {"conversation_id": "elsewhere"}},
    "an unknown filter": {"query": "whale", "filters": {"colour": "blue"}},
    "an empty list of types": {"query": "whale", "filters": {"event_types": []}},
}


def said(outcome: dict[str, Any]) -> Any:
    """What both hosts must agree on: the error, or role and text of each message."""
    items = outcome.get("items")
    return outcome if items is None else [(item["role"], item["content"]) for item in items]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_of_the_history_finds_the_same_on_both_hosts(real: RealHost, name: str) -> None:
    conversation, calls = f"search-{name}", [{"action": "history.search", "params": SEARCHES[name]}]
    memory = MemoryHost()

    def ask(text: str, data: dict[str, Any]) -> tuple[Any, Any]:
        theirs = real.send(text, data, conversation=conversation)
        return theirs, remembered(memory, text, data, conversation_id=conversation)

    ask("a blue whale passed", {"quiet": True})
    ask("a grey whale followed", {"quiet": True})
    theirs, ours = ask("which one came first?", {"calls": calls})
    assert sorted(map(str, said(theirs["outcomes"][0]))) == sorted(map(str, said(ours["outcomes"][0])))


def test_pages_of_history_and_events_agree(real: RealHost) -> None:
    pages = [
        {"action": "history.page", "params": {}},
        {"action": "history.page", "params": {"limit": 2}},
        {"action": "history.page", "params": {"limit": 1, "direction": "forward"}},
        {"action": "history.page", "params": {"conversation_id": "elsewhere"}},
        {"action": "history.page", "params": {"limit": 0}},
    ]
    memory = MemoryHost()
    for text, data in (("one", {"quiet": True}), ("two", {"quiet": True}), ("three", {"calls": pages})):
        theirs = real.send(text, data, conversation="pages")
        ours = remembered(memory, text, data, conversation_id="pages")
    assert [said(each) for each in theirs["outcomes"]] == [said(each) for each in ours["outcomes"]]
    more = [[each.get("has_more") for each in host["outcomes"]] for host in (theirs, ours)]
    assert more[0] == more[1]


def test_events_of_the_conversation_agree(real: RealHost) -> None:
    page, memory = [{"action": "events.page", "params": {}}], MemoryHost()
    for text, data in (("one", {"quiet": True}), ("two", {"calls": page})):
        theirs = real.send(text, data, conversation="events")
        ours = remembered(memory, text, data, conversation_id="events")
    differs = {"event_id", "seq", "cursor", "created_at", "workspace_id"}
    (theirs,), (ours,) = theirs["outcomes"], ours["outcomes"]
    assert [flat(item).keys() for item in theirs["items"]] == [flat(item).keys() for item in ours["items"]]
    for one, other in zip(theirs["items"], ours["items"], strict=True):
        assert {name for name in one if name not in differs and one[name] != other[name]} == set()


def test_the_configured_prompt_is_pulled_by_its_field_or_as_the_first(real: RealHost) -> None:
    params: list[dict[str, Any]] = [{}, {"name": "prompt"}, {"name": "other"}, {"name": ""}]
    calls = {"calls": [{"action": "host.prompt", "params": each} for each in params]}
    theirs = real.send("hello", calls, conversation="prompts")["outcomes"]
    ours = remembered(MemoryHost(), "hello", calls, conversation_id="prompts")["outcomes"]
    assert theirs == ours
    assert theirs[0] == theirs[1]
    assert (theirs[0]["name"], theirs[0]["text"], len(theirs[0]["sha256"])) == ("prompt", "Be brief.", 64)
    assert [each["error"] for each in theirs[2:]] == ["not_found", "invalid_argument"]


def calculate(expression: str) -> str:
    return f"{expression}: as you say"


def test_facts_of_tools_and_errors_agree(real: RealHost) -> None:
    memory = MemoryHost(tools={"calculate": calculate})
    called = {"action": "tools.call", "params": {"name": "calculate", "parameters": {"expression": "6 * 7"}}}
    page = {"action": "events.page", "params": {}}
    for text, data in (
        ("one", {"calls": [{**called, "params": {**called["params"], "call_id": "sum"}}], "quiet": True}),
        ("two", {"fails": True}),
        ("three", {"calls": [page, {"action": "events.page", "params": {"limit": 2}}]}),
    ):
        theirs = real.send(text, data, conversation="facts", agent="calculator")
        ours = remembered(memory, text, data, conversation_id="facts")
    differs = {"event_id", "seq", "cursor", "created_at", "workspace_id", "metadata"}
    for their_page, our_page in zip(theirs["outcomes"], ours["outcomes"], strict=True):
        for one, other in zip(their_page["items"], our_page["items"], strict=True):
            assert {name for name in one if name not in differs and one[name] != other.get(name)} == set()
            said = [{**each["metadata"], "run_id": "own"} for each in (one, other)]
            assert said[0] == said[1]
    whole, part = theirs["outcomes"]
    assert [each["event_type"] for each in whole["items"]] == [
        *("message.received", "action.completed", "message.received", "run.failed", "message.received")
    ]
    assert {**whole["items"][1]["metadata"], "run_id": ""} == {"run_id": "", "tool_name": "calculate", "call_id": "sum"}
    assert {**whole["items"][3]["metadata"], "run_id": ""} == {"run_id": "", "status": "failed", "code": "runner.error"}
    assert (part["items"], part["has_more"]) == (whole["items"][-2:], True)
