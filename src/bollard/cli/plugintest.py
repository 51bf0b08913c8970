"""`bollard plugin test`: pytest on a plugin's own tests, in a child process with the plugin's folder on its path."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bollard.cli.errors import CheckFailed, UsageProblem

__all__ = ["run_tests"]

_NOTHING_COLLECTED: Final = 5
"""pytest's exit code when there was no test."""


def run_tests(path: Path, arguments: Sequence[str], *, output_to_stderr: bool) -> int:
    """Run them and give pytest's exit code; raises where there is nothing to run."""
    if importlib.util.find_spec("pytest") is None:
        raise UsageProblem("error.no_pytest", "hint.no_pytest")
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_path", path=path)
    folder, targets = _targets(path.resolve())
    if not targets:
        raise CheckFailed("error.no_tests", "hint.no_tests", path=path)
    inherited = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), *([inherited] if inherited else [])]),
        # Neither bytecode nor pytest's cache belongs into a plugin that will be shipped.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    code = subprocess.run(  # noqa: S603 -- our own interpreter, with arguments the person gave
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *targets, *arguments],
        cwd=folder,
        env=environment,
        stdout=sys.stderr if output_to_stderr else None,
        check=False,
    ).returncode
    if code == _NOTHING_COLLECTED:
        raise CheckFailed("error.no_tests", "hint.no_tests", path=path)
    return code


def _targets(path: Path) -> tuple[Path, list[str]]:
    """The plugin's folder, and what pytest is to look at in it."""
    if path.is_dir():
        return path, [name for name in ("tests",) if (path / name).is_dir()]
    beside = path.with_name(f"test_{path.name}")
    return path.parent, [file.name for file in (path, beside) if file.is_file() and _has_tests(file)]


def _has_tests(file: Path) -> bool:
    try:
        body = ast.parse(file.read_bytes()).body
    except (SyntaxError, ValueError):
        return True  # pytest says what is wrong with it
    named = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return any(name.startswith(("test_", "Test")) for name in named)
