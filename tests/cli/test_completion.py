"""Words are completed in every shell that has it: the first, those of a group, and options."""

import subprocess
import sys
from pathlib import Path

import pytest

BOLLARD = str(Path(sys.executable).with_name("bollard"))
ASKED = {
    "bash": lambda line: {"_BOLLARD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))},
    "zsh": lambda line: {"_BOLLARD_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line},
    "fish": lambda line: {
        "_BOLLARD_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}

CHOSEN = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
"""The shell is named, not found out by the process that asks."""


@pytest.mark.parametrize("shell", ASKED)
@pytest.mark.parametrize(
    ("line", "word"), [("bollard plu", "plugin"), ("bollard plugin in", "install"), ("bollard up --po", "--port")]
)
def test_a_word_is_completed(bollard, shell: str, line: str, word: str) -> None:
    done = bollard(**ASKED[shell](line))
    assert (done.code, done.err) == (0, "")
    assert word in done.out
    assert "restore" not in done.out


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o default"), ("zsh", "#compdef"), ("fish", "complete -")]
)
def test_every_shell_gets_its_own_script(bollard, shell: str, mark: str) -> None:
    done = bollard("--show-completion", shell, **CHOSEN)
    assert (done.code, done.err) == (0, "")
    assert mark in done.out


def test_the_script_completes_in_a_real_shell(bollard) -> None:
    script = bollard("--show-completion", "bash", **CHOSEN).out
    asked = f'COMP_WORDS=(bollard plugin in); COMP_CWORD=2; _bollard_completion {BOLLARD}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert done.stdout == "install\n"
