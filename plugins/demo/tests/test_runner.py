"""The demo plugin, in memory."""

import pytest
from runner import FAIL, HELP, SLOW, demo
from words import ACTS, act_of, number_in, tool_in

from bollard.sdk.testing import MemoryHost

pytestmark = pytest.mark.anyio

QUICK = {"pause_s": 0}


@pytest.mark.parametrize(("said", "language"), [("help", "en"), ("帮助", "zh"), ("HELP", "en")])
async def test_help_lists_every_word_in_the_language_it_was_asked_in(said, language):
    outcome = await MemoryHost().run(demo, said)
    assert outcome.text == HELP[language]
    words = [word for word in ACTS if (max(word) >= "\u4e00") == (language == "zh")]
    assert all(word in outcome.text for word in words)


@pytest.mark.parametrize(("said", "answer"), [("count 3", "1 2 3 "), ("数数3", "1 2 3 "), ("count", "1 2 3 4 5 ")])
async def test_it_counts_and_keeps_the_number_in_the_conversation(said, answer):
    outcome = await MemoryHost().run(demo, said)
    assert outcome.text == answer
    assert outcome.of_type("state.updated")[-1].data["value"] == int(answer.split()[-1])


async def test_it_counts_without_a_conversation_too():
    outcome = await MemoryHost().run(demo, "count 2", conversation_id=None)
    assert outcome.status == "completed"
    assert not outcome.of_type("state.updated")


@pytest.mark.parametrize(("text", "number"), [("count 0", 1), ("count 999999", 100), ("count -3", 3)])
def test_counting_has_bounds(text, number):
    assert number_in(text) == number


async def test_it_makes_a_file():
    outcome = await MemoryHost().run(demo, "file")
    made = outcome.of_type("artifact.created")[0]
    assert made.data["name"] == "demo.txt"
    assert made.data["content_base64"]


async def test_a_slow_answer_comes_in_many_pieces():
    outcome = await MemoryHost().run(demo, "slow", config=QUICK)
    assert outcome.text == SLOW["en"]
    assert len(outcome.of_type("message.delta")) > 10


@pytest.mark.parametrize(("said", "language"), [("fail", "en"), ("失败", "zh")])
async def test_it_fails_on_request(said, language):
    outcome = await MemoryHost().run(demo, said)
    assert (outcome.status, outcome.code, outcome.error) == ("failed", "runner.error", FAIL[language])


@pytest.mark.parametrize("said", ["hello", "你好"])
async def test_anything_else_gets_a_friendly_answer_in_both_languages(said):
    outcome = await MemoryHost().run(demo, said)
    assert "Hello!" in outcome.text
    assert "你好！" in outcome.text
    assert said in outcome.text


async def test_an_event_without_text_is_told_by_its_name():
    outcome = await MemoryHost().run(demo, event_type="schedule.triggered", conversation_id=None)
    assert "schedule.triggered" in outcome.text


@pytest.mark.parametrize("said", ["helpful", "counting sheep", "a file"])
def test_a_word_counts_only_where_it_stands_first_and_alone(said):
    assert act_of(said) == "talk"


def send(to: str) -> str:
    """Sends a letter."""
    return f"sent to {to}"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ('call send {"to": "ann"}', "send answered: sent to ann"),
        ('调用send {"to": "ann"}', "send 的回答：sent to ann"),
        ("call nothing", "nothing was not called (not_found): no tool nothing"),
        ("call", 'Say it like this: call TOOL {"argument": "value"}. What I was given: send.'),
        ("call send to ann", 'Say it like this: call TOOL {"argument": "value"}. What I was given: send.'),
    ],
)
async def test_it_calls_a_tool_and_tells_the_answer(said, answer):
    outcome = await MemoryHost(tools={"send": send}).run(demo, said)
    assert (outcome.status, outcome.text) == ("completed", answer)


async def test_a_call_that_is_refused_is_told():
    host = MemoryHost(tools={"send": send})
    host.deny("tools.call", code="approval_denied", message="somebody said no")
    outcome = await host.run(demo, "call send")
    assert outcome.text == "send was not called (approval_denied): somebody said no"


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (
            {"outcome": "completed", "result": {"content": [{"type": "text", "text": "sent"}]}},
            "send was allowed and called, 已允许并调用: sent",
        ),
        (
            {"outcome": "denied", "error": "somebody said no"},
            "send did not succeed (denied), 没有成功: somebody said no",
        ),
    ],
)
async def test_it_tells_what_came_of_a_call_that_was_decided_later(data, answer):
    event = {"name": "send", **data}
    outcome = await MemoryHost().run(demo, event_type="approval.decided", event_data=event)
    assert outcome.text == answer


@pytest.mark.parametrize("said", ["call", "调用", "call send [1]", "call send {", "call {}", "recall send"])
def test_what_is_no_call_is_not_taken_for_one(said):
    assert tool_in(said) is None


def test_a_tool_may_be_named_by_its_id():
    assert tool_in('call mcp:letters/send {"to": "ann"}') == ("mcp:letters/send", {"to": "ann"})
