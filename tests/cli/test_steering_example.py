"""`examples/steering` is a plugin like any other: it passes the strict check, and its own tests."""

import shlex
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/steering"


@pytest.fixture
def example(tmp_path) -> Path:
    """The example where its README says that it is."""
    there = tmp_path / "examples/steering"
    shutil.copytree(EXAMPLE, there, ignore=shutil.ignore_patterns("__pycache__"))
    return there


def test_it_passes_the_strict_check(bollard, example) -> None:
    done = bollard("plugin", "check", "examples/steering/steady.py", "--strict")
    assert (done.code, done.json["findings"]) == (0, [])
    assert done.json["usable"] == [{"kind": "runner", "name": "default", "label": "Steady"}]


def test_the_commands_of_its_readme_work(bollard, example) -> None:
    readme = (example / "README.md").read_text(encoding="utf-8")
    commands = [line.strip().rpartition("| ")[2] for line in readme.splitlines() if line.startswith("    ")]
    assert len(commands) == 3
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "bollard"
        done = bollard(*arguments, stdin="go\n")
        assert done.code == 0, (command, done.err)
