"""Every list and every detail prints JSON into a pipe and sentences on a terminal, in both languages."""

import json
from typing import Any

import pytest
from typer.main import get_command

from bollard.cli.app import COMMANDS, load

pytestmark = pytest.mark.full


LISTING = ("list", "links", "deliveries")
"""Names of commands that list; a group without a command lists, too, where it has such a one."""


def _lists() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, entry in COMMANDS.items():
        command: Any = get_command(load(entry))
        under = [child for child in getattr(command, "commands", {}) if child in LISTING]
        found += [(name, child) for child in under if not _needs_a_name(command.commands[child])]
        if getattr(command, "invoke_without_command", False):
            found.append((name,))
    return found


def _needs_a_name(command: Any) -> bool:
    return any(each.param_type_name == "argument" and each.required for each in command.params)


LISTS = _lists()
SHOWN = (("agents", "show", "echo"), ("plugin", "show", "bollard/echo"), ("whoami",))


def test_every_noun_has_its_list() -> None:
    nouns = {command[0] for command in LISTS}
    assert {"runs", "agents", "bindings", "events", "conversations", "channels"} <= nouns
    assert {"users", "keys", "workspaces", "plugin", "runtimes"} <= nouns


@pytest.mark.parametrize("command", [*LISTS, *SHOWN], ids=" ".join)
def test_a_pipe_gets_json_and_a_terminal_text(bollard, host, command: tuple[str, ...]) -> None:
    piped = bollard(*command, **host.variables)
    assert (piped.code, piped.err) == (0, "")
    body = json.loads(piped.out)
    assert command not in LISTS or isinstance(body["items"], list)

    english, chinese = (bollard(*command, "--text", BOLLARD_LANG=lang, **host.variables) for lang in ("", "zh_Hans"))
    assert (english.code, chinese.code) == (0, 0)
    assert english.out.strip(), "an empty list says so"
    assert english.out != chinese.out
