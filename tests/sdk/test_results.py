"""Result values: valid and invalid ones of the context."""

import base64
import hashlib

import pytest

from bollard.protocol import RESULT_PAYLOADS, Message, MessageChunk, TextContent, ToolCallChunk, limits
from bollard.sdk import InvalidResult, Result, ResultTooLarge, RunContext


def test_every_builder_makes_a_payload_that_the_protocol_accepts(ctx: RunContext):
    built = [
        ctx.delta("a"),
        ctx.delta("a", reasoning="because", message_id="m1"),
        ctx.delta(MessageChunk(content="b", tool_calls=(ToolCallChunk(index=0, id="c"),))),
        ctx.delta({"content": "c"}),
        ctx.completed("whole", message_id="m1"),
        ctx.completed(Message(role="assistant", content=(TextContent(text="x"),))),
        ctx.completed({"content": "x"}),
        ctx.artifact("image", content=b"png", mime_type="image/png", name="a.png", metadata={"w": 1}),
        ctx.artifact(artifact_id="artifact-1"),
        ctx.state("conversation", "k", {"v": [1, None]}),
        ctx.action("message.pin", {"message_id": "1"}, {"on": True}),
        ctx.tool_started("c1", "search", {"q": "x"}),
        ctx.tool_completed("c1", "search", result=[1]),
        ctx.finish("end", "bye"),
        ctx.fail("no", "budget_exceeded", retryable=True),
    ]
    for result in built:
        RESULT_PAYLOADS[result.type].from_wire(result.data)
    assert {result.type for result in built} == set(RESULT_PAYLOADS)


def test_a_text_delta_contains_only_the_increment(ctx: RunContext):
    assert ctx.delta("hé").data == {"chunk": {"role": "assistant", "content": "hé"}}


def test_only_completed_and_failed_are_terminal(ctx: RunContext):
    assert ctx.finish().terminal
    assert ctx.fail("x").terminal
    assert not ctx.delta("x").terminal


def test_inline_content_is_encoded_with_its_size_and_digest(ctx: RunContext):
    data = ctx.artifact(content=b"abc").data
    assert base64.b64decode(str(data["content_base64"])) == b"abc"
    assert (data["size_bytes"], data["sha256"]) == (3, hashlib.sha256(b"abc").hexdigest())


@pytest.mark.requirement("P05-14")
def test_inline_content_above_its_limit_is_refused_with_a_hint(ctx: RunContext):
    assert ctx.artifact(content=b"x" * limits.INLINE_ARTIFACT_BYTES)
    with pytest.raises(ResultTooLarge) as caught:
        ctx.artifact(content=b"x" * (limits.INLINE_ARTIFACT_BYTES + 1))
    assert caught.value.limit_bytes == limits.INLINE_ARTIFACT_BYTES
    assert "artifacts.write" in str(caught.value)


def test_a_state_value_above_its_limit_is_refused(ctx: RunContext):
    assert ctx.state("actor", "k", "x" * (limits.STATE_VALUE_BYTES - 2))
    with pytest.raises(ResultTooLarge) as caught:
        ctx.state("actor", "k", "x" * (limits.STATE_VALUE_BYTES - 1))
    assert caught.value.type == "state.updated"


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), "\ud800"])
def test_a_state_value_that_is_not_json_is_refused(ctx: RunContext, value):
    with pytest.raises(InvalidResult) as caught:
        ctx.state("actor", "k", value)
    assert caught.value.field == "value"


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda ctx: ctx.state("everywhere", "k", 1), "scope"),
        (lambda ctx: ctx.state("actor", "", 1), "key"),
        (lambda ctx: ctx.completed({"role": "robot"}), "message.role"),
        (lambda ctx: ctx.delta(7), "chunk.content"),
        (lambda ctx: ctx.delta("x", message_id=3), "message_id"),
        (lambda ctx: ctx.action(None), "action"),
        (lambda ctx: ctx.fail("x", "no.such.code"), "code"),
        (lambda ctx: ctx.artifact(artifact_type=3), "artifact_type"),
        (lambda ctx: ctx.tool_started("c", "t", {1, 2}), "parameters"),
    ],
)
def test_a_wrong_field_is_named(ctx: RunContext, build, field):
    with pytest.raises(InvalidResult) as caught:
        build(ctx)
    assert caught.value.field.startswith(field) or (field == "chunk.content" and not caught.value.field)
    assert caught.value.problem


def test_results_compare_by_value_and_have_a_repr():
    assert Result("message.delta", {"a": 1}) == Result("message.delta", {"a": 1})
    assert Result("message.delta", {}) != Result("run.failed", {})
    assert repr(Result("x", {"a": 1})) == "Result('x', {'a': 1})"
