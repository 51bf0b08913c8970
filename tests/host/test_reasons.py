"""Errors of the host: each reason has a Chinese text, and the text asks for nothing that the error does not carry."""

import ast
import importlib
import pkgutil
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import bollard.host
from bollard.cli.language import read_texts
from bollard.host.errors import HostError

ROOT = Path(bollard.host.__file__).parent
REASONS = read_texts("zh_Hans/reasons")


def _subclasses(kind: type[HostError]) -> Iterator[type[HostError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _subclasses(each)


@cache
def _kinds() -> dict[str, type[HostError]]:
    for module in pkgutil.walk_packages([str(ROOT)], "bollard.host."):
        if not module.name.startswith("bollard.host.store.migrations"):
            importlib.import_module(module.name)
    return {kind.__name__: kind for kind in _subclasses(HostError)}


def _raised() -> Iterator[tuple[str, str, set[str]]]:
    """Where an error is made, its code and reason, and the names of its details."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _kinds()):
                continue
            given = {each.arg: each.value for each in node.keywords if each.arg is not None}
            reason = given.get("reason")
            if isinstance(reason, ast.Constant) and len(given) == len(node.keywords):  # no **details
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield where, f"{_kinds()[node.func.id].code}.{reason.value}", set(given) - {"hint"}


def test_every_reason_has_a_chinese_text() -> None:
    missing = [f"{where} {reason}" for where, reason, _ in _raised() if reason not in REASONS]
    assert not missing, "\n".join(missing)


def test_a_chinese_text_is_filled_from_the_details_of_its_error() -> None:
    problems: list[str] = []
    for where, reason, details in _raised():
        for text in REASONS.get(reason, {}).values():
            wanted = {name for _, name, _, _ in string.Formatter().parse(text) if name}
            if beyond := wanted - details:
                problems.append(f"{where} {reason}: {sorted(beyond)}")
    assert not problems, "\n".join(problems)
