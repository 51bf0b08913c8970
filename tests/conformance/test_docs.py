"""The reference page, the Python plugin and the JavaScript plugin speak of the same steps and cases."""

import ast
import re
from pathlib import Path

import pytest

from bollard.conformance import CASES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/conformance.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def documented_steps() -> set[str]:
    table = PAGE.split("## Steps")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"do"}


def test_the_python_plugin_has_every_documented_step(documented_steps: set[str]) -> None:
    tree = ast.parse((ROOT / "examples/conformance/script.py").read_text(encoding="utf-8"))
    table = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "STEPS")
    assert table.value is not None
    names = next(node for node in ast.walk(table.value) if isinstance(node, ast.Tuple))
    assert {ast.unparse(name).rstrip("_") for name in names.elts} == documented_steps


def test_the_javascript_plugin_has_every_documented_step(documented_steps: set[str]) -> None:
    source = (ROOT / "examples/workers/node/conformance.mjs").read_text(encoding="utf-8")
    table = source.split("const STEPS = {")[1].split("\n};")[0]
    assert set(re.findall(r"^  async \*(\w+)\(", table, re.MULTILINE)) == documented_steps


def test_the_page_lists_every_case_and_no_other() -> None:
    table = PAGE.split("<!-- cases:begin -->\n")[1].split("<!-- cases:end -->")[0]
    rows = [f"| `{case.name}` | {case.sentence} | {', '.join(case.requirements)} |" for case in CASES]
    expected = "\n".join(["| case | what the worker must do | requirements |", "|---|---|---|", *rows, ""])
    assert table == expected, f"write this between the two comments of docs/reference/conformance.md:\n{expected}"


def test_the_kit_uses_only_documented_steps(documented_steps: set[str]) -> None:
    used: set[str] = set()
    for file in (ROOT / "src/bollard/conformance/cases").glob("*.py"):
        source = file.read_text(encoding="utf-8")
        used |= set(re.findall(r'\bstep\(\s*"(\w+)"', source)) | set(re.findall(r'"do": "(\w+)"', source))
    assert used == documented_steps
