"""The local agent's loop, in memory: answers, tools, limits, steering, cancellation."""

import asyncio
from typing import Any

import pytest

from bollard.sdk import AgentAPIError, AgentAPIException, MessageChunk, Usage, runner
from bollard.sdk.agent import CAPABILITIES, PERMISSIONS
from bollard.sdk.agent import Agent as LocalAgent
from bollard.sdk.agent.hooks import Hooks
from bollard.sdk.testing import MemoryHost, RunOutcome, ScriptedModel, Steer, tool_calls

pytestmark = pytest.mark.anyio


@runner(label="Local agent", capabilities=CAPABILITIES, permissions=PERMISSIONS)
class Agent(LocalAgent):
    pass


def model(*replies: Any, **more: Any) -> ScriptedModel:
    return ScriptedModel(replies, **more)


def host(main: ScriptedModel, **more: Any) -> MemoryHost:
    return MemoryHost(models={"default": main} | more.pop("models", {}), **more)


def completed(outcome: RunOutcome) -> list[dict[str, Any]]:
    return [result.data["message"] for result in outcome.of_type("message.completed")]


def asked(main: ScriptedModel, number: int) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in main.requests[number].messages]


def refusal(code: str = "runtime_error", reason: str = "overloaded", **more: Any) -> AgentAPIError:
    return AgentAPIError(code=code, message=f"it is {reason}", details={"reason": reason}, **more)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


# --- answers ---


async def test_an_answer_is_streamed_and_completed_once():
    outcome = await host(model("it is all right")).run(Agent, "how is it?")
    assert (outcome.status, outcome.text) == ("completed", "it is all right")
    deltas = outcome.of_type("message.delta")
    assert "".join(delta.data["chunk"]["content"] for delta in deltas) == "it is all right"
    assert {delta.data["message_id"] for delta in deltas} == {"answer-1"}
    assert outcome.of_type("run.completed")[0].data["finish_reason"] == "stop"


async def test_without_streaming_there_is_one_message_and_no_delta():
    outcome = await host(model("whole")).run(Agent, "hi", config={"streaming": False})
    assert outcome.text == "whole"
    assert not outcome.of_type("message.delta")
    assert [call.action for call in outcome.calls if call.action.startswith("models.")] == ["models.invoke"]


async def test_the_prompt_is_first_and_the_input_last():
    main = model("yes")
    await host(main).run(Agent, "are you there?", config={"prompt": "You are a lighthouse keeper."})
    said = asked(main, 0)
    assert said[0][0] == "system"
    assert "You are a lighthouse keeper." in said[0][1]
    assert said[-1] == ("user", "are you there?")


async def test_the_model_settings_reach_the_model():
    main = model("yes")
    await host(main).run(Agent, "hi", config={"temperature": 0.2, "max_tokens": 50})
    assert main.requests[0].extra_args == {"temperature": 0.2, "max_tokens": 50}


async def test_the_reasoning_of_a_model_is_separate():
    main = model([MessageChunk(reasoning="hm"), MessageChunk(content="so it is", finish_reason="stop")])
    outcome = await host(main).run(Agent, "why?")
    (message,) = completed(outcome)
    assert (message["content"], message["reasoning"]) == ("so it is", "hm")


# --- fallback ---


async def test_a_model_that_fails_before_its_first_word_is_replaced_with_a_record():
    fallback = model("I am the second")
    world = host(model(refusal()), models={"second": fallback})
    outcome = await world.run(Agent, "hi", config={"model": {"primary": "default", "fallbacks": ["second"]}})
    assert (outcome.status, outcome.text) == ("completed", "I am the second")
    (message,) = completed(outcome)
    assert message["metadata"]["model"] == "second"
    assert message["metadata"]["fallbacks"] == [{"model": "default", "code": "runtime_error", "reason": "overloaded"}]


async def test_every_turn_starts_with_the_primary_model():
    main = model(tool_calls(("weather", {"city": "Rome"})), refusal())
    world = host(main, models={"second": model("sunny")}, tools=[weather])
    outcome = await world.run(Agent, "hi", config={"model": {"primary": "default", "fallbacks": ["second"]}})
    assert [message["metadata"]["model"] for message in completed(outcome) if message["role"] == "assistant"] == [
        "default",
        "second",
    ]


async def test_if_no_model_answers_the_run_fails_with_all_reasons_and_the_next_one_works():
    world = host(
        model(refusal(), "back again"),
        models={"second": model(refusal("rate_limited", "rate_limited", retryable=True))},
    )
    config: dict[str, Any] = {"model": {"primary": "default", "fallbacks": ["second"]}}
    outcome = await world.run(Agent, "hi", config=config)
    assert (outcome.status, outcome.code) == ("failed", "runner.error")
    assert outcome.error is not None
    assert "default: overloaded" in outcome.error
    assert "second: rate_limited" in outcome.error
    assert outcome.of_type("run.failed")[0].data["retryable"] is True
    assert (await world.run(Agent, "hi", config=config)).text == "back again"


async def test_the_failure_is_reported_in_the_language_of_the_question_or_of_the_program():
    for text, locale in (("你好吗？", "en_US"), ("hello", "zh_Hans")):
        outcome = await host(model(refusal())).run(Agent, text, locale=locale)
        assert outcome.error is not None
        assert "没有模型能够回答" in outcome.error


async def test_a_model_that_fails_in_the_middle_is_not_replaced_and_its_text_is_kept():
    second = model("never")
    world = host(model(["half an ", AgentAPIException(refusal())]), models={"second": second})
    outcome = await world.run(Agent, "hi", config={"model": {"primary": "default", "fallbacks": ["second"]}})
    assert (outcome.status, outcome.text) == ("failed", "half an ")
    (message,) = completed(outcome)
    assert (message["finish_reason"], message["metadata"]["partial"]) == ("error", True)
    assert not second.requests


async def test_an_exhausted_budget_does_not_switch_the_model():
    second = model("never")
    world = host(model(refusal("budget_exceeded", "budget")), models={"second": second})
    outcome = await world.run(Agent, "hi", config={"model": {"primary": "default", "fallbacks": ["second"]}})
    assert outcome.code == "budget_exceeded"
    assert not second.requests


# --- no output ---


async def test_an_empty_answer_is_retried_once():
    main = model("", "here I am")
    outcome = await host(main).run(Agent, "hi")
    assert (outcome.status, outcome.text) == ("completed", "here I am")
    assert main.requests[1].messages[-1].role == "user"
    assert len(completed(outcome)) == 1


@pytest.mark.parametrize("empty", ["", "  \n", MessageChunk(finish_reason="content_filter")])
async def test_an_agent_with_two_empty_answers_fails(empty: Any):
    outcome = await host(model(empty, empty)).run(Agent, "hi")
    assert (outcome.status, outcome.code) == ("failed", "runner.no_output")
    assert not completed(outcome)


async def test_silence_is_an_answer_to_another_event_than_a_message():
    occasion: dict[str, Any] = {"event_type": "schedule.triggered", "conversation_id": None}
    outcome = await host(model("", "")).run(Agent, **occasion)
    assert outcome.status == "completed"


# --- tools ---


async def test_a_tool_is_called_and_its_answer_is_used():
    main = model(tool_calls(("weather", {"city": "Rome"}), content="let me look"), "take a hat")
    outcome = await host(main, tools=[weather]).run(Agent, "what do I wear?")
    roles = [(message["role"], message["content"]) for message in completed(outcome)]
    assert roles == [("assistant", "let me look"), ("tool", "sunny in Rome"), ("assistant", "take a hat")]
    assert [tool.function.name for tool in main.requests[0].tools or ()] == ["weather"]
    assert main.requests[1].messages[-1].content == "sunny in Rome"


async def test_calls_of_one_answer_run_together_and_are_answered_in_order():
    began: list[str] = []
    both = asyncio.Event()

    async def slow(city: str) -> str:
        """Waits for the other."""
        began.append(city)
        if len(began) == 2:
            both.set()
        await both.wait()
        if city == "Rome":
            await asyncio.sleep(0.01)
        return city

    main = model(tool_calls(("slow", {"city": "Rome"}), ("slow", {"city": "Oslo"})), "done")
    outcome = await host(main, tools=[slow]).run(Agent, "go")
    assert [message["content"] for message in completed(outcome) if message["role"] == "tool"] == ["Rome", "Oslo"]


async def test_the_model_learns_of_a_failed_tool_and_the_run_continues():
    def broken(city: str) -> str:
        """Fails."""
        raise ValueError("no such city")

    outcome = await host(model(tool_calls(("broken", {"city": "x"})), "I see"), tools=[broken]).run(Agent, "go")
    assert outcome.status == "completed"
    assert "no such city" in completed(outcome)[1]["content"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (tool_calls(("nothing", {})), "there is no tool nothing"),
        (
            MessageChunk.model_validate(
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{city"}}]}
            ),
            "no JSON object",
        ),
        (
            MessageChunk.model_validate(
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": "[1, NaN]"}}]}
            ),
            "no JSON object",
        ),
    ],
)
async def test_the_model_learns_of_an_impossible_call(reply: Any, told: str):
    outcome = await host(model(reply, "sorry"), tools=[weather]).run(Agent, "go")
    assert outcome.text.endswith("sorry")
    assert told in completed(outcome)[1]["content"]


async def test_the_model_learns_of_a_refused_call_with_its_reason():
    world = host(model(tool_calls(("weather", {"city": "Rome"})), "a pity"), tools=[weather])
    world.deny("tools.call", "approval_denied", "no")
    outcome = await world.run(Agent, "go")
    assert "a person was asked, and said no" in completed(outcome)[1]["content"]


async def test_a_silent_tool_is_given_up():
    async def hang() -> str:
        """Never answers."""
        await asyncio.Event().wait()
        return ""

    config: dict[str, Any] = {"tool_timeouts": {"hang": 0.01}}
    outcome = await host(model(tool_calls(("hang", {})), "too slow"), tools=[hang]).run(Agent, "go", config=config)
    assert "did not answer within 0.01 seconds" in completed(outcome)[1]["content"]
    assert outcome.status == "completed"


async def test_repeated_ids_of_a_provider_are_replaced_by_unique_ones():
    main = model(tool_calls(("weather", {"city": "a"})), tool_calls(("weather", {"city": "b"})), "done")
    outcome = await host(main, tools=[weather]).run(Agent, "go")
    ids = [message["tool_call_id"] for message in completed(outcome) if message["role"] == "tool"]
    assert len(ids) == len(set(ids)) == 2


async def test_a_long_tool_answer_is_truncated_in_the_middle():
    def long() -> str:
        """Long."""
        return "a" * 5000 + "end"

    config: dict[str, Any] = {"tool_result_characters": 300}
    outcome = await host(model(tool_calls(("long", {})), "ok"), tools=[long]).run(Agent, "go", config=config)
    told = completed(outcome)[1]["content"]
    assert len(told) < 400
    assert told.endswith("end")


@pytest.mark.parametrize(
    ("config", "offered"),
    [({}, ["other", "weather"]), ({"only_tools": ["weather"]}, ["weather"]), ({"tool_choice": "none"}, [])],
)
async def test_only_granted_and_chosen_tools_are_offered(config: dict[str, Any], offered: list[str]):
    main = model("ok")
    await host(main, tools={"weather": weather, "other": weather}).run(Agent, "go", config=config)
    assert [tool.function.name for tool in main.requests[0].tools or ()] == offered


async def test_a_required_tool_is_required_only_in_the_first_step():
    main = model(tool_calls(("weather", {"city": "Rome"})), "done")
    await host(main, tools=[weather]).run(Agent, "go", config={"tool_choice": "required"})
    assert [(request.extra_args or {}).get("tool_choice") for request in main.requests] == ["required", None]


async def test_another_agent_is_a_tool():
    main = model(tool_calls(("agent_poet", {"text": "a line"})), "the poet says: roses")
    outcome = await host(main, agents={"poet": "roses"}).run(Agent, "go")
    assert completed(outcome)[1]["content"] == "roses"
    assert outcome.status == "completed"


# --- limits ---


async def test_a_repeated_call_is_noted_once_and_then_ends_the_run():
    same = tool_calls(("weather", {"city": "Rome"}))
    outcome = await host(model(same, same, same, same, "never"), tools=[weather]).run(Agent, "go")
    told = [message["content"] for message in completed(outcome) if message["role"] == "tool"]
    assert told[:2] == ["sunny in Rome"] * 2
    assert "not called again" in told[2]
    assert len(told) == 4
    assert (outcome.status, completed(outcome)[-1]["finish_reason"]) == ("completed", "repeated_calls")
    assert len([call for call in outcome.calls if call.action == "tools.call"]) == 2


async def test_a_run_has_a_limit_of_steps():
    replies = [tool_calls(("weather", {"city": str(number)})) for number in range(9)]
    outcome = await host(model(*replies), tools=[weather]).run(Agent, "go", config={"max_steps": 2})
    assert outcome.of_type("run.completed")[0].data["finish_reason"] == "max_steps"
    assert "all of its steps (2)" in completed(outcome)[-1]["content"]


async def test_calls_beyond_the_limit_are_not_made_and_the_model_concludes():
    main = model(tool_calls(("weather", {"city": "a"}), ("weather", {"city": "b"})), "that must do")
    outcome = await host(main, tools=[weather]).run(Agent, "go", config={"max_tool_calls": 1})
    assert outcome.text.endswith("that must do")
    assert len([call for call in outcome.calls if call.action == "tools.call"]) == 1
    assert (main.requests[1].extra_args or {})["tool_choice"] == "none"


async def test_a_run_has_a_cost_limit():
    dear = MessageChunk.model_validate(
        {
            "tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": '{"city": "a"}'}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1},
            "metadata": {"cost": 0.5},
        }
    )
    outcome = await host(model(dear, "never"), tools=[weather]).run(Agent, "go", config={"max_cost": 0.4})
    assert completed(outcome)[-1]["finish_reason"] == "max_cost"
    assert completed(outcome)[0]["usage"] == Usage(prompt_tokens=10, completion_tokens=1).to_wire()


# --- steering ---


async def test_a_message_during_a_tool_batch_is_read_before_the_next_model_call():
    main = model(tool_calls(("weather", {"city": "Rome"})), "in Oslo then")
    world = host(main, tools=[weather], steering=[Steer("I meant Oslo", after="tools.call")])
    outcome = await world.run(Agent, "the weather?")
    assert asked(main, 1)[-1] == ("user", "I meant Oslo")
    assert outcome.steering == (("I meant Oslo", "acknowledged"),)


async def test_a_message_during_the_last_answer_continues_the_run():
    main = model("first", "and second")
    outcome = await host(main, steering=[Steer("and then?", after="models.stream")]).run(Agent, "go")
    assert [message["content"] for message in completed(outcome)] == ["first", "and second"]
    assert outcome.steering == (("and then?", "acknowledged"),)
    assert len({result.data["message_id"] for result in outcome.of_type("message.delta")}) == 2


async def test_a_message_without_a_step_left_gets_its_own_run():
    world = host(model("one"), steering=[Steer("b", after="models.stream")])
    outcome = await world.run(Agent, "a", config={"max_steps": 1})
    assert (outcome.status, outcome.text) == ("completed", "one")
    assert outcome.steering == (("b", "dropped"),)


async def test_messages_can_be_taken_one_by_one():
    main = model("one", "two", "three")
    steers = [Steer("b", after="models.stream"), Steer("c", after="models.stream")]
    await host(main, steering=steers).run(Agent, "a", config={"steering": "one-at-a-time"})
    assert [asked(main, number)[-1][1] for number in range(3)] == ["a", "b", "c"]


async def test_an_agent_without_steering_leaves_messages_for_another_run():
    outcome = await host(model("one"), steering=[Steer("b", after="models.stream")]).run(
        Agent, "a", config={"steering": "off"}
    )
    assert outcome.steering == (("b", "dropped"),)


# --- cancellation ---


async def test_a_run_cancelled_during_its_answer_completes_the_partial_text():
    def endless(request: Any) -> Any:
        return [f"word{number} " for number in range(10_000)]

    live = host(model(endless)).start(Agent, "go")
    for _ in range(3):
        await live.result("message.delta")
    live.cancel()
    outcome = await live.outcome()
    assert outcome.status == "cancelled"
    (message,) = completed(outcome)
    assert message["finish_reason"] == "cancelled"
    assert is_whole(outcome)
    assert message["content"].startswith("word0 word1 word2")
    assert not outcome.rejected


async def test_a_run_cancelled_in_a_batch_leaves_a_result_for_every_call():
    began = asyncio.Event()

    async def hang() -> str:
        """Never answers."""
        began.set()
        await asyncio.Event().wait()
        return ""

    asked_for = tool_calls(("weather", {"city": "Rome"}), ("hang", {}))
    live = host(model(asked_for), tools=[weather, hang]).start(Agent, "go")
    await began.wait()
    live.cancel()
    outcome = await live.outcome()
    messages = completed(outcome)
    assert outcome.status == "cancelled"
    assert [call["id"] for call in messages[0]["tool_calls"]] == [each["tool_call_id"] for each in messages[1:]]
    assert "stopped before this call ended" in messages[-1]["content"]


def is_whole(outcome: RunOutcome) -> bool:
    """Whether every call has its result right behind it, and everything that was shown is a message."""
    messages = completed(outcome)
    at = 0
    while at < len(messages):
        wanted = [call["id"] for call in messages[at].get("tool_calls") or ()]
        found = [message.get("tool_call_id") for message in messages[at + 1 : at + 1 + len(wanted)]]
        if messages[at]["role"] == "tool" or found != wanted:
            return False
        at += 1 + len(wanted)
    said = {result.data.get("message_id"): result.data["message"] for result in outcome.of_type("message.completed")}
    shown: dict[str, str] = {}
    for result in outcome.of_type("message.delta"):
        key = result.data["message_id"]
        shown[key] = shown.get(key, "") + result.data["chunk"]["content"]
    # A piece that had come when the run was cancelled may be in the message and was not shown before.
    return all(said[key]["content"].startswith(text) for key, text in shown.items())


async def test_a_run_cancelled_at_any_moment_has_a_complete_history():
    ways: set[tuple[str, int]] = set()
    for ticks in range(1, 160):
        asked_for = tool_calls(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}), content="let me look")
        world = host(model(asked_for, "take a hat, and a coat"), tools=[weather])
        live = world.start(Agent, "what do I wear?")
        for _ in range(ticks):
            await asyncio.sleep(0)
        live.cancel()
        outcome = await live.outcome()
        assert is_whole(outcome), [(result.type, result.data) for result in outcome.results]
        ways.add((outcome.status, len(completed(outcome))))
    assert {("cancelled", 0), ("cancelled", 3), ("cancelled", 4), ("completed", 4)} <= ways


# --- structured output ---

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}


async def test_a_structured_answer_is_requested_and_checked():
    main = model('{"age": 3}')
    outcome = await host(main).run(Agent, "how old?", config={"output_schema": SCHEMA})
    assert outcome.text == '{"age": 3}'
    assert (main.requests[0].extra_args or {})["response_format"]["json_schema"]["schema"] == SCHEMA
    assert not outcome.of_type("message.delta")


async def test_an_answer_of_the_wrong_shape_is_requested_once_more():
    outcome = await host(model("three", '{"age": 3}')).run(Agent, "how old?", config={"output_schema": SCHEMA})
    assert (outcome.status, outcome.text) == ("completed", '{"age": 3}')


async def test_an_answer_that_never_has_its_shape_fails_the_run():
    outcome = await host(model("three", "four")).run(Agent, "how old?", config={"output_schema": SCHEMA})
    assert outcome.code == "runner.error"
    assert outcome.error is not None
    assert "does not fit the output schema" in outcome.error


# --- hooks ---


class Watching(Hooks):
    """Notes every moment, changes a little."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.more = ["one more thing"]

    async def before_model(self, ctx: Any, turn: Any) -> Any:
        self.moments.append("before_model")
        return turn

    async def after_model(self, ctx: Any, answer: Any) -> Any:
        self.moments.append("after_model")
        return answer.model_copy(update={"content": str(answer.content).upper()})

    async def before_tools(self, ctx: Any, calls: Any) -> Any:
        self.moments.append("before_tools")
        return {call.id: "not today" for call in calls if call.function.name == "weather"}

    async def after_tools(self, ctx: Any, results: Any) -> Any:
        self.moments.append("after_tools")
        return results

    async def finishing(self, ctx: Any, answer: Any) -> Any:
        self.moments.append("finishing")
        return self.more.pop() if self.more else None


@runner(label="Watched", capabilities=CAPABILITIES, permissions=PERMISSIONS)
class Watched(LocalAgent):
    def __init__(self) -> None:
        self.hooks = Watching()
        super().__init__(self.hooks)


async def test_an_author_has_five_hooks():
    main = model(tool_calls(("weather", {"city": "Rome"})), "first", "second")
    world = host(main, tools=[weather])
    outcome = await world.run(Watched, "go")
    assert [message["content"] for message in completed(outcome)] == ["", "not today", "FIRST", "SECOND"]
    assert asked(main, 2)[-1] == ("user", "one more thing")
    assert not [call for call in outcome.calls if call.action == "tools.call"]


class Broken(Hooks):
    """Fails when the tools have answered."""

    async def after_tools(self, ctx: Any, results: Any) -> Any:
        raise RuntimeError("a mistake of the author")


@runner(label="Broken", capabilities=CAPABILITIES, permissions=PERMISSIONS)
class BrokenAgent(LocalAgent):
    def __init__(self) -> None:
        super().__init__(Broken())


async def test_a_raising_hook_fails_the_run_and_every_call_still_has_its_result():
    world = host(model(tool_calls(("weather", {"city": "Rome"}))), tools=[weather])
    outcome = await world.run(BrokenAgent, "go")
    assert (outcome.status, outcome.error) == ("failed", "RuntimeError: a mistake of the author")
    assert [message["role"] for message in completed(outcome)] == ["assistant", "tool"]


# --- too long ---


async def test_a_question_that_is_too_long_is_shortened_and_sent_again():
    main = model(refusal("payload_too_large", "context_length"), "it fits now")
    history = [("user" if number % 2 == 0 else "assistant", f"word {number} " * 50) for number in range(40)]
    outcome = await host(main, history=history).run(Agent, "and?", config={"compaction": False})
    assert outcome.text == "it fits now"
    assert len(main.requests[1].messages) < len(main.requests[0].messages)
