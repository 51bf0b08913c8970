"""`bollard plugin check`: the problems that the loader finds in a separate process, and those of the folder."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.plugins.declaration_check import check_defaults, check_descriptions, check_labels
from bollard.cli.plugins.file_check import check_calls, check_folder, check_literals, sources_of
from bollard.cli.plugins.findings import CheckReport, Finding, Offer
from bollard.cli.plugins.program_check import check_program
from bollard.cli.plugins.worker_link import read_declaration
from bollard.cli.terminal.columns import printable, shorten
from bollard.protocol import AgentRunnerManifest
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
