"""The views of a user and of a program on one run, from plain results."""

import io
import json

import pytest
from tests.cli.surfaces import MemorySurface

from bollard.cli.language import load_text
from bollard.cli.terminal.columns import width_of
from bollard.cli.terminal.page import OutputSurface, PipePage, TerminalPage
from bollard.cli.terminal.renderers import ApiDone, JsonRenderer, RunEnded, SessionFacts
from bollard.cli.terminal.text_renderer import TextRenderer
from bollard.cli.terminal.tool_calls import detail_lines
from bollard.protocol import AgentRunResult, LogRecord

ENGLISH = load_text("en_US")


def result(kind: str, data: dict, sequence: int = 1) -> AgentRunResult:
    return AgentRunResult(run_id="run-1", type=kind, data=data, sequence=sequence)


def delta(text: str = "", **more: str) -> AgentRunResult:
    message_id = {"message_id": more.pop("message_id")} if "message_id" in more else {}
    return result("message.delta", {"chunk": {"role": "assistant", "content": text, **more}, **message_id})


def completed(text: str, **more: str) -> AgentRunResult:
    return result("message.completed", {"message": {"role": "assistant", "content": text}, **more})


def ended(status: str = "completed", code: str | None = None, error: str | None = None) -> RunEnded:
    return RunEnded(run_id="run-1", status=status, code=code, error=error, results=2, seconds=1.234)


class Screen:
    """A renderer and its output."""

    def __init__(self, width: int = 100, *, verbose: bool = True) -> None:
        self.surface = MemorySurface(width)
        self.renderer = TextRenderer(TerminalPage(self.surface), ENGLISH, verbose=verbose)

    def show(self, *results: AgentRunResult) -> str:
        for one in results:
            self.renderer.result(one)
        return self.text

    @property
    def text(self) -> str:
        return self.surface.text


@pytest.fixture
def screen() -> Screen:
    return Screen()


def test_increments_share_one_line(screen) -> None:
    assert screen.show(delta("one "), delta("two")) == "one two"


def test_reasoning_has_its_own_line(screen) -> None:
    assert screen.show(delta(reasoning="hm"), delta(reasoning=" so"), delta("yes")) == "hm so\nyes"


def test_two_messages_do_not_share_a_line(screen) -> None:
    assert screen.show(delta("a", message_id="1"), delta("b", message_id="2")) == "a\nb"


def test_a_streamed_message_is_not_printed_twice(screen) -> None:
    assert screen.show(delta("one "), delta("two"), completed("one two")) == "one two\n"


def test_a_differing_complete_message_is_printed_after_its_increments(screen) -> None:
    assert screen.show(delta("one"), completed("two")) == "one\n  the complete message:\ntwo\n"


def test_a_message_without_increments_is_printed(screen) -> None:
    assert screen.show(completed("one"), completed("two")) == "one\ntwo\n"


def test_the_message_of_the_terminal_result_is_printed_if_there_was_no_other(screen) -> None:
    last = result("run.completed", {"finish_reason": "end", "message": {"role": "assistant", "content": "bye"}})
    assert screen.show(last) == "bye\n"
    assert Screen().show(completed("hello"), last) == "hello\n"


def test_content_other_than_text_is_named(screen) -> None:
    content = [{"type": "text", "text": "see "}, {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}]
    whole = result("message.completed", {"message": {"role": "assistant", "content": content}})
    assert screen.show(whole) == "see [image_url]\n"


def test_side_lines_interrupt_the_answer_on_separate_lines(screen) -> None:
    shown = screen.show(
        delta("look"),
        result("artifact.created", {"artifact_type": "file", "name": "a.txt", "mime_type": "text/plain"}),
        result("action.requested", {"action": "reaction.add", "target": {"id": 1}}),
        result("tool.call.completed", {"tool_call_id": "1", "tool_name": "t", "error": "no"}),
        delta("on"),
    )
    assert shown == 'look\n  artifact a.txt (text/plain)\n  action reaction.add {"id": 1}\n  tool t failed: no\non'


def test_an_api_call_in_the_middle_of_a_line_waits_for_its_end(screen) -> None:
    screen.show(delta("one "))
    screen.renderer.called(ApiDone(action="models.stream", params={"model_id": "demo"}, error=None, seconds=0.002))
    assert screen.show(delta("two"), completed("one two")) == "one two\n  api models.stream demo · 2 ms\n"


def test_a_refused_call_has_a_reason(screen) -> None:
    screen.renderer.called(ApiDone(action="tools.call", params={"name": "t"}, error="not_found: no tool", seconds=0))
    assert screen.text == "  api tools.call t denied: not_found: no tool\n"


def test_an_invalid_or_unknown_result_prints_nothing(screen) -> None:
    assert screen.show(result("message.delta", {"chunk": 7}), result("future.thing", {})) == ""


def test_a_long_side_line_is_indented_on_every_line() -> None:
    narrow = Screen(width=30)
    narrow.renderer.logged(LogRecord(level="info", message="one two three four five six seven eight"))
    assert narrow.text == "  log info: one two three\n  four five six seven eight\n"


def test_an_endless_side_line_is_truncated() -> None:
    wide = Screen(width=1000)
    wide.renderer.logged(LogRecord(level="info", message="x" * 5000))
    assert len(wide.text) < 400
    assert "…" in wide.text


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (ended(), "completed · 1.23 s · 2 results"),
        (
            ended("failed", "runner.error", "ValueError: x"),
            "failed · runner.error · ValueError: x · 1.23 s · 2 results",
        ),
        (ended("cancelled", "cancelled", "the run was cancelled"), "cancelled · 1.23 s · 2 results"),
        (ended("timeout", "runner.timeout"), "timed out · runner.timeout · 1.23 s · 2 results"),
    ],
)
def test_the_end_is_printed_on_one_line(screen, end: RunEnded, line: str) -> None:
    screen.show(delta("half"))
    screen.renderer.ended(end)
    assert screen.text.startswith("half\n")
    assert f"  {line}" in screen.text


def test_the_next_run_starts_with_a_clean_renderer(screen) -> None:
    screen.show(delta("one"))
    screen.renderer.ended(ended())
    assert screen.show(completed("one")).endswith("\none\n")


# --- what a person who chats sees ---


@pytest.fixture
def quiet() -> Screen:
    return Screen(width=60, verbose=False)


def test_internal_lines_are_hidden_by_default(quiet) -> None:
    quiet.show(
        delta("yes"),
        result("state.updated", {"scope": "conversation", "key": "count", "value": 3}),
        result("action.requested", {"action": "reaction.add", "target": {"id": 1}}),
    )
    quiet.renderer.called(ApiDone(action="models.stream", params={}, error=None, seconds=0.1))
    quiet.renderer.logged(LogRecord(level="info", message="a"))
    quiet.renderer.rejected("result.rejected", "too large")
    quiet.renderer.ended(ended())
    assert quiet.text == "yes\n"


def test_a_failure_is_always_shown(quiet) -> None:
    quiet.renderer.ended(ended("failed", "runner.error", "no"))
    assert quiet.text == "  failed · runner.error · no · 1.23 s\n"


def test_a_tool_call_is_one_line_and_its_details_are_complete(quiet) -> None:
    found = "\n".join(f"line {number} of the page" for number in range(9))
    quiet.renderer.call_started("call_1", "fetch", {"url": "https://example.com"})
    assert quiet.surface.sign == "calling fetch"
    quiet.renderer.call_ended("call_1", "fetch", result=found)
    quiet.show(result("message.completed", {"message": {"role": "tool", "content": found, "tool_call_id": "call_1"}}))
    (line,) = quiet.surface.text.splitlines()
    assert line.startswith('  tool fetch {"url": "https://example.com"} → line 0')
    assert width_of(line) == 60
    assert list(detail_lines(quiet.renderer.calls, ENGLISH))[-1] == "    line 8 of the page"


def test_a_failed_tool_call_has_a_reason(quiet) -> None:
    quiet.renderer.call_started("1", "fetch", {})
    quiet.renderer.call_ended("1", "fetch", error="no such host")
    assert quiet.text == "  tool fetch {} failed: no such host\n"


def test_the_next_run_has_its_own_calls(quiet) -> None:
    quiet.renderer.call_started("1", "fetch", {})
    quiet.renderer.started()
    assert quiet.surface.sign == "working"
    assert list(quiet.renderer.calls) == []


def test_sources_are_printed_below_the_answer(quiet) -> None:
    place = {"document_id": "rules", "name": "rules.txt", "source": "rules.txt", "headings": ["House", "Breakfast"]}
    cited = [{"id": 1, "kb_id": "house", "name": "rules.txt", "source": place}, "no source"]
    message = {"role": "assistant", "content": "At seven. [1]", "metadata": {"citations": cited}}
    quiet.show(delta("At seven. [1]"), result("message.completed", {"message": message}))
    assert quiet.text == "At seven. [1]\n  [1] rules.txt › House › Breakfast (house)\n"


def test_a_note_keeps_the_unfinished_line(quiet) -> None:
    quiet.show(delta("half of a li"))
    quiet.renderer.note("sent into the run")
    assert quiet.show(delta("ne")) == "  sent into the run\nhalf of a line"


def test_a_pipe_gets_only_the_unchanged_answer() -> None:
    out, side = io.StringIO(), io.StringIO()
    renderer = TextRenderer(PipePage(out, side), ENGLISH, verbose=False, answers_only=True)
    renderer.greet("Demo", "demo at http://host", None)
    renderer.started()
    renderer.call_started("1", "fetch", {})
    renderer.call_ended("1", "fetch", result="x")
    for one in (delta(reasoning="hm"), delta("**a**\n\n"), delta("| b")):
        renderer.result(one)
    renderer.ended(ended())
    assert (out.getvalue(), side.getvalue()) == ("**a**\n\n| b\n", "")
    renderer.ended(ended("failed", "runner.error", "no"))
    assert side.getvalue() == "  failed · runner.error · no · 1.23 s\n"


def test_an_output_only_terminal_redraws_its_last_line() -> None:
    out = io.StringIO()
    page = TerminalPage(OutputSurface(out, {"TERM": "xterm", "COLUMNS": "20"}))
    page.wait("working")
    page.say("one two three four five")
    page.end()
    page.wait(None)
    shown = out.getvalue()
    assert shown.startswith("\x1b[2m… working\x1b[0m\r\x1b[K")
    assert [line.rpartition("\x1b[K")[2] for line in shown.split("\n")] == ["one two three four", "five", ""]


def test_a_dumb_terminal_gets_complete_lines_and_no_escape_sequence() -> None:
    out = io.StringIO()
    page = TerminalPage(OutputSurface(out, {"TERM": "dumb", "COLUMNS": "20"}))
    page.wait("working")
    page.say("one **two** three four")
    page.aside("tool", "dim")
    assert out.getvalue() == "one **two** three\nfour\n  tool\n"


# --- for programs ---


def test_a_program_gets_only_results_and_ends() -> None:
    out, side = io.StringIO(), io.StringIO()
    renderer = JsonRenderer(out, side, ENGLISH)
    facts = SessionFacts(plugin="a/b", version="1", runner="r", label="R", tools=(), steering=False, interactive=False)
    renderer.opened(facts)
    renderer.problem("PL12", "x", "entry", "is gone", "define it")
    renderer.result(delta("你好"))
    renderer.called(ApiDone(action="host.info", params={}, error=None, seconds=0))
    renderer.rejected("result.rejected", "too large")
    renderer.logged(LogRecord(level="info", message="a\nb"))
    renderer.note("a note")
    renderer.ended(ended("failed", "runner.error", "no"))
    first, last = [json.loads(line) for line in out.getvalue().splitlines()]

    assert first["data"]["chunk"]["content"] == "你好"
    assert last == {
        "run_id": "run-1",
        "type": "run.ended",
        "data": {"status": "failed", "code": "runner.error", "error": "no", "results": 2, "duration_ms": 1234},
    }
    assert side.getvalue().splitlines() == [
        "PL12 x: entry: is gone",
        "hint: define it",
        "ignored (result.rejected): too large",
        "log info: a b",
        "a note",
    ]
