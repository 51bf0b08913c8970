"""Counting tokens without a tokenizer, held to a real one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local_agent.corpus import CHINESE, CODE, ENGLISH
from tests.tables import for_each

from bollard.sdk import ArtifactContent, FunctionTool, Message, TextContent
from bollard.sdk.agent.tokens import IMAGE_TOKENS, Scale, count, count_message, count_text, cut_to_tokens


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, CODE, ENGLISH + CHINESE + CODE], ids=["en", "zh", "code", "all"])
def test_a_count_is_within_15_percent_of_a_real_tokenizer(real, text):
    told = len(real.encode(text, add_special_tokens=False).ids)
    assert abs(count_text(text) - told) / told < 0.15


@given(st.text(max_size=400))
def test_every_text_except_the_empty_one_has_tokens(text):
    assert (count_text(text) == 0) == (text == "")


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_texts_together_have_about_the_sum_of_their_tokens(left, right):
    together = count_text(left + right)
    assert together <= count_text(left) + count_text(right) + 3
    assert together >= max(count_text(left), count_text(right)) - 3


@given(st.text(max_size=500), st.integers(0, 60))
def test_a_truncated_text_is_never_longer_than_its_limit(text, tokens):
    cut = cut_to_tokens(text, tokens)
    assert count_text(cut) <= tokens
    if count_text(text) <= tokens:
        assert cut == text


def test_a_message_costs_its_text_its_pictures_and_an_overhead():
    plain = count_message(Message(role="user", content="hello"))
    assert plain == count_text("hello") + 4
    pictured = Message(role="user", content=(TextContent(text="hello"), ArtifactContent(artifact_id="a")))
    assert count_message(pictured) == plain + IMAGE_TOKENS


def test_tools_count_as_part_of_a_question():
    tool = FunctionTool.model_validate(
        {"function": {"name": "weather", "description": "Says the weather.", "parameters": {"type": "object"}}}
    )
    messages = [Message(role="user", content="hello")]
    assert count(messages, [tool]) > count(messages) + 10


def test_a_count_of_the_provider_corrects_the_next_estimate():
    scale = Scale().observed(1000, 500)
    assert scale.ratio == 0.75
    assert scale.real(1000) == 750
    assert scale.counted(750) == 1000
    assert scale.observed(1000, 500).ratio < 0.75


@pytest.mark.parametrize("told", [None, 0])
def test_an_unknown_usage_changes_no_scale(told):
    assert Scale(0.8).observed(1000, told) == Scale(0.8)


@for_each("kept", [None, "1", True, -1, {}, 0])
def test_an_invalid_scale_is_ignored(kept):
    assert Scale.of(kept) == Scale()


@given(st.floats(min_value=1e-6, max_value=1e6), st.integers(1, 10**7), st.integers(1, 10**7))
def test_a_scale_stays_within_its_limits(kept, counted, told):
    assert 0.4 <= Scale.of(kept).observed(counted, told).ratio <= 2.5
