"""`bollard plugin check`: the problems that the loader finds in a separate process, and those of the folder."""

import ast
import fnmatch
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS, PLUGIN_FILES, SOURCE_BYTES
from bollard.cli.plugins.findings import CheckReport, Finding, Offer
from bollard.cli.plugins.program_check import check_program
from bollard.cli.plugins.worker_link import read_declaration
from bollard.cli.terminal.columns import printable, shorten
from bollard.host.agents.config_form import problem_of
from bollard.host.errors import InvalidRequest
from bollard.host.plugins.description import describe
from bollard.protocol import NOTHING_SELECTED, AgentRunnerManifest, FormItem, PluginMetadata
from bollard.protocol.shape import english
from bollard.runtime import ManifestReading, PluginLoadError, Problem
from bollard.wire import worker_environment

_ISOLATED: Final = ("-B", "-P")
"""Write no bytecode into the plugin's folder, and import nothing from the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inspection:
    """The answer of the child process, or why there is none."""

    answer: dict[str, Any] | None
    failure: Finding | None = None


def explained(problem: Problem, text: Text) -> str:
    """The sentence of a problem of the loader."""
    return text.problem({"problem": problem.problem, **problem.details})


def finding_of(problem: Problem, text: Text) -> Finding:
    """A problem of the loader as a finding, in the person's language."""
    if text.language == "en_US":
        return Finding(
            rule=problem.rule,
            where=problem.where,
            field=problem.field,
            problem=problem.problem,
            hint=problem.hint or text(f"fix.{problem.rule}"),
        )
    sentence = text("rule.detail", rule=text(f"rule.{problem.rule}"), detail=explained(problem, text))
    return Finding(
        rule=problem.rule, where=problem.where, field=problem.field, problem=sentence, hint=text(f"fix.{problem.rule}")
    )


def check_plugin(path: Path, text: Text, *, timeout_s: float) -> tuple[CheckReport, bool]:
    """The report, and whether anything of the plugin could be loaded."""
    findings: list[Finding] = []
    declared: ManifestReading | None = None
    answer: dict[str, Any] = {}
    try:
        declared = read_declaration(path)
    except PluginLoadError as error:
        findings.append(finding_of(error.problem, text))
    else:
        answer, found = _load(path, declared, text, timeout_s=timeout_s)
        findings += found
    metadata = None if declared is None else declared.metadata
    runners = [AgentRunnerManifest.from_wire(manifest) for manifest in answer.get("runners", ())]
    if path.is_dir():
        has_program = declared is not None and bool(declared.command)
        findings += check_folder(path, text, tests=not has_program)
    elif answer and path.exists():
        findings += check_literals(path, text)
    if answer:
        findings += check_labels(metadata, runners, text)
        findings += check_descriptions(metadata, runners, text)
        findings += check_defaults(runners, answer.get("refused_defaults", ()), text)
        findings += check_calls(sources_of(path), path if path.is_dir() else path.parent, runners, text)
    findings.sort(key=lambda finding: finding.severity)
    identity = answer.get("plugin")
    report = CheckReport(
        path=str(path),
        plugin=f"{identity['author']}/{identity['name']} {identity['version']}" if identity else None,
        usable=_usable(runners, answer, text),
        findings=tuple(findings),
    )
    return report, bool(report.usable)


def _load(
    path: Path, declared: ManifestReading | None, text: Text, *, timeout_s: float
) -> tuple[dict[str, Any], list[Finding]]:
    """What the plugin offers, and the findings of its loader or of its program."""
    if declared is not None and declared.command:
        answer, findings = check_program(path, declared, text, timeout_s=timeout_s)
        return answer, [*(finding_of(problem, text) for problem in declared.problems), *findings]
    loaded = _inspect(path, () if declared is None else declared.env, text, timeout_s=timeout_s)
    return loaded.answer or {}, _of_loader(loaded, text)


def _usable(runners: list[AgentRunnerManifest], answer: dict[str, Any], text: Text) -> tuple[Offer, ...]:
    offers = [
        Offer(kind="runner", name=runner.name, label=runner.label.get(text.language) or english(runner.label))
        for runner in runners
    ]
    offers += [Offer(kind="tool", name=tool["name"], label=tool["description"]) for tool in answer.get("tools", ())]
    return tuple(offers)


def _of_loader(inspection: _Inspection, text: Text) -> list[Finding]:
    if inspection.failure is not None:
        return [inspection.failure]
    answer = inspection.answer or {}
    problems = [answer["fatal"]] if "fatal" in answer else answer["problems"]
    return [finding_of(Problem(**problem), text) for problem in problems]


def _inspect(path: Path, environment: tuple[str, ...], text: Text, *, timeout_s: float) -> _Inspection:
    # Files, not pipes: a process that the plugin left behind may hold them open, and would delay the end.
    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as printed:
        # The child leads a session of its own, so that whatever it started ends with it.
        with subprocess.Popen(  # noqa: S603 -- our own interpreter, with a path the person gave
            [
                sys.executable,
                *_ISOLATED,
                "-m",
                "bollard.cli.plugins.inspection",
                str(answers.fileno()),
                str(path.resolve()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=worker_environment(os.environ, environment),
            pass_fds=(answers.fileno(),),
            start_new_session=True,
        ) as child:
            try:
                code = child.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                return _Inspection(answer=None, failure=_failed("PC08", path, text, seconds=f"{timeout_s:g}"))
            finally:
                _end_group(child)
        answers.seek(0)
        output = answers.read()
        if code == 0 and output:
            return _Inspection(answer=json.loads(output))
        printed.seek(0)
        lines = printable(printed.read().decode("utf-8", "replace")).split("\n")
        last = next((line for line in reversed(lines) if line.strip()), text("PC09.silent"))
    failure = _failed("PC09", path, text, code=code, detail=text.quote(shorten(last, LINE_CHARACTERS)))
    return _Inspection(answer=None, failure=failure)


def _failed(rule: str, path: Path, text: Text, **fields: object) -> Finding:
    problem, hint = text(f"{rule}.problem", **fields), text(f"fix.{rule}", **fields)
    return Finding(rule=rule, where=path.name, field="module", problem=problem, hint=hint)


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


# The checks of a plugin's files and declarations. They run no plugin code.


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


# --- declarations ---


def check_labels(metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text) -> list[Finding]:
    """Labels without a Chinese text."""
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
    # A plain value (gpt-4, 10) is the same in every language.
    return [
        (where, f"config_schema.{item.name}.options.{option.value}", option.label)
        for option in item.options or ()
        if option.label is not None and option.label.get("en_US") != str(option.value)
    ]


def check_descriptions(
    metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text
) -> list[Finding]:
    """A plugin or runners without a description."""
    described: list[tuple[str, str, Any]] = []
    if metadata is not None:
        described.append(("manifest.yaml", "metadata.description", metadata.description))
    described += [(runner.name, "description", runner.description) for runner in runners]
    return [
        Finding(rule="PC06", where=where, field=field, problem=text("PC06.problem"), hint=text("fix.PC06"))
        for where, field, description in described
        if not description
    ]


def check_defaults(
    runners: Sequence[AgentRunnerManifest], refused: Sequence[dict[str, str]], text: Text
) -> list[Finding]:
    """Defaults of a form that do not fit their field, or that the configuration model refuses: each run would fail."""
    problems: dict[tuple[str, str], str] = {}
    hints: dict[tuple[str, str], str] = {}
    for runner in runners:
        for item in runner.config_schema:
            if item.type == "tool-multi-selector" and (unknown := _unknown_tool(item)):
                problems[runner.name, item.name] = text("PC10.tool", name=unknown)
                hints[runner.name, item.name] = text("PC10.tool_hint")
            if item.default is None or problem_of(item, item.default) is None:
                continue
            options = ", ".join(json.dumps(option.value, ensure_ascii=False) for option in item.options or ())
            key = "PC10.options" if item.type in ("select", "multi-select") else "PC10.problem"
            problems[runner.name, item.name] = text(key, value=_shown(item), type=item.type, options=options)
    items = {(runner.name, item.name): item for runner in runners for item in runner.config_schema}
    for each in refused:
        at = (each["runner"], each["field"])
        if at in items:
            detail = shorten(text.problem(each), LINE_CHARACTERS)
            problems.setdefault(at, text("PC10.model", value=_shown(items[at]), detail=detail))
    return [
        Finding(
            rule="PC10",
            where=at[0],
            field=f"config_schema.{at[1]}",
            problem=problem,
            hint=hints.get(at) or text("fix.PC10"),
        )
        for at, problem in problems.items()
    ]


def _unknown_tool(item: FormItem) -> str | None:
    """A short name that the loader did not find among the plugin's own tools. Other tools have ids with a colon."""
    chosen = item.default if isinstance(item.default, list) else ()
    return next(
        (each for each in chosen if isinstance(each, str) and each not in NOTHING_SELECTED and ":" not in each), None
    )


def _shown(item: FormItem) -> str:
    """The default as JSON. A secret is not printed."""
    return "…" if item.type == "secret" else shorten(json.dumps(item.default, ensure_ascii=False), LINE_CHARACTERS)


# --- calls in the code ---


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
