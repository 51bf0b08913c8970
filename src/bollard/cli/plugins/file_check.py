"""Checks the files of a plugin: the required and unwanted files of a folder, and the code. It runs no plugin code."""

import ast
import fnmatch
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bollard.cli.language import Text
from bollard.cli.limits import PLUGIN_FILES, SOURCE_BYTES
from bollard.cli.plugins.findings import Finding
from bollard.host.errors import InvalidRequest
from bollard.host.plugins.description import describe
from bollard.protocol import AgentRunnerManifest

_SECRETS: Final = (".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", ".netrc", ".pypirc")
_EXAMPLES: Final = (".env.example", ".env.sample", ".env.template", "*.pub")
_LEFTOVERS: Final = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".ruff_cache",
        ".mypy_cache",
        ".venv",
        "venv",
        "node_modules",
        ".DS_Store",
        ".idea",
    }
)
_CALLS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("models", "invoke"): ("models", "invoke"),
    ("models", "stream"): ("models", "stream"),
    ("models", "rerank"): ("models", "rerank"),
    ("models", "embed"): ("models", "embed"),
    ("tools", "detail"): ("tools", "detail"),
    ("tools", "call"): ("tools", "call"),
    ("knowledge", "list"): ("knowledge_bases", "list"),
    ("knowledge", "retrieve"): ("knowledge_bases", "retrieve"),
    ("history", "page"): ("history", "page"),
    ("history", "search"): ("history", "search"),
    ("events", "get"): ("events", "get"),
    ("events", "page"): ("events", "page"),
    ("artifacts", "metadata"): ("artifacts", "metadata"),
    ("artifacts", "read"): ("artifacts", "read"),
    ("artifacts", "stream"): ("artifacts", "read"),
    ("artifacts", "write"): ("artifacts", "write"),
    ("storage", "plugin"): ("storage", "plugin"),
    ("storage", "workspace"): ("storage", "workspace"),
    ("agents", "call"): ("agents", "call"),
    ("platform", "request"): ("platform", "request"),
}
"""Calls after `.api` in a runner's code, and their permissions."""


def _entries(folder: Path) -> Iterator[Path]:
    """Files and leftovers of tools. The content of a leftover folder is not checked."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in sorted(folders) if name in _LEFTOVERS)
        folders[:] = sorted(name for name in folders if name not in _LEFTOVERS and name != ".git")
        yield from (Path(place, name) for name in sorted(files))


def check_folder(folder: Path, text: Text, *, tests: bool = True) -> list[Finding]:
    """The required files of a plugin folder, and unwanted files. A program is tested with the tools of its language,
    so `tests` is False for it."""
    findings: list[Finding] = []

    def found(rule: str, where: str, **fields: object) -> None:
        problem, hint = text(f"{rule}.problem", **fields), text(f"fix.{rule}", **fields)
        findings.append(Finding(rule=rule, where=where, field="files", problem=problem, hint=hint))

    readme = folder / "README.md"
    if not readme.is_file() or not readme.stat().st_size:
        found("PC01", "README.md")
    place = folder / "tests"
    if tests and not (place.is_dir() and (any(place.rglob("test_*.py")) or any(place.rglob("*_test.py")))):
        found("PC02", "tests/")
    entries = list(itertools.islice(_entries(folder), PLUGIN_FILES))
    for entry in entries:
        if _matches(entry.name, _SECRETS) and not _matches(entry.name, _EXAMPLES):
            found("PC05", entry.relative_to(folder).as_posix(), name=entry.name)
    leftovers = sorted({entry.name for entry in entries if entry.name in _LEFTOVERS})
    if leftovers:
        found("PC07", leftovers[0], names=", ".join(leftovers))
    return findings


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_literals(file: Path, text: Text) -> list[Finding]:
    """Claims of a single file that a host cannot read without running its code: it would refuse to install it."""
    try:
        describe(file)
    except InvalidRequest as error:
        if error.reason != "plugin_literal":
            return []  # the loader names it
        problem = text("PC11.problem", argument=error.details["argument"], function=error.details["function"])
        where = str(error.details["function"])
        return [Finding(rule="PC11", where=where, field="decorator", problem=problem, hint=text("fix.PC11"))]
    return []


def check_calls(
    sources: Sequence[Path], root: Path, runners: Sequence[AgentRunnerManifest], text: Text
) -> list[Finding]:
    """API calls in the code that no runner of the plugin requests permission for. Only literal calls
    (`ctx.api.models.stream`) are found, so no finding proves nothing; a found call is certain to be refused by a
    host."""
    held = {
        (key, operation)
        for runner in runners
        for key, operations in runner.permissions.to_wire().items()
        if isinstance(operations, list)
        for operation in operations
    }
    findings: dict[tuple[str, str], Finding] = {}
    for source in sources:
        for line, family, operation in _calls(source):
            permission = _CALLS[family, operation]
            if permission not in held and permission not in findings:
                fields = {"call": f"api.{family}.{operation}", "key": permission[0], "operation": permission[1]}
                findings[permission] = Finding(
                    rule="PC04",
                    where=f"{source.relative_to(root).as_posix()}:{line}",
                    field="permissions",
                    problem=text("PC04.problem", **fields),
                    hint=text("fix.PC04", **fields),
                )
    return list(findings.values())


def _calls(source: Path) -> Iterator[tuple[int, str, str]]:
    try:
        if source.stat().st_size > SOURCE_BYTES:
            return
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # a required module that fails to load is reported elsewhere
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)):
            continue
        family = node.value
        reached = isinstance(family.value, ast.Attribute) and family.value.attr == "api"
        if reached and (family.attr, node.attr) in _CALLS:
            yield node.lineno, family.attr, node.attr


def sources_of(path: Path) -> list[Path]:
    """The Python files of a plugin, without its tests."""
    if path.is_file():
        return [path]
    files = itertools.islice(_entries(path), PLUGIN_FILES)
    return [file for file in files if file.suffix == ".py" and file.relative_to(path).parts[0] != "tests"]
