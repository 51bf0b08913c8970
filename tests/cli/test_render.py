"""What a person and a program see of one run, from plain results."""

import io
import json

import pytest
from rich.console import Console

from bollard.cli.language import load_text
from bollard.cli.terminal.renderers import ApiDone, JsonRenderer, RunEnded, SessionFacts, TextRenderer
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
    """A renderer and what it wrote."""

    def __init__(self, width: int = 100) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, width=width, force_terminal=True, no_color=True, highlight=False)
        self.renderer = TextRenderer(console, console, ENGLISH)

    def show(self, *results: AgentRunResult) -> str:
        for one in results:
            self.renderer.result(one)
        return self.text

    @property
    def text(self) -> str:
        return self.file.getvalue().replace("\x1b[2m", "").replace("\x1b[2;3m", "").replace("\x1b[0m", "")


@pytest.fixture
def screen() -> Screen:
    return Screen()


def test_increments_stand_on_one_line(screen) -> None:
    assert screen.show(delta("one "), delta("two")) == "one two"


def test_reasoning_has_a_line_of_its_own(screen) -> None:
    assert screen.show(delta(reasoning="hm"), delta(reasoning=" so"), delta("yes")) == "hm so\nyes"


def test_two_messages_do_not_share_a_line(screen) -> None:
    assert screen.show(delta("a", message_id="1"), delta("b", message_id="2")) == "a\nb"


def test_a_whole_message_that_was_streamed_is_not_said_twice(screen) -> None:
    assert screen.show(delta("one "), delta("two"), completed("one two")) == "one two\n"


def test_a_whole_message_that_says_something_else_stands_over_its_increments(screen) -> None:
    assert screen.show(delta("one"), completed("two")) == "one\n  the complete message:\ntwo\n"


def test_a_whole_message_without_increments_is_said(screen) -> None:
    assert screen.show(completed("one"), completed("two")) == "one\ntwo\n"


def test_the_last_words_of_a_run_are_said_unless_there_was_a_message(screen) -> None:
    last = result("run.completed", {"finish_reason": "end", "message": {"role": "assistant", "content": "bye"}})
    assert screen.show(last) == "bye\n"
    assert Screen().show(completed("hello"), last) == "hello\n"


def test_content_that_is_no_text_is_named(screen) -> None:
    content = [{"type": "text", "text": "see "}, {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}]
    whole = result("message.completed", {"message": {"role": "assistant", "content": content}})
    assert screen.show(whole) == "see [image_url]\n"


def test_side_lines_interrupt_the_answer_on_lines_of_their_own(screen) -> None:
    shown = screen.show(
        delta("look"),
        result("artifact.created", {"artifact_type": "file", "name": "a.txt", "mime_type": "text/plain"}),
        result("action.requested", {"action": "reaction.add", "target": {"id": 1}}),
        result("tool.call.completed", {"tool_call_id": "1", "tool_name": "t", "error": "no"}),
        delta("on"),
    )
    assert shown == 'look\n  artifact a.txt (text/plain)\n  action reaction.add {"id": 1}\n  tool t failed: "no"\non'


def test_an_api_call_in_the_middle_of_a_line_waits_for_its_end(screen) -> None:
    screen.show(delta("one "))
    screen.renderer.called(ApiDone(action="models.stream", params={"model_id": "demo"}, error=None, seconds=0.002))
    assert screen.show(delta("two"), completed("one two")) == "one two\n  api models.stream demo · 2 ms\n"


def test_a_refused_call_says_why(screen) -> None:
    screen.renderer.called(ApiDone(action="tools.call", params={"name": "t"}, error="not_found: no tool", seconds=0))
    assert screen.text == "  api tools.call t denied: not_found: no tool\n"


def test_an_invalid_or_unknown_result_shows_nothing_by_itself(screen) -> None:
    assert screen.show(result("message.delta", {"chunk": 7}), result("future.thing", {})) == ""


def test_a_long_side_line_is_set_in_on_every_line() -> None:
    narrow = Screen(width=30)
    narrow.renderer.logged(LogRecord(level="info", message="one two three four five six seven eight"))
    assert narrow.text == "  log info: one two three\n  four five six seven eight\n"


def test_a_side_line_without_end_is_cut() -> None:
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
def test_the_end_is_one_line(screen, end: RunEnded, line: str) -> None:
    screen.show(delta("half"))
    screen.renderer.ended(end)
    assert screen.text.startswith("half\n")
    assert f"  {line}" in screen.text


def test_the_next_run_starts_afresh(screen) -> None:
    screen.show(delta("one"))
    screen.renderer.ended(ended())
    assert screen.show(completed("one")).endswith("\none\n")


# --- for programs ---


def test_a_program_gets_results_and_ends_and_nothing_else() -> None:
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
