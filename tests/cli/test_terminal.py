"""`bollard plugin run` as a person sees it, behind a pseudo-terminal."""

import pytest

pytestmark = pytest.mark.full


CTRL_C, CTRL_D = "\x03", "\x04"
RUNNER = """
import asyncio
from bollard.sdk import RunContext, runner

@runner(label={{"en_US": "Show", "zh_Hans": "展示"}}, capabilities={capabilities!r})
async def show(ctx: RunContext):
    text = ctx.input.text
    yield ctx.delta(reasoning="thinking hard")
    yield ctx.delta("You said: ")
    yield ctx.delta(text)
    yield ctx.tool_started("1", "lookup", {{"q": "x"}})
    yield ctx.tool_completed("1", "lookup", {{"n": 3}})
    yield ctx.state("conversation", "mood", "good")
    ctx.log("noted", level="warning")
    if text == "wait":
        yield ctx.delta("waiting")
        try:
            while True:
                await asyncio.sleep(0.01)
                if "steering" in {capabilities!r}:
                    for item in (await ctx.api.steering.pull()).items:
                        yield ctx.delta(f"<{{item.input.text}}>")
                        if item.input.text == "end":
                            return
        except asyncio.CancelledError:
            yield ctx.delta("last words")
            raise
    if text == "pause":
        yield ctx.delta("pausing")
        await asyncio.sleep(0.7)
"""


@pytest.fixture
def show(write):
    return write("show.py", RUNNER.format(capabilities=["interrupt"]))


@pytest.fixture
def steered(write):
    return write("steered.py", RUNNER.format(capabilities=["interrupt", "steering"]))


def test_a_terminal_conversation_works(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect(r"Show local/show 0, runner default\n")
    shell.expect(r"Ctrl-C stops a run, Ctrl-D leaves\.")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect(r"thinking hard\nYou said: hello\n")
    shell.expect(r'  tool lookup \{"q": "x"\}\n  tool lookup → \{"n": 3\}\n  state conversation\.mood = "good"\n')
    shell.expect(r"  log warning: noted\n")
    shell.expect(r"  completed · \d+\.\d\d s · 7 results\n")
    shell.expect("^›")
    shell.send("again\n")
    shell.expect("You said: again\n")
    shell.expect("completed")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_terminal_conversation_works_in_chinese(screen, show) -> None:
    shell = screen("plugin", "run", "show.py", BOLLARD_LANG="zh_Hans", columns=120)
    shell.expect(r"展示 local/show 0，运行器 default\n")
    shell.expect("^›")
    shell.send("你好\n")
    shell.expect("You said: 你好\n")
    shell.expect(r"  完成 · \d+\.\d\d 秒 · 7 条结果\n")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_an_empty_line_sends_no_message(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send("\n")
    shell.expect("^›")
    shell.send("  hello \n")
    shell.expect("You said: hello\n")


def test_text_appears_during_the_run(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send("wait\n")
    shell.expect("waiting")
    assert "cancelled" not in shell.text
    shell.send(CTRL_C)
    shell.expect("stopping the run; press Ctrl-C again to leave\n")
    shell.expect("last words\n")
    shell.expect(r"  cancelled · ")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello\n")
    shell.expect("completed")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_second_interrupt_exits(screen, write) -> None:
    write(
        "stubborn.py",
        """
        import asyncio
        from bollard.sdk import RunContext, runner
        @runner()
        async def stubborn(ctx: RunContext):
            yield ctx.delta("here I stand")
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        """,
    )
    shell = screen("plugin", "run", "stubborn.py")
    shell.expect("^›")
    shell.send("go\n")
    shell.expect("here I stand")
    shell.send(CTRL_C)
    shell.expect("press Ctrl-C again to leave\n")
    shell.send(CTRL_C)
    assert shell.end() == 130


def test_at_the_prompt_the_first_interrupt_only_warns(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send(CTRL_C)
    shell.expect("Press Ctrl-D, or Ctrl-C again, to leave")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello\n")
    shell.expect("^›")
    shell.send(CTRL_C)
    shell.expect("Press Ctrl-D, or Ctrl-C again, to leave")
    shell.expect("^›")
    shell.send(CTRL_C)
    assert shell.end() == 130


def test_a_line_typed_during_a_steerable_run_joins_it(screen, steered) -> None:
    shell = screen("plugin", "run", "steered.py")
    shell.expect("a line typed during a run is sent into")
    shell.expect("^›")
    shell.send("wait\n")
    shell.expect("waiting")
    shell.send("more\n")
    shell.expect("sent into the run\n")
    shell.expect("<more>")
    shell.send("end\n")
    shell.expect("<end>")
    shell.expect("completed")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_line_that_a_steerable_run_did_not_read_is_the_next_message(screen, steered) -> None:
    shell = screen("plugin", "run", "steered.py")
    shell.expect("^›")
    shell.send("pause\n")
    shell.expect("pausing")
    shell.send("later\n")
    shell.expect("sent into the run\n")
    shell.expect("completed")
    shell.expect("› later\n")
    shell.expect("You said: later\n")


def test_a_line_typed_during_another_run_waits_for_its_end(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send("pause\n")
    shell.expect("pausing")
    shell.send("next\n")
    shell.expect("queued until this run ends\n")
    shell.expect("completed")
    shell.expect("› next\n")
    shell.expect("You said: next\n")


def test_stopping_a_run_drops_its_queued_messages_with_a_notice(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send("wait\n")
    shell.expect("waiting")
    shell.send("next\n")
    shell.expect("queued until this run ends\n")
    shell.send(CTRL_C)
    shell.expect("cancelled")
    shell.expect("1 queued messages were dropped with the run\n")
    shell.expect("^›")
    assert "You said: next" not in shell.text


def test_exiting_during_a_run_waits_for_its_end(screen, show) -> None:
    shell = screen("plugin", "run", "show.py")
    shell.expect("^›")
    shell.send("pause\n")
    shell.expect("pausing")
    shell.send(CTRL_D)
    shell.expect("Ctrl-D: leaving when this run ends; Ctrl-C stops it")
    shell.expect("completed")
    assert shell.end() == 0


def test_json_on_a_terminal_has_no_prompt(terminal, show) -> None:
    shell = terminal("plugin", "run", "show.py", "--json")
    shell.send("hello\n")
    shell.expect('"type": "run.ended"')
    shell.send(CTRL_D)
    assert shell.end() == 0
    assert "›" not in shell.shown


def test_a_crash_is_reported_and_the_next_message_works(screen, write) -> None:
    write(
        "crash.py",
        """
        import os
        from bollard.sdk import RunContext, runner
        @runner()
        async def crash(ctx: RunContext):
            if ctx.input.text == "die":
                os._exit(9)
            yield ctx.delta("alive")
        """,
    )
    shell = screen("plugin", "run", "crash.py")
    shell.expect("^›")
    shell.send("die\n")
    shell.expect(r"failed · runner\.crashed")
    shell.expect(r"the worker exited \(code 9\); the next message starts a new one\n")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("alive\n")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("language", ["en_US", "zh_Hans"])
def test_the_check_table_fits_the_terminal(terminal, write, columns: int, language: str) -> None:
    from bollard.cli.terminal.columns import width_of

    write("bare/manifest.yaml", "nothing: true\n")
    shell = terminal("plugin", "check", "bare", columns=columns, BOLLARD_LANG=language, COLUMNS=str(columns))
    assert shell.end() == 3
    assert "PL04" in shell.shown
    assert max(width_of(line) for line in shell.shown.splitlines()) <= columns
