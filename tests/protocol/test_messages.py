"""Content of every kind, also of kinds this version does not know (§1, §4)."""

import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.protocol import (
    EVENT_TYPES,
    TRIGGER_SOURCES,
    AgentInput,
    AgentRunContext,
    ArtifactContent,
    Message,
    MessageChunk,
    MessageCompleted,
    OtherContent,
    TextContent,
    ToolResult,
    Usage,
)


def test_content_is_text_or_a_list_of_elements() -> None:
    assert Message.from_wire({"role": "user", "content": "你好"}).content == "你好"
    elements = Message.from_wire({"role": "user", "content": [{"type": "text", "text": "你好"}]}).content
    assert elements == (TextContent(text="你好"),)
    for neither in (None, 1, {"type": "text", "text": "你好"}, ["你好"]):
        with pytest.raises(ValidationError, match="content"):
            Message.from_wire({"role": "user", "content": neither})


@pytest.mark.requirement("P04-05")
@pytest.mark.parametrize("holder", [AgentInput, ToolResult])
def test_an_element_of_an_unknown_type_is_kept_beside_the_known_ones(holder) -> None:
    field = "contents" if holder is AgentInput else "content"
    elements = [{"type": "hologram", "voxels": "…"}, {"type": "artifact", "artifact_id": "art_1", "shiny": True}]
    read = getattr(holder.from_wire({"call_id": "c", field: elements}), field)
    assert read == (OtherContent(type="hologram"), ArtifactContent(artifact_id="art_1"))


@for_each(
    ("element", "path"),
    [
        ({"type": "text"}, "text"),
        ({"type": "image_url", "image_url": "https://a.example/b.png"}, "image_url"),
        ({"type": "image_base64"}, "image_base64"),
        ({"type": "file_url"}, "file_url"),
        ({"type": "file_base64", "file_base64": "not base64!"}, "file_base64"),
        ({"type": "artifact"}, "artifact_id"),
        ({"text": "no type"}, "type"),
        ({"type": 1}, "type"),
    ],
)
def test_an_element_of_a_known_type_needs_its_fields(element, path) -> None:
    with pytest.raises(ValidationError) as refusal:
        AgentInput.from_wire({"contents": [element]})
    assert [error["loc"][-1] for error in refusal.value.errors()] == [path]
    assert refusal.value.errors()[0]["loc"][:2] == ("contents", 0)


def test_a_known_type_cannot_be_read_as_an_unknown_one() -> None:
    with pytest.raises(ValidationError, match="known type"):
        OtherContent(type="text")


@pytest.mark.requirement("P04-13")
@pytest.mark.parametrize("shape", [Message, MessageChunk])
def test_a_role_is_one_of_four(shape) -> None:
    for role in ("user", "assistant", "system", "tool"):
        assert shape.from_wire({"role": role}).role == role
    with pytest.raises(ValidationError, match="role"):
        shape.from_wire({"role": "User"})


@pytest.mark.requirement("P01-04")
def test_unknown_fields_of_a_message_are_ignored_even_in_a_strict_result() -> None:
    completed = MessageCompleted.from_wire({"message": {"role": "assistant", "mood": "calm"}})
    assert completed.to_wire() == {"message": {"role": "assistant", "content": ""}}


@pytest.mark.requirement("P04-12")
def test_tool_calls_of_a_chunk_carry_an_index_and_those_of_a_message_an_id() -> None:
    chunk = {"tool_calls": [{"index": 0, "function": {"arguments": '{"or'}}]}
    assert MessageChunk.from_wire(chunk).to_wire()["tool_calls"] == chunk["tool_calls"]
    with pytest.raises(ValidationError, match=r"tool_calls\.0\.index"):
        MessageChunk.from_wire({"tool_calls": [{"id": "call_1"}]})
    with pytest.raises(ValidationError, match=r"tool_calls\.0\.id"):
        Message.from_wire({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]})


def test_unknown_usage_is_absent_and_never_zero() -> None:
    assert Usage.from_wire({"prompt_tokens": 3}).to_wire() == {"prompt_tokens": 3}
    with pytest.raises(ValidationError, match="total_tokens"):
        Usage.from_wire({"total_tokens": -1})


@pytest.mark.requirement("P04-02")
def test_a_run_context_needs_an_event_only(goldens) -> None:
    context = goldens["AgentRunContext"].minimal
    read = AgentRunContext.from_wire(context)
    assert (read.input.text, read.conversation, read.actor, read.subject) == (None, None, None, None)
    with pytest.raises(ValidationError, match="event"):
        AgentRunContext.from_wire({name: value for name, value in context.items() if name != "event"})


@pytest.mark.requirement("P01-03")
def test_enumerations_from_the_host_are_open(goldens) -> None:
    context = goldens["AgentRunContext"].minimal
    newer = {
        **context,
        "trigger": {"type": "dream.had", "source": "subconscious"},
        "event": {**context["event"], "event_type": "dream.had"},
        "context": {"inline_policy": {"mode": "everything"}},
    }
    read = AgentRunContext.from_wire(newer)
    assert read.trigger.source not in TRIGGER_SOURCES
    assert read.event.event_type not in EVENT_TYPES
    assert read.context.inline_policy.mode == "everything"


def test_an_empty_context_grants_nothing(goldens) -> None:
    read = AgentRunContext.from_wire(goldens["AgentRunContext"].minimal)
    assert not any(read.context.available_apis.to_wire().values())
    assert not any(read.resources.storage.to_wire().values())
    assert read.resources.models == read.resources.tools == read.resources.agents == ()
