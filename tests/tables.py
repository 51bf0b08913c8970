"""Table tests: one test item that runs its body for every row and names every row that fails."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Row = tuple[str, dict[str, Any]]


def for_each(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Iterable[Any] | Callable[[Any], Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Runs a test for every row, with the arguments of `pytest.mark.parametrize`.

    Use it for rows that share nothing but fixtures that no row changes. Every row runs, and the
    failure names the rows that failed.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_rows(split, rows, ids))
    assert table, f"a table of {names} without rows"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        if inspect.iscoroutinefunction(test):

            @wraps(test)
            async def run(**fixtures: Any) -> None:
                failures: list[Exception] = []
                for label, values in table:
                    try:
                        await test(**fixtures, **values)
                    except Exception as failure:
                        failures.append(_named(failure, label))
                _report(failures)

        else:

            @wraps(test)
            def run(**fixtures: Any) -> None:
                failures: list[Exception] = []
                for label, values in table:
                    try:
                        test(**fixtures, **values)
                    except Exception as failure:
                        failures.append(_named(failure, label))
                _report(failures)

        kept = [each for name, each in signature.parameters.items() if name not in split]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _rows(names: Sequence[str], rows: Iterable[Any], ids: Iterable[Any] | Callable[[Any], Any] | None) -> Iterable[Row]:
    given = ids if ids is not None and not callable(ids) else itertools.repeat(None)
    for row, name in zip(rows, given, strict=False):
        param = row if isinstance(row, type(pytest.param())) else pytest.param(*([row] if len(names) == 1 else row))
        assert not param.marks, "a row of a table has no marks of its own"
        assert len(param.values) == len(names), param.values
        shown = ids(param.values[0]) if callable(ids) else name
        label = param.id or shown or ", ".join(f"{value!r:.80}" for value in param.values)
        yield str(label), dict(zip(names, param.values, strict=True))


def _named(failure: Exception, label: str) -> Exception:
    failure.add_note(f"in the row: {label}")
    return failure


def _report(failures: list[Exception]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} rows failed", failures)
