"""`bollard plugin check`: the loader's verdict, from a process of its own with a time limit, and the folder's."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bollard.cli.columns import printable, shorten
from bollard.cli.findings import CheckReport, Finding, Offer
from bollard.cli.folderchecks import check_calls, check_descriptions, check_folder, check_labels, sources_of
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.protocol import AgentRunnerManifest, PluginMetadata
from bollard.protocol.shape import english
from bollard.runtime import PluginLoadError, Problem, read_manifest
from bollard.wire import worker_environment

__all__ = ["check_plugin", "declared_environment", "told"]

_ISOLATED: Final = ("-B", "-P")
"""Write no bytecode into the plugin's folder, and import nothing from the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inspection:
    """What the child said, or why it said nothing."""

    answer: dict[str, Any] | None
    failure: Finding | None = None


def told(problem: Problem, text: Text) -> Finding:
    """A problem of the loader in the person's language: its details are English, the rule and the hint are not."""
    if text.language == "en_US":
        return Finding(
            rule=problem.rule,
            where=problem.where,
            field=problem.field,
            problem=problem.problem,
            hint=problem.hint or text(f"fix.{problem.rule}"),
        )
    sentence = text("rule.detail", rule=text(f"rule.{problem.rule}"), detail=problem.problem)
    return Finding(
        rule=problem.rule, where=problem.where, field=problem.field, problem=sentence, hint=text(f"fix.{problem.rule}")
    )


def declared_environment(path: Path) -> tuple[PluginMetadata | None, tuple[str, ...]]:
    """What a folder's manifest says of itself, and the variables its worker may see. Runs no plugin code."""
    if not path.is_dir():
        return None, ()
    reading = read_manifest(path)
    return reading.metadata, reading.env


def check_plugin(path: Path, text: Text, *, timeout_s: float) -> tuple[CheckReport, bool]:
    """The report, and whether anything of the plugin could be loaded at all."""
    findings: list[Finding] = []
    metadata: PluginMetadata | None = None
    environment: tuple[str, ...] = ()
    loaded: _Inspection | None = None
    try:
        metadata, environment = declared_environment(path)
    except PluginLoadError as error:
        findings.append(told(error.problem, text))
    else:
        loaded = _inspect(path, environment, text, timeout_s=timeout_s)
        findings += _of_loader(loaded, text)
    answer = (loaded.answer if loaded is not None else None) or {}
    runners = [AgentRunnerManifest.from_wire(manifest) for manifest in answer.get("runners", ())]
    if path.is_dir():
        findings += check_folder(path, text)
    if answer:
        findings += check_labels(metadata, runners, text)
        findings += check_descriptions(metadata, runners, text)
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
    return [told(Problem(**problem), text) for problem in problems]


def _inspect(path: Path, environment: tuple[str, ...], text: Text, *, timeout_s: float) -> _Inspection:
    # Files, not pipes: a process that the plugin left behind may hold them, and nobody has to wait for it.
    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as printed:
        # The child leads a session of its own, so that whatever it started ends with it.
        with subprocess.Popen(  # noqa: S603 -- our own interpreter, with a path the person gave
            [sys.executable, *_ISOLATED, "-m", "bollard.cli.inspection", str(answers.fileno()), str(path.resolve())],
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
        said = answers.read()
        if code == 0 and said:
            return _Inspection(answer=json.loads(said))
        printed.seek(0)
        lines = printable(printed.read().decode("utf-8", "replace")).split("\n")
        last = next((line for line in reversed(lines) if line.strip()), text("PC09.silent"))
    failure = _failed("PC09", path, text, code=code, detail=shorten(last, LINE_CHARACTERS))
    return _Inspection(answer=None, failure=failure)


def _failed(rule: str, path: Path, text: Text, **fields: object) -> Finding:
    problem, hint = text(f"{rule}.problem", **fields), text(f"fix.{rule}", **fields)
    return Finding(rule=rule, where=path.name, field="module", problem=problem, hint=hint)


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
