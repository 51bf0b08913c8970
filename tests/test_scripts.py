"""The scripts that print figures and promises of the tree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bollard.host.log.retention import KINDS

pytestmark = pytest.mark.full

SCRIPTS = Path(__file__).parents[1] / "scripts"


def printed(name: str, *arguments: str) -> str:
    command = [sys.executable, SCRIPTS / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_contract_has_names_and_shapes_and_no_prose() -> None:
    contract = json.loads(printed("contract"))
    assert contract["records"] == sorted(KINDS)
    assert contract["settings"]["port"] == "8420"
    assert any("--data" in parameter for parameter in contract["cli"]["commands"]["up"]["parameters"])
    post = contract["http"]["paths"]["/api/v1/events"]["post"]
    assert "202" in post["responses"]
    assert not {"summary", "description", "example"} & set(post)
    assert "description" in contract["protocol"]["ToolDefinition.json"]["properties"]


def test_the_figures_of_the_tree_count_modules_and_lines() -> None:
    figures = printed("house", "--list").splitlines()
    count = len(list((SCRIPTS.parent / "src").rglob("*.py")))
    assert figures[0].split() == ["modules", str(count)]
