"""`bollard plugin run` behind pipes: a real worker, answered from memory."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from bollard.cli.errors import UsageProblem
from bollard.cli.plugins.session_run import whole_config
from bollard.protocol import FormItem
from bollard.sdk.testing import replay

pytestmark = pytest.mark.full


RUNNER = '''
import asyncio, os, time
from typing import Annotated
from pydantic import BaseModel, SecretStr
from bollard.sdk import Form, ModelSelector, RunContext, runner, tool

class Settings(BaseModel):
    word: str = "ok"
    token: SecretStr = SecretStr("")
    model: ModelSelector = None

@tool(risk="low")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@runner(permissions={"models": ["invoke", "stream"], "tools": ["call", "detail"], "history": ["page"],
                     "artifacts": ["write"]})
async def talk(ctx: RunContext[Settings]):
    text = ctx.input.text
    if text == "silent":
        return
    if text == "boom":
        raise ValueError("on purpose")
    if text == "crash":
        os._exit(9)
    if text == "forever":
        await asyncio.Event().wait()
    if text == "stubborn":
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    if text == "history":
        page = await ctx.api.history.page(direction="forward")
        yield ctx.delta(" / ".join(f"{item.role}:{item.content}" for item in page.items))
    elif text == "count":
        turns = ctx.state_snapshot.conversation.get("turns", 0) + 1
        yield ctx.state("conversation", "turns", turns)
        yield ctx.delta(f"turn {turns}")
    elif text == "model":
        async for chunk in ctx.api.models.stream(ctx.config.model, [{"role": "user", "content": "ahoy"}]):
            if chunk.content:
                yield ctx.delta(chunk.content)
    elif text == "tool":
        detail = (await ctx.api.tools.detail(["add"]))[0]
        answer = await ctx.api.tools.call("add", {"a": 1, "b": 2})
        yield ctx.delta(f"{sorted(detail.input_schema['properties'])} {answer.structured}")
    elif text == "forbidden":
        await ctx.api.platform.request("x", {}, {})
    elif text == "print":
        print("printed by the runner")
        yield ctx.delta("done")
    elif text == "rubbish":
        yield ctx.delta("fine")
        await asyncio.sleep(0)
    elif text == "many":
        for n in range(2000):
            yield ctx.delta(f"{n} ")
    elif text == "environment":
        yield ctx.delta(" ".join(sorted(set(os.environ) & {"HOME", "SECRET_OF_MINE", "BOLLARD_LANG"})))
    else:
        yield ctx.delta(f"{ctx.config.word} {ctx.event.event_type} {text} {ctx.runtime.locale}")
'''


@pytest.fixture
def talk(write) -> Path:
    return write("talk.py", RUNNER)


@pytest.fixture
def said(bollard, talk):
    """Send messages to the runner and return its answers as text."""

    def send(*messages: str, **more: Any):
        return bollard("plugin", "run", "talk.py", "--text", stdin="".join(f"{line}\n" for line in messages), **more)

    return send


def ends(done) -> list[dict[str, Any]]:
    return [line["data"] for line in done.lines if line["type"] == "run.ended"]


# --- messages in, answers out ---


def test_each_line_of_a_pipe_is_one_message(said) -> None:
    done = said("one", "", "  ", "two")
    assert done.out == "ok message.received one en_US\nok message.received two en_US\n"
    assert done.code == 0


def test_without_input_no_run_starts(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py")
    assert (done.code, done.out) == (0, "")


def test_messages_may_be_arguments(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--message", "one", "--message", "two", "--text", stdin="three\n")
    assert done.out == "ok message.received one en_US\nok message.received two en_US\n"


def test_a_pipe_gets_json_lines_that_end_each_run(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", stdin="one\ntwo\n")
    first, second = done.lines[:3], done.lines[3:]
    assert [line["type"] for line in first] == ["message.delta", "run.completed", "run.ended"]
    assert [line.get("sequence") for line in first] == [1, 2, None]
    assert {line["run_id"] for line in first} == {"run-1"}
    assert {line["run_id"] for line in second} == {"run-2"}
    assert first[-1]["data"].keys() == {"status", "results", "duration_ms"}


def test_another_event_than_a_message_is_one_run_without_a_text(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--event", "schedule.triggered", "--text", stdin="ignored\n")
    assert done.out == "ok schedule.triggered None en_US\n"


def test_silence_is_an_answer_to_an_event_but_not_to_a_message(bollard, talk) -> None:
    event = bollard("plugin", "run", "talk.py", "--event", "webhook.received", "--message", "silent")
    message = bollard("plugin", "run", "talk.py", "--message", "silent")
    assert (event.code, ends(event)[0]["status"]) == (0, "completed")
    assert (message.code, ends(message)[0]["code"]) == (1, "runner.no_output")


def test_the_language_of_the_user_is_the_locale_of_the_run(said) -> None:
    assert said("one", BOLLARD_LANG="zh_Hans").out == "ok message.received one zh_Hans\n"


def test_invalid_utf8_bytes_are_replaced(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--text", stdin=b"a\xff\n")
    assert (done.code, done.out) == (0, "ok message.received a\ufffd en_US\n")


# --- what the host in memory offers ---


def test_the_history_grows_over_the_turns(said) -> None:
    history = "user:one / assistant:ok message.received one en_US / user:history"
    assert said("one", "history").out.splitlines()[-1] == history


def test_state_lasts_for_the_session(said) -> None:
    assert said("count", "count", "count").out.split("\n")[:3] == ["turn 1", "turn 2", "turn 3"]


def test_a_model_answers_offline_and_fills_the_selector(said) -> None:
    assert said("model").out == "You said: ahoy\n"


def test_the_tools_of_the_plugin_can_be_called(said) -> None:
    assert said("tool").out == "['a', 'b'] 3\n"


def test_a_call_without_permission_is_refused_and_shown(said) -> None:
    done = said("forbidden")
    assert done.code == 1
    assert "api platform.request denied: unauthorized" in done.err
    assert "failed · runner.error" in done.err


def test_the_output_of_a_runner_is_a_log_line(said) -> None:
    done = said("print")
    assert done.out == "done\n"
    assert "log info: printed by the runner" in done.err


def test_credit_is_returned_for_a_long_answer(said) -> None:
    assert said("many").out.split() == [str(n) for n in range(2000)]


def test_the_worker_sees_only_the_variables_of_the_manifest(said) -> None:
    assert said("environment", SECRET_OF_MINE="1", BOLLARD_LANG="en_US").out == "HOME\n"


def test_the_worker_of_a_folder_sees_the_variables_of_its_manifest(bollard, tmp_path) -> None:
    bollard("plugin", "new", "hello")
    manifest = tmp_path / "hello/manifest.yaml"
    manifest.write_text(manifest.read_text().replace("env: []", "env: [GREETING_OF_MINE]"))
    runner = tmp_path / "hello/runner.py"
    runner.write_text(
        runner.read_text().replace('f"{ctx.config.greeting}:"', '__import__("os").environ["GREETING_OF_MINE"]')
    )
    done = bollard("plugin", "run", "hello", "--text", stdin="hi\n", GREETING_OF_MINE="Ahoy")
    assert done.out == "Ahoy hi\n"


# --- configuration and choice ---


@pytest.mark.smoke
def test_the_configuration_is_json_or_a_file(bollard, talk, write) -> None:
    write("config.json", '{"word": "file"}')
    inline = bollard("plugin", "run", "talk.py", "--message", "x", "--text", "--config", '{"word": "inline"}')
    file = bollard("plugin", "run", "talk.py", "--message", "x", "--text", "--config", "@config.json")
    assert [done.out.split()[0] for done in (inline, file)] == ["inline", "file"]


def test_an_invalid_configuration_fails_the_run_with_the_field(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--message", "x", "--config", '{"word": 7}')
    assert done.code == 1
    assert "word" in ends(done)[0]["error"]


def test_a_required_field_is_requested_before_the_run(bollard, write) -> None:
    write(
        "needy.py",
        """
        from pydantic import BaseModel
        from bollard.sdk import RunContext, runner
        class Settings(BaseModel):
            address: str
        @runner()
        async def needy(ctx: RunContext[Settings]):
            yield ctx.delta(ctx.config.address)
        """,
    )
    done = bollard("plugin", "run", "needy.py", "--message", "x")
    assert done.code == 2
    assert "address" in done.err.splitlines()[0]


TWO = """
from bollard.sdk import RunContext, runner
@runner("left")
async def left(ctx: RunContext):
    yield ctx.delta("left")
@runner("right")
async def right(ctx: RunContext):
    yield ctx.delta("right")
"""


def test_one_of_several_runners_is_chosen_by_name(bollard, write) -> None:
    write("two.py", TWO)
    unsure = bollard("plugin", "run", "two.py", "--message", "x")
    wrong = bollard("plugin", "run", "two.py", "--message", "x", "--runner", "middle")
    right = bollard("plugin", "run", "two.py", "--message", "x", "--runner", "right", "--text")
    assert (unsure.code, wrong.code, right.code) == (2, 2, 0)
    assert "left, right" in unsure.err
    assert "'middle'" in wrong.err
    assert right.out == "right\n"


def test_unusable_entries_are_shown_first_and_the_others_run(bollard, tmp_path) -> None:
    bollard("plugin", "new", "hello")
    manifest = tmp_path / "hello/manifest.yaml"
    manifest.write_text(manifest.read_text().replace("runner:count_words", "runner:nothing"))
    done = bollard("plugin", "run", "hello", stdin="hi\n")
    assert done.code == 0
    assert done.err.startswith("PL12 count_words: entry: ")
    assert "hint: " in done.err


def test_a_plugin_without_a_runner_cannot_be_run(bollard, write) -> None:
    write("tools.py", 'from bollard.sdk import tool\n@tool()\ndef t() -> int:\n    """A tool."""\n    return 1\n')
    assert bollard("plugin", "run", "tools.py", "--message", "x").code == 2


@pytest.mark.parametrize("language", ["en_US", "zh_Hans"])
def test_a_plugin_that_fails_to_load_exits_with_3_and_its_rule(bollard, write, language: str) -> None:
    write("broken.py", "raise ValueError('on purpose')\n")
    done = bollard("plugin", "run", "broken.py", "--message", "x", BOLLARD_LANG=language)
    assert done.code == 3
    assert "PL11" in done.err
    assert "ValueError: on purpose" in done.err
    assert len(done.err.splitlines()) == 2


def test_a_worker_that_dies_during_loading_exits_with_4(bollard, write) -> None:
    write("dying.py", "import os, sys\nprint('no more', file=sys.stderr, flush=True)\nos._exit(5)\n")
    done = bollard("plugin", "run", "dying.py", "--message", "x")
    assert done.code == 4
    assert "exit code 5" in done.err


# --- runs that go wrong ---


def test_a_raising_runner_fails_its_run_and_the_next_one_works(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", stdin="boom\nagain\n")
    failed, fine = ends(done)
    assert (failed["status"], failed["code"], failed["error"]) == ("failed", "runner.error", "ValueError: on purpose")
    assert fine["status"] == "completed"
    assert done.code == 1


def test_a_crash_ends_the_run_and_the_next_message_gets_a_new_worker(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", stdin="crash\nagain\n")
    crashed, fine = ends(done)
    assert crashed["code"] == "runner.crashed"
    assert fine["status"] == "completed"
    assert "the worker exited (code 9)" in done.err


def test_the_deadline_cancels_a_run(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--timeout", "0.3", stdin="forever\n")
    assert (ends(done)[0]["status"], ends(done)[0]["code"], done.code) == ("timeout", "runner.timeout", 1)


def test_a_run_that_ignores_its_deadline_ends(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--timeout", "0.3", stdin="stubborn\nagain\n")
    late, fine = ends(done)
    assert late["code"] == "runner.timeout"
    assert late["duration_ms"] > 5000
    assert fine["status"] == "completed"
    assert "ignored its cancellation" in done.err


def test_escape_sequences_of_a_runner_never_reach_the_terminal(bollard, talk) -> None:
    done = bollard("plugin", "run", "talk.py", "--text", "--message", "\x1b[2J")
    assert "\x1b" not in done.out + done.err


# --- recordings ---


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recording_can_be_replayed_without_the_host(bollard, talk, tmp_path) -> None:
    done = bollard("plugin", "run", "talk.py", "--record", "turn.jsonl", "--text", stdin="tool\nmodel\n")
    runner = load(talk).talk
    first = asyncio.run(replay(runner, tmp_path / "turn.jsonl"))
    second = asyncio.run(replay(runner, tmp_path / "turn-2.jsonl"))
    assert done.out == f"{first.text}\n{second.text}\n"


def test_a_recording_contains_no_secret(bollard, talk, tmp_path) -> None:
    config = '{"token": "very-secret"}'
    bollard("plugin", "run", "talk.py", "--record", "turn.jsonl", "--config", config, stdin="x\n")
    assert "very-secret" not in (tmp_path / "turn.jsonl").read_text()


def test_a_display_row_has_no_value_and_a_locked_field_only_its_own() -> None:
    label = {"en_US": "X"}
    form = [
        FormItem.from_wire({"name": "callback", "type": "display", "label": label, "default": "{host_url}"}),
        FormItem.from_wire({"name": "steps", "type": "integer", "label": label, "default": 3, "locked": label}),
    ]
    assert whole_config({}, form) == whole_config({"steps": 3}, form) == {"steps": 3}
    for given in ({"callback": "x"}, {"steps": 4}):
        with pytest.raises(UsageProblem, match="config_fixed"):
            whole_config(given, form)
