"""The examples are plugins like any other: they pass the check, and the commands of their READMEs work."""

import shlex
import shutil
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(tmp_path) -> Path:
    """The examples where their READMEs say that they are."""
    there = tmp_path / "examples"
    shutil.copytree(EXAMPLES, there, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    return there


@pytest.mark.parametrize(
    ("path", "usable", "rules"),
    [
        ("steering/steady.py", ["Steady"], []),
        ("single_file/tool_agent.py", ["Writing aid", "Counts the words of a text."], []),
        ("support_desk/support_desk.py", ["Support desk", "Refunds money for an order."], ["PC06"]),
    ],
)
def test_the_example_passes_the_check(bollard, examples, path: str, usable: list[str], rules: list[str]) -> None:
    done = bollard("plugin", "check", f"examples/{path}")
    assert done.code == 0
    assert [finding["rule"] for finding in done.json["findings"]] == rules  # a description would cost a line
    assert [offer["label"] for offer in done.json["usable"]] == usable


@pytest.mark.full
@pytest.mark.parametrize("name", ["steering", "support_desk"])
def test_the_commands_of_the_readme_of_the_example_work(bollard, examples, name: str) -> None:
    readme = (examples / name / "README.md").read_text(encoding="utf-8")
    commands = [line.strip().rpartition("| ")[2] for line in readme.splitlines() if line.startswith("    ")]
    assert len(commands) == 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "bollard"
        done = bollard(*arguments, stdin="go\n")
        assert done.code == 0, (command, done.err)
