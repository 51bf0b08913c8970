"""Behaviour is a list: every requirement that is kept has a test or a kit case, and every link leads somewhere."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bollard.conformance import CASES

TESTS = Path(__file__).parents[1]
SIDES = {"worker", "host", "shapes", "wire", "sdk"}
KEPT = range(1, 5)
"""The parts whose requirements are kept today."""


@pytest.fixture(scope="module")
def requirements() -> list[dict[str, Any]]:
    return yaml.safe_load((Path(__file__).parent / "requirements.yaml").read_text(encoding="utf-8"))


def _markers_of(decorated: ast.AST) -> Iterator[str]:
    for decorator in getattr(decorated, "decorator_list", []):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement":
            yield from (argument.value for argument in decorator.args if isinstance(argument, ast.Constant))


@pytest.fixture(scope="module")
def marked() -> dict[str, list[str]]:
    """Requirement id → the tests that name it. Files are parsed, not imported."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for identifier in _markers_of(node):
                name = f"{file.relative_to(TESTS)}::{getattr(node, 'name', '?')}"
                found.setdefault(identifier, []).append(name)
    return found


def _lines(problems: list[str]) -> str:
    return "\n" + "\n".join(problems)


def test_every_requirement_is_well_formed(requirements: list[dict[str, Any]]) -> None:
    wrong = [
        f"{entry.get('id')}: {problem}"
        for entry in requirements
        for problem, is_wrong in (
            ("the id is P<section>-<number>", not re.fullmatch(r"P\d\d-\d\d", entry["id"])),
            ("the section is the id's", int(entry["id"][1:3]) != entry["section"]),
            ("the side is one of the five", entry["side"] not in SIDES),
            ("the part is 1 to 6", entry["part"] not in range(1, 7)),
            ("the text is one sentence", not entry["text"].endswith(".") or len(entry["text"]) < 20),
            ("only a worker's requirement has kit cases", bool(entry.get("kit")) and entry["side"] != "worker"),
            ("only the host's requirements wait for a later part", entry["part"] != 1 and entry["side"] != "host"),
        )
        if is_wrong
    ]
    assert not wrong, _lines(wrong)


def test_ids_are_unique(requirements: list[dict[str, Any]]) -> None:
    counts = Counter(entry["id"] for entry in requirements)
    assert [identifier for identifier, count in counts.items() if count > 1] == []


def test_every_section_of_the_contract_has_requirements(requirements: list[dict[str, Any]]) -> None:
    assert {entry["section"] for entry in requirements} == set(range(1, 13))


def test_every_kept_requirement_has_a_test(requirements: list[dict[str, Any]], marked: dict[str, list[str]]) -> None:
    missing = [
        f"{entry['id']} ({entry['side']}): {entry['text']}"
        for entry in requirements
        if entry["part"] in KEPT and not entry.get("kit") and entry["id"] not in marked
    ]
    assert not missing, _lines([f"{len(missing)} requirements have neither a test nor a kit case:", *missing])


def test_every_marker_names_a_requirement(requirements: list[dict[str, Any]], marked: dict[str, list[str]]) -> None:
    known = {entry["id"] for entry in requirements}
    unknown = [f"{identifier}: {', '.join(tests)}" for identifier, tests in marked.items() if identifier not in known]
    assert not unknown, _lines(unknown)


def test_kit_cases_and_requirements_name_each_other(requirements: list[dict[str, Any]]) -> None:
    listed = {(case, entry["id"]) for entry in requirements for case in entry.get("kit", [])}
    registered = {(case.name, identifier) for case in CASES for identifier in case.requirements}
    problems = [
        f"requirements.yaml names {case} for {identifier}, the kit does not" for case, identifier in listed - registered
    ]
    problems += [
        f"the kit names {identifier} for {case}, requirements.yaml does not" for case, identifier in registered - listed
    ]
    assert not problems, _lines(sorted(problems))


def test_kit_cases_have_unique_names_and_a_requirement() -> None:
    counts = Counter(case.name for case in CASES)
    assert [name for name, count in counts.items() if count > 1] == []
    assert [case.name for case in CASES if not case.requirements] == []
