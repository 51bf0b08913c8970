"""The echo plugin, in memory."""

import pytest
from runner import count_words, echo

from bollard.sdk import ToolCallContext, tool_declaration_of
from bollard.sdk.testing import MemoryHost

pytestmark = pytest.mark.anyio


async def test_it_says_back_what_it_hears_in_small_pieces():
    outcome = await MemoryHost().run(echo, "hello there")
    assert outcome.status == "completed"
    assert outcome.text == "you said: hello there"
    assert len(outcome.of_type("message.delta")) > 1


async def test_its_configuration_changes_the_answer():
    outcome = await MemoryHost().run(echo, "hi", config={"greeting": "> ", "shout": True})
    assert outcome.text == "> HI"


async def test_a_wrong_configuration_fails_the_run_and_names_the_field():
    outcome = await MemoryHost().run(echo, "hi", config={"shout": "very"})
    assert outcome.code == "runner.error"
    assert "shout" in (outcome.error or "")


async def test_an_event_without_text_is_answered_with_its_name():
    outcome = await MemoryHost().run(echo, event_type="schedule.triggered", conversation_id=None)
    assert outcome.text == "you said: schedule.triggered"


async def test_the_tool_counts_words():
    tool = tool_declaration_of(count_words)
    assert tool is not None
    context = ToolCallContext(run_id="run-1", workspace_id="workspace-1", agent_id="agent-1")
    answer = await tool.invoke({"text": "one two three"}, context)
    assert answer.structured == {"words": 3, "characters": 13}
