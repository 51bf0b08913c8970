"""The view of a model on a conversation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local_agent.context_kit import called, memory, prepared, shown

from bollard.protocol import AgentEventRecord, TranscriptItem
from bollard.sdk import FunctionCall, Message, ToolCall
from bollard.sdk.agent.history import TranscriptMessage, pair_calls
from bollard.sdk.agent.tokens import count
from bollard.sdk.testing import ScriptedModel, tool_calls

pytestmark = pytest.mark.anyio


async def test_the_prompt_is_followed_by_the_history_and_the_input():
    host = memory(history=["hello", ("assistant", "hi, who are you?")])
    question, outcome = await prepared(host, "I am Ada", {"prompt": "Be kind."})
    assert shown(question) == [
        ("system", "Be kind."),
        ("user", "hello"),
        ("assistant", "hi, who are you?"),
        ("user", "I am Ada"),
    ]
    assert len(called(outcome, "history.page")) == 1


async def test_without_earlier_messages_no_history_is_read():
    question, outcome = await prepared(memory(), "hello", {"prompt": ""})
    assert shown(question) == [("user", "hello")]
    assert outcome.calls == ()


async def test_the_own_message_of_the_run_is_not_in_its_history():
    own = TranscriptItem(transcript_id="t", event_id="event-of-run-1", role="user", content="again?")
    later = TranscriptItem(transcript_id="t", event_id="other", role="user", content="queued behind it")
    host = memory(history=["before", own, later, ("assistant", "an answer to the one before")])
    question, _ = await prepared(host, "again?", {"prompt": ""})
    assert [content for _, content in shown(question)] == ["before", "an answer to the one before", "again?"]


async def test_the_first_bytes_of_the_prompt_are_the_same_in_every_run():
    said = [text for at in range(6) for text in (f"question {at}", ("assistant", f"answer {at}"))]
    first, _ = await prepared(memory(history=said), "one more", {"prompt": "Be kind."})
    second, _ = await prepared(
        memory(history=[*said, "one more", ("assistant", "done")]), "and another", {"prompt": "Be kind."}
    )
    assert second.messages[: len(first.messages)] == first.messages
    assert second.prefix_tokens == count(second.messages[:-1])


async def test_several_users_keep_their_names():
    events = [
        AgentEventRecord(
            event_id=f"history-event-{at}", event_type="message.received", source="api", actor_id=who, actor_name=name
        )
        for at, (who, name) in enumerate([("u1", "Ann"), ("u2", "李雷")], start=1)
    ]
    host = memory(history=["I like tea", "我喜欢咖啡", ("assistant", "noted")], events=events)
    question, _ = await prepared(host, "what do I like?", {"prompt": ""}, actor_id="u1", actor_name="Ann")
    assert shown(question) == [
        ("user", "Ann: I like tea"),
        ("user", "李雷: 我喜欢咖啡"),
        ("assistant", "noted"),
        ("user", "Ann: what do I like?"),
    ]


async def test_a_single_user_is_not_named():
    events = [AgentEventRecord(event_id="history-event-1", event_type="m", source="api", actor_id="user-1")]
    question, _ = await prepared(memory(history=["hello"], events=events), "again", {"prompt": ""})
    assert [content for _, content in shown(question)] == ["hello", "again"]


async def test_tool_calls_and_their_answers_stay_together():
    history = [
        "weather?",
        tool_calls(("weather", {"city": "Rome"}), content="I look."),
        Message(role="tool", content="sunny", tool_call_id="call_1"),
        ("assistant", "Sunny."),
    ]
    question, _ = await prepared(memory(history=history), "thanks", {"prompt": ""})
    assert [message.role for message in question.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert question.messages[1].tool_calls[0].function.name == "weather"


async def test_answers_without_ids_follow_the_order_of_the_calls():
    history = [
        tool_calls(("weather", {"city": "Rome"}), ("weather", {"city": "Bonn"})),
        "hurry up",
        ("tool", "sunny"),
        ("tool", "rainy"),
    ]
    question, _ = await prepared(memory(history=["hi", *history]), "thanks", {"prompt": ""})
    assert [(message.role, message.tool_call_id) for message in question.messages[1:5]] == [
        ("assistant", None),
        ("tool", "call_1"),
        ("tool", "call_2"),
        ("user", None),
    ]


async def test_a_call_without_an_answer_keeps_only_its_text():
    history = [
        Message(role="tool", content="an answer to nothing", tool_call_id="call_9"),
        "weather?",
        tool_calls(("weather", {"city": "Rome"}), content="I look."),
        "never mind",
        tool_calls(("weather", {})),
    ]
    question, _ = await prepared(memory(history=history), "hello", {"prompt": ""})
    assert [content for _, content in shown(question)] == ["weather?", "I look.", "never mind", "hello"]
    assert all(message.tool_calls is None for message in question.messages)


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.one_of(
    st.just(Message(role="user", content="hi")),
    st.lists(IDS, min_size=1, max_size=3, unique=True).map(
        lambda ids: Message(
            role="assistant",
            tool_calls=tuple(ToolCall(id=i, function=FunctionCall(name="f", arguments="")) for i in ids),
        )
    ),
    IDS.map(lambda i: Message(role="tool", content="x", tool_call_id=i)),
)


@given(st.lists(MESSAGES, max_size=12))
def test_every_call_of_any_history_is_followed_by_its_answer(messages):
    open_calls: list[str] = []
    for each in pair_calls([TranscriptMessage(seq=at, message=message) for at, message in enumerate(messages)]):
        if each.message.role == "tool":
            assert each.message.tool_call_id == open_calls.pop(0)
        else:
            assert not open_calls
            open_calls = [call.id for call in each.message.tool_calls or ()]
    assert not open_calls


async def test_an_event_without_text_is_shown_as_data():
    occasion = {"event_type": "schedule.triggered", "event_data": {"round": 3}}
    question, _ = await prepared(memory(), None, {"prompt": "Watch."}, **occasion)
    assert shown(question)[-1] == ("user", '[event schedule.triggered] {"round": 3}')


async def test_an_output_schema_is_part_of_the_prompt():
    question, _ = await prepared(memory(), "hi", {"prompt": "Be kind.", "output_schema": {"type": "object"}})
    role, content = shown(question)[0]
    assert role == "system"
    assert content.startswith("Be kind.")
    assert '{"type": "object"}' in content


async def test_an_unreadable_history_does_not_fail_the_run():
    host = memory(history=["hello"])
    host.deny("history.page", "runtime_error")
    question, _ = await prepared(host, "still there?", {"prompt": ""})
    assert shown(question) == [("user", "still there?")]


async def test_one_long_message_leaves_space_for_the_others():
    host = memory({"default": ScriptedModel(context_window=4000)}, history=["word " * 50_000, ("assistant", "long!")])
    question, _ = await prepared(host, "hello", {"prompt": "", "compaction": False})
    assert count(question.messages) < 3000
    assert shown(question)[-1] == ("user", "hello")


async def test_a_long_input_is_truncated_to_the_budget_of_the_model():
    host = memory({"default": ScriptedModel(context_window=2000)})
    question, _ = await prepared(host, "字" * 20_000, {"prompt": ""})
    assert count(question.messages) <= 1000
    assert shown(question)[-1][1].endswith("…")


async def test_an_earlier_token_count_of_the_provider_scales_the_budget():
    host = memory({"default": ScriptedModel(context_window=10_000)})
    plain, _ = await prepared(host, "hello")
    scaled = memory(
        {"default": ScriptedModel(context_window=10_000)},
        state={"conversation": {"local_agent.token_scale": {"default": 0.5, "other": "x"}}},
    )
    wide, _ = await prepared(scaled, "hello")
    assert abs(wide.budget.tokens - 2 * plain.budget.tokens) <= 2
