"""The checks that look at a plugin's files and at what it declares. Runs no plugin code, speaks the given language."""

import ast
import fnmatch
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bollard.cli.findings import Finding
from bollard.cli.language import Text
from bollard.cli.limits import PLUGIN_FILES, SOURCE_BYTES
from bollard.protocol import AgentRunnerManifest, FormItem, PluginMetadata

__all__ = ["check_calls", "check_descriptions", "check_folder", "check_labels", "sources_of"]

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
"""What stands after `.api` in a runner's code, and the permission it needs."""


def _entries(folder: Path) -> Iterator[Path]:
    """Files, and what tools left behind; what lies inside a left-over folder is not looked at."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in sorted(folders) if name in _LEFTOVERS)
        folders[:] = sorted(name for name in folders if name not in _LEFTOVERS and name != ".git")
        yield from (Path(place, name) for name in sorted(files))


def check_folder(folder: Path, text: Text) -> list[Finding]:
    """The fixed shape of a plugin folder, and what should not be in it."""
    findings: list[Finding] = []

    def found(rule: str, where: str, **fields: object) -> None:
        problem, hint = text(f"{rule}.problem", **fields), text(f"fix.{rule}", **fields)
        findings.append(Finding(rule=rule, where=where, field="files", problem=problem, hint=hint))

    readme = folder / "README.md"
    if not readme.is_file() or not readme.stat().st_size:
        found("PC01", "README.md")
    tests = folder / "tests"
    if not (tests.is_dir() and (any(tests.rglob("test_*.py")) or any(tests.rglob("*_test.py")))):
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


# --- what it declares ---


def check_labels(metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text) -> list[Finding]:
    """Labels that have no Chinese text."""
    labels: list[tuple[str, str, dict[str, str]]] = []
    if metadata is not None:
        labels.append(("manifest.yaml", "metadata.label", metadata.label))
    for runner in runners:
        labels.append((runner.name, "label", runner.label))
        labels += [(runner.name, f"config_schema.{item.name}.label", item.label) for item in runner.config_schema]
        labels += [row for item in runner.config_schema for row in _options(runner.name, item)]
    return [
        Finding(rule="PC03", where=where, field=field, problem=text("PC03.problem"), hint=text("fix.PC03"))
        for where, field, label in labels
        if not label.get("zh_Hans", "").strip()
    ]


def _options(where: str, item: FormItem) -> list[tuple[str, str, dict[str, str]]]:
    # A value that is shown as it is (gpt-4, 10) reads the same in every language.
    return [
        (where, f"config_schema.{item.name}.options.{option.value}", option.label)
        for option in item.options or ()
        if option.label is not None and option.label.get("en_US") != str(option.value)
    ]


def check_descriptions(
    metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text
) -> list[Finding]:
    """A plugin and runners that nobody explained."""
    described: list[tuple[str, str, Any]] = []
    if metadata is not None:
        described.append(("manifest.yaml", "metadata.description", metadata.description))
    described += [(runner.name, "description", runner.description) for runner in runners]
    return [
        Finding(rule="PC06", where=where, field=field, problem=text("PC06.problem"), hint=text("fix.PC06"))
        for where, field, description in described
        if not description
    ]


# --- what its code calls ---


def check_calls(
    sources: Sequence[Path], root: Path, runners: Sequence[AgentRunnerManifest], text: Text
) -> list[Finding]:
    """API calls in the code that no runner of the plugin asks to be permitted.

    Only what is written out (`ctx.api.models.stream`) is seen, so silence proves nothing; what is seen is certain to
    be refused by a host.
    """
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
        return  # a module that is needed fails to load, and that is told
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
