"""The pure parts of a chat: commands, the choice of the agent, answers by number, and the history file."""

import json
import stat
from typing import Any

from tests.tables import for_each

from bollard.cli.language import LANGUAGES, Text
from bollard.cli.runs.agent_choice import AgentChoice, choose_agent, real_model
from bollard.cli.runs.chat_commands import COMMANDS, read_command
from bollard.cli.runs.inline_requests import choice_of
from bollard.cli.terminal.columns import width_of
from bollard.cli.terminal.history_file import HISTORY_ENTRIES, HistoryFile, history_path
from bollard.cli.terminal.screen import typed_lines
from bollard.cli.terminal.styles import Styles, is_dumb, styles_for

LINES = {
    "/new": ("new", ""),
    "/Search  划船 boat ": ("search", "划船 boat"),
    "/agents echo": ("agents", "echo"),
    "/": ("", ""),
    "/foo": ("foo", ""),
    "/etc/hosts is a file": None,
    " /new": None,
    "a /new": None,
    "": None,
}


@for_each("line", list(LINES))
def test_a_line_is_a_command_or_a_message(line: str) -> None:
    assert read_command(line) == LINES[line]


def chosen(*known: str, asked: str | None = None, model: str | None = None, starting: bool = False) -> Any:
    return choose_agent(known, asked, model, starting=starting)


def test_with_a_model_the_default_agent_is_the_assistant() -> None:
    assert chosen("demo", "assistant", model="qwen") == AgentChoice(
        agent="assistant", reason="chat.because_model", model="qwen"
    )


def test_without_a_model_the_default_agent_is_the_demo() -> None:
    assert chosen("assistant", "demo") == AgentChoice(agent="demo", reason="chat.because_demo")


def test_an_assistant_that_is_starting_is_waited_for() -> None:
    assert chosen("demo", model="qwen", starting=True) is None
    assert chosen("demo", model="qwen") == AgentChoice(agent="demo", reason="chat.because_no_assistant")


def test_a_requested_agent_needs_no_reason() -> None:
    assert chosen("demo", "echo", asked="echo", model="qwen") == AgentChoice(agent="echo")
    assert chosen("demo", asked="echo") is None


def test_the_only_agent_is_the_default_and_of_two_others_none() -> None:
    assert chosen("mine") == AgentChoice(agent="mine", reason="chat.because_only")
    assert chosen("mine", "yours") is None


def test_the_demo_model_and_embedding_models_are_not_real_models() -> None:
    demo = {"model_id": "demo", "style": "demo", "model_type": "llm", "is_default": True}
    embeds = {"model_id": "e", "style": "openai-embeddings", "model_type": "embedding", "is_default": True}
    spare = {"model_id": "s", "style": "openai-chat", "model_type": "llm", "is_default": False}
    assert real_model([demo, embeds, spare]) is None
    assert real_model([embeds, {**spare, "is_default": True}]) == "s"


def test_a_choice_is_given_by_name_or_number() -> None:
    assert choice_of("2", ["red", "blue"]) == "blue"
    assert choice_of("2", ["1", "2", "3"]) == "2"
    assert choice_of("3", ["red", "blue"]) == "3"
    assert choice_of("blue", ["red", "blue"]) == "blue"
    assert choice_of("1", []) == "1"


@for_each("language", list(LANGUAGES))
def test_each_line_of_the_help_fits_sixty_columns(language: str) -> None:
    text = Text(language)
    assert [name for name in COMMANDS if width_of(f"  {text(f'chat.command.{name}')}") > 60] == []


def test_a_typed_message_is_shown_with_indented_lines() -> None:
    plain = Styles(attributes=False, colours=False)
    assert typed_lines("one two\n三四五", 8, plain) == ["› one", "  two", "  三四五"]


def test_the_history_is_private_to_its_owner_and_keeps_lines_together(tmp_path) -> None:
    path = history_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    file = HistoryFile(path)
    assert file.read() == []
    file.add("one\ntwo")
    file.add("你好")
    assert file.read() == ["one\ntwo", "你好"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_history_is_bounded_and_survives_a_damaged_line(tmp_path) -> None:
    path = tmp_path / "history"
    path.write_text("not JSON\n" + "".join(f"{json.dumps(str(number))}\n" for number in range(2 * HISTORY_ENTRIES)))
    entries = HistoryFile(path).read()
    assert (len(entries), entries[-1]) == (HISTORY_ENTRIES, str(2 * HISTORY_ENTRIES - 1))
    assert len(path.read_text().splitlines()) == HISTORY_ENTRIES


def test_an_unwritable_history_is_not_an_error(tmp_path) -> None:
    (tmp_path / "state").write_text("a file")
    file = HistoryFile(history_path({"XDG_STATE_HOME": str(tmp_path / "state")}))
    file.add("one")
    assert file.read() == []


def test_no_color_keeps_attributes_and_a_dumb_terminal_gets_none() -> None:
    colours, no_colours = styles_for({"TERM": "xterm"}), styles_for({"TERM": "xterm", "NO_COLOR": "1"})
    assert colours.paint("a", "bold red") == "\x1b[1;31ma\x1b[0m"
    assert no_colours.paint("a", "bold red") == "\x1b[1ma\x1b[0m"
    assert no_colours.paint("a", "red") == "a"
    assert styles_for({"TERM": "dumb"}).paint("a", "bold red") == "a"
    assert is_dumb({})
