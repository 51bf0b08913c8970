"""`bollard.sdk.agent` as an author uses it. The loop itself is tested in `tests/local_agent`."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from bollard.protocol import FormItem, Message
from bollard.sdk import FallbackModels, Prompt, RunContext, Tools, agent, form_of, runner
from bollard.sdk.testing import MemoryHost, ScriptedModel, tool_calls

pytestmark = pytest.mark.anyio


class Settings(agent.AgentSettings):
    prompt: Prompt = "You count."
    tool_choice: Literal["auto", "never"] = "auto"
    tools: Tools = ("count_words",)
    signature: str = "the desk"


@runner(label="Own form", capabilities=agent.CAPABILITIES, permissions=agent.PERMISSIONS)
async def own_form(ctx: RunContext[Settings]):
    yield ctx.delta(f"{ctx.config.signature}: ")
    async for result in agent.Agent().run(ctx):
        yield result


class Small(BaseModel):
    model: str = "small"


@runner(label="Fixed", capabilities=agent.CAPABILITIES, permissions=agent.PERMISSIONS, config=Small)
async def fixed(ctx: RunContext[Any]):
    settings = agent.AgentSettings(prompt="You are fixed.", model=FallbackModels(primary=ctx.config.model))
    async for result in agent.Agent(settings=settings).run(ctx):
        yield result


@runner(label="No form", capabilities=agent.CAPABILITIES, permissions=agent.PERMISSIONS)
async def no_form(ctx: RunContext[Any]):
    async for result in agent.Agent().run(ctx):
        yield result


@runner(label="Unpermitted", capabilities=agent.CAPABILITIES)
async def unpermitted(ctx: RunContext[Settings]):
    async for result in agent.Agent().run(ctx):
        yield result


def items(model: type[BaseModel]) -> dict[str, FormItem]:
    return {item.name: item for item in form_of(model)}


# --- settings ---


async def test_a_runner_with_its_own_form_uses_its_defaults_and_its_own_results():
    model = ScriptedModel(["done"])
    outcome = await MemoryHost(models={"default": model}).run(own_form, "count", config={"signature": "Ada"})
    assert outcome.text.split() == ["Ada:", "done"]
    assert model.requests[0].messages[0].content == "You count."


async def test_settings_in_code_replace_the_form_of_a_runner():
    model = ScriptedModel(["done"])
    outcome = await MemoryHost(models={"small": model}).run(fixed, "hello")
    assert outcome.text == "done"
    assert model.requests[0].messages[0].content == "You are fixed."


async def test_a_run_without_settings_fails_with_a_hint():
    outcome = await MemoryHost(models={"default": ScriptedModel(["x"])}).run(no_form, "hello")
    assert outcome.status == "failed"
    assert "annotate the context as RunContext[AgentSettings], or pass settings to Agent" in (outcome.error or "")


@pytest.mark.parametrize(
    ("text", "advice"),
    [("hello", "The agent has no model: select one in its configuration"), ("你好", "请在它的配置中选择一个")],
)
async def test_a_run_without_a_model_fails_with_a_hint(text: str, advice: str):
    outcome = await MemoryHost().run(own_form, text)
    assert outcome.status == "failed"
    assert advice in (outcome.error or "")


@pytest.mark.parametrize(
    ("text", "advice"), [("hello", "The agent lacks the permission for models"), ("你好", "此智能体没有调用模型的权限")]
)
async def test_a_run_without_the_permission_for_models_names_the_permission(text: str, advice: str):
    outcome = await MemoryHost(models={"default": ScriptedModel(["x"])}).run(unpermitted, text)
    assert outcome.status == "failed"
    assert advice in (outcome.error or "")
    assert "models.invoke" in (outcome.error or "")


def test_an_overriding_field_keeps_its_texts():
    mine, base = items(Settings), items(agent.AgentSettings)
    for name in ("prompt", "tools"):
        assert (mine[name].type, mine[name].label, mine[name].description) == (
            base[name].type,
            base[name].label,
            base[name].description,
        )
    assert (mine["prompt"].default, mine["tools"].default) == ("You count.", ["count_words"])
    assert list(mine) == [*base, "signature"]


def test_options_are_inherited_by_a_field_of_the_same_type_only():
    assert [option.value for option in items(Settings)["tool_choice"].options or ()] == ["auto", "never"]

    class Free(agent.AgentSettings):
        tool_choice: str = "auto"  # type: ignore[assignment]

    free = items(Free)["tool_choice"]
    assert (free.type, free.options, free.label["zh_Hans"]) == ("string", None, "工具选择")


# --- hooks ---


class Noting(agent.Hooks):
    """Summarises without a model, and signs its summary."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def before_compaction(self, ctx: RunContext[Any], summary: str, messages: Sequence[Message]) -> str | None:
        self.taken += [str(message.content)[:7] for message in messages]
        return f"{summary} {len(messages)} older".strip()

    async def after_compaction(self, ctx: RunContext[Any], summary: str) -> str:
        return f"{summary}, signed"


async def test_the_compaction_hooks_write_the_summary_without_a_model():
    hooks = Noting()

    @runner(label="Noting", capabilities=agent.CAPABILITIES, permissions=agent.PERMISSIONS)
    async def noting(ctx: RunContext[agent.AgentSettings]):
        async for result in agent.Agent(hooks).run(ctx):
            yield result

    said = [("user" if number % 2 == 0 else "assistant", f"note {number} " + "word " * 300) for number in range(40)]
    model = ScriptedModel(["fine"], context_window=4096)
    outcome = await MemoryHost(models={"default": model}, history=said).run(noting, "hello")
    assert outcome.text == "fine"
    assert len(model.requests) == 1
    assert hooks.taken[0] == "note 0 "
    kept = outcome.state["conversation"]["runner.compaction.checkpoint"]
    assert isinstance(kept, dict)
    assert str(kept["summary"]).endswith("older, signed")
    shown = [str(message.content) for message in model.requests[0].messages]
    assert any("older, signed" in text for text in shown)


async def test_a_hook_skips_a_call_and_the_model_reads_the_reason():
    class Careful(agent.Hooks):
        async def before_tools(self, ctx: RunContext[Any], calls: Any) -> dict[str, str]:
            return {call.id: "not on a Sunday" for call in calls if call.function.name == "pay"}

    @runner(label="Careful", capabilities=agent.CAPABILITIES, permissions=agent.PERMISSIONS)
    async def careful(ctx: RunContext[agent.AgentSettings]):
        async for result in agent.Agent(Careful()).run(ctx):
            yield result

    model = ScriptedModel([tool_calls(("pay", {})), "sorry"])
    outcome = await MemoryHost(models={"default": model}, tools={"pay": lambda: "paid"}).run(careful, "pay!")
    assert model.requests[1].messages[-1].content == "not on a Sunday"
    assert "tools.call" not in [call.action for call in outcome.calls]


# --- the front door ---


def test_importing_the_sdk_does_not_load_the_agent():
    probe = "import sys, bollard.sdk; print([name for name in sys.modules if name.startswith('bollard.sdk.agent')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
