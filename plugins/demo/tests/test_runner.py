"""The demo plugin, in memory."""

import pytest
from runner import FAIL, HELP, SLOW, demo
from words import ACTS, act_of, number_in

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
