"""The list of flaky tests stays short-lived and true, and table tests name their failures."""

import ast
import datetime
from pathlib import Path

import pytest
from tests.conftest import FLAKY, HERE
from tests.tables import for_each


def test_an_entry_of_the_flaky_list_has_a_test_a_reason_and_a_future_date() -> None:
    for name, entry in FLAKY.items():
        assert set(entry) == {"reason", "expires"}, name
        assert datetime.date.fromisoformat(entry["expires"]) > datetime.datetime.now(datetime.UTC).date(), name
        path, _, function = name.partition("::")
        assert function in _functions(HERE.parent / path), name


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_a_table_runs_every_row_and_names_the_failing_ones() -> None:
    seen: list[int] = []

    @for_each("number", [1, 2, pytest.param(3, id="three"), 4])
    def check(number: int, limit: int) -> None:
        seen.append(number)
        assert number < limit

    with pytest.raises(ExceptionGroup, match="2 rows failed") as failure:
        check(limit=3)
    assert seen == [1, 2, 3, 4]
    assert [row.__notes__ for row in failure.value.exceptions] == [["in the row: three"], ["in the row: 4"]]


async def test_a_table_of_coroutines_waits_for_every_row() -> None:
    seen: list[tuple[str, int]] = []

    @for_each("number", [1, 2])
    @for_each(("letter", "_"), [("a", None), ("b", None)])
    async def check(number: int, letter: str, _: None) -> None:
        seen.append((letter, number))

    await check()
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        for_each("number", [])
