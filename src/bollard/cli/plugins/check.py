"""`bollard plugin check`: the problems that the loader finds in a separate process, and those of the folder.

A worker that is a program of its own is started like a host starts it, and compared with its manifest.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bollard.cli.errors import CliError
from bollard.cli.language import Text
from bollard.cli.plugins.declaration_check import check_defaults, check_descriptions, check_labels
from bollard.cli.plugins.file_check import check_calls, check_folder, check_literals, sources_of
from bollard.cli.plugins.findings import CheckReport, Finding, Offer
from bollard.cli.plugins.inspector import Inspection, inspect_plugin
from bollard.cli.plugins.worker_link import LinkEvents, WorkerLink, read_declaration, start_worker
from bollard.protocol import AgentRunnerManifest, AgentRunnerPermissions, JsonObject, JsonValue
from bollard.protocol.shape import english
from bollard.runtime import ManifestReading, PluginLoadError, Problem

_PROGRAM_RULE: Final = "PC12"


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
    field = text.place(problem.details, problem.field)
    return Finding(
        rule=problem.rule, where=problem.where, field=field, problem=sentence, hint=text(f"fix.{problem.rule}")
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
        answer, findings = _check_program(path, declared, text, timeout_s=timeout_s)
        return answer, [*(finding_of(problem, text) for problem in declared.problems), *findings]
    loaded = inspect_plugin(path, () if declared is None else declared.env, text, timeout_s=timeout_s)
    return loaded.answer, _of_loader(path, loaded, text)


def _usable(runners: list[AgentRunnerManifest], answer: dict[str, Any], text: Text) -> tuple[Offer, ...]:
    offers = [
        Offer(kind="runner", name=runner.name, label=runner.label.get(text.language) or english(runner.label))
        for runner in runners
    ]
    offers += [Offer(kind="tool", name=tool["name"], label=tool["description"]) for tool in answer.get("tools", ())]
    return tuple(offers)


def _of_loader(path: Path, inspection: Inspection, text: Text) -> list[Finding]:
    if rule := inspection.rule:
        detail = text.quote(inspection.last_line) if inspection.last_line else text("PC09.silent")
        fields = {"code": inspection.code, "detail": detail, "seconds": f"{inspection.timeout_s:g}"}
        problem, hint = text(f"{rule}.problem", **fields), text(f"fix.{rule}", **fields)
        return [Finding(rule=rule, where=path.name, field="module", problem=problem, hint=hint)]
    return [finding_of(problem, text) for problem in inspection.problems]


# --- a worker that is a program of its own ---


def _check_program(
    path: Path, declared: ManifestReading, text: Text, *, timeout_s: float
) -> tuple[JsonObject, list[Finding]]:
    """What the worker offers within its manifest, and its findings. Nothing is offered if it does not start."""
    return asyncio.run(_start_program(path, declared, text, timeout_s))


async def _start_program(
    path: Path, declared: ManifestReading, text: Text, timeout_s: float
) -> tuple[JsonObject, list[Finding]]:
    try:
        link = await start_worker(path, LinkEvents(lambda _: None, lambda: None), text, timeout_s=timeout_s)
    except CliError as error:
        problem, hint = error.sentences(text)
        return {}, [
            Finding(rule=_PROGRAM_RULE, where="manifest.yaml", field="spec.command", problem=problem, hint=hint)
        ]
    try:
        findings = [
            Finding(rule=_PROGRAM_RULE, where=where, field=field, problem=problem, hint=text(f"fix.{_PROGRAM_RULE}"))
            for where, field, problem in _differences(link, declared, text)
        ]
        runners, tools = {each.name for each in declared.runners}, {each.name for each in declared.tools}
        offered_runners: list[JsonValue] = [
            each.manifest.to_wire() for each in link.runners if each.runner_name in runners
        ]
        offered_tools: list[JsonValue] = [each.to_wire() for each in link.tools if each.name in tools]
        answer: JsonObject = {"plugin": link.plugin.to_wire(), "runners": offered_runners, "tools": offered_tools}
        return answer, findings
    finally:
        await link.stop()


def _differences(link: WorkerLink, declared: ManifestReading, text: Text) -> Iterator[tuple[str, str, str]]:
    """Where, field and problem of everything in which the worker and its manifest differ."""
    plugin, metadata = link.plugin, declared.metadata
    found = f"{plugin.author}/{plugin.name} {plugin.version}"
    wanted = f"{metadata.author}/{metadata.name} {metadata.version}"
    if found != wanted:
        yield "manifest.yaml", "metadata", text("PC12.identity", found=found, wanted=wanted)
    for each in link.problems:
        yield (
            each.entry,
            text.place(each.details, each.field),
            text("PC12.invalid", problem=text.problem({"problem": each.problem, **each.details})),
        )
    offered = {each.runner_name: each.manifest.permissions for each in link.runners}
    named = {each.name: each.permissions for each in declared.runners}
    yield from _names("runner", set(offered), set(named), text)
    for name in sorted(offered.keys() & named.keys()):
        if beyond := sorted(_operations(offered[name]) - _operations(named[name])):
            yield name, "permissions", text("PC12.permissions", names=", ".join(beyond))
    yield from _names("tool", {each.name for each in link.tools}, {each.name for each in declared.tools}, text)


def _names(kind: str, offered: set[str], declared: set[str], text: Text) -> Iterator[tuple[str, str, str]]:
    for name in sorted(declared - offered):
        yield name, f"{kind}s", text(f"PC12.missing.{kind}", name=name)
    for name in sorted(offered - declared):
        yield name, f"{kind}s", text(f"PC12.extra.{kind}", name=name)


def _operations(permissions: AgentRunnerPermissions) -> set[str]:
    return {f"{family}.{name}" for family, names in permissions.model_dump().items() for name in names}
