"""Checks a plugin whose worker is a program of its own: starts it like a host and compares it with its manifest."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from bollard.cli.errors import CliError
from bollard.cli.language import Text
from bollard.cli.plugins.findings import Finding
from bollard.cli.plugins.worker_link import LinkEvents, WorkerLink, start_worker
from bollard.protocol import AgentRunnerPermissions, JsonObject, JsonValue
from bollard.runtime import ManifestReading

RULE = "PC12"


def check_program(
    path: Path, declared: ManifestReading, text: Text, *, timeout_s: float
) -> tuple[JsonObject, list[Finding]]:
    """What the worker offers within its manifest, and its findings. Nothing is offered if it does not start."""
    return asyncio.run(_check(path, declared, text, timeout_s))


async def _check(
    path: Path, declared: ManifestReading, text: Text, timeout_s: float
) -> tuple[JsonObject, list[Finding]]:
    try:
        link = await start_worker(path, LinkEvents(lambda _: None, lambda: None), text, timeout_s=timeout_s)
    except CliError as error:
        problem, hint = error.sentences(text)
        return {}, [Finding(rule=RULE, where="manifest.yaml", field="spec.command", problem=problem, hint=hint)]
    try:
        findings = [
            Finding(rule=RULE, where=where, field=field, problem=problem, hint=text(f"fix.{RULE}"))
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
