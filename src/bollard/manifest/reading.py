"""Validates `manifest.yaml`: its own fields as a whole, each runner and tool separately. Runs no plugin code."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from bollard.manifest.text import MANIFEST_NAME, ManifestError, load_manifest
from bollard.protocol import (
    JsonObject,
    JsonValue,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginSpec,
    PluginTool,
    first_problem,
    limits,
)
from bollard.protocol.shape import problem_details

S = TypeVar("S", PluginRunner, PluginTool)


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: the entry, the field, the problem and a hint."""

    rule: str
    where: str
    field: str
    problem: str
    hint: str
    details: JsonObject = dataclasses.field(default_factory=dict[str, JsonValue])
    """The type of the problem (`problem_type`) and its values, by which a translation is found. Empty if the sentence
    is not ours."""

    def __str__(self) -> str:
        return f"{self.rule} {self.where}: {self.field}: {self.problem}"


class PluginLoadError(Exception):
    """The plugin is unusable as a whole."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem}\nhint: {problem.hint}")
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReading:
    """The usable entries of a manifest, and the problems of the others."""

    metadata: PluginMetadata
    runners: tuple[PluginRunner, ...]
    tools: tuple[PluginTool, ...]
    env: tuple[str, ...]
    command: tuple[str, ...]
    """The program that is the worker. Empty for a plugin in Python."""
    problems: tuple[Problem, ...]


def _load_error(rule: str, field: str, problem: str, hint: str, details: JsonObject) -> PluginLoadError:
    return PluginLoadError(Problem(rule, MANIFEST_NAME, field, problem, hint, details))


def _load(folder: Path) -> JsonObject:
    try:
        return load_manifest(folder)
    except ManifestError as error:
        rule = "PL03" if error.was_read else "PL02"
        raise _load_error(rule, error.place, error.problem, error.hint, error.details) from error


def read_manifest(folder: Path) -> ManifestReading:
    """Read and validate the manifest of a plugin folder. Raises `PluginLoadError` if nothing of it is usable."""
    raw = _load(folder)
    spec = raw.get("spec")
    entries: JsonObject = spec if isinstance(spec, dict) else {}
    lists = {key: entries.get(key, []) for key in ("runners", "tools")}
    frame = dict(raw)
    if isinstance(spec, dict):
        frame["spec"] = {key: value for key, value in spec.items() if key not in lists}
    try:
        plugin = PluginManifest.from_wire(frame)
    except ValidationError as error:
        field, problem = first_problem(error)
        hint = "see docs/reference/plugin-manifest.md"
        raise _load_error("PL04", field, problem, hint, {**problem_details(error)}) from error
    if plugin.spec.python is not None and not admits_python(plugin.spec.python, sys.version_info[:3]):
        hint = "run it on that Python; a range is written as in >=3.11,<4"
        running = ".".join(str(part) for part in sys.version_info[:3])
        details: JsonObject = {"problem_type": "plugin.python", "wanted": plugin.spec.python, "running": running}
        raise _load_error("PL05", "spec.python", f"wants {plugin.spec.python}, this is {running}", hint, details)
    problems: list[Problem] = []
    runners = _read_entries(lists["runners"], ("runners", "PL10"), PluginRunner, plugin.spec, problems)
    tools = _read_entries(lists["tools"], ("tools", "PL20"), PluginTool, plugin.spec, problems)
    return ManifestReading(
        metadata=plugin.metadata,
        runners=_drop_duplicates(runners, "runners", problems),
        tools=_drop_duplicates(tools, "tools", problems),
        env=plugin.spec.env,
        command=plugin.spec.command or (),
        problems=tuple(problems),
    )


_MOST: Final = {"runners": limits.RUNNERS_PER_PLUGIN, "tools": limits.TOOLS_PER_PLUGIN}


def _read_entries(
    value: JsonValue, kind: tuple[str, str], shape: type[S], spec: PluginSpec, problems: list[Problem]
) -> list[S]:
    """`kind` is the key in `spec` and the rule of its entries."""
    key, rule = kind
    most = _MOST[key]

    def broken(where: str, field: str, problem: str, details: Mapping[str, JsonValue]) -> None:
        hint = "see docs/reference/plugin-manifest.md"
        problems.append(Problem(rule, where, field, problem, hint, dict(details)))

    if not isinstance(value, list):
        broken(MANIFEST_NAME, f"spec.{key}", "is not a list", {"problem_type": "list_type"})
        return []
    if len(value) > most:
        details: JsonObject = {"problem_type": "plugin.too_many_entries", "count": len(value), "most": most}
        broken(MANIFEST_NAME, f"spec.{key}", f"{len(value)} entries, only the first {most} are used", details)
    found: list[S] = []
    for index, entry in enumerate(value[:most]):
        try:
            read = shape.from_wire(entry)
        except ValidationError as error:
            field, problem = first_problem(error)
            name = entry.get("name") if isinstance(entry, dict) else None
            where = name if isinstance(name, str) else f"spec.{key}[{index}]"
            broken(where, field, problem, problem_details(error))
            continue
        if (problem := spec.entry_problem(read.entry)) is not None:
            missing = read.entry is None
            broken(read.name, "entry", problem, {"problem_type": "missing" if missing else "plugin.entry_of_program"})
        else:
            found.append(read)
    return found


def _drop_duplicates(entries: list[Any], key: str, problems: list[Problem]) -> tuple[Any, ...]:
    unique: dict[str, Any] = {}
    for entry in entries:
        if entry.name in unique:
            problem = f"a second entry of spec.{key} has this name"
            details: JsonObject = {"problem_type": "plugin.second_entry", "list": f"spec.{key}"}
            problems.append(Problem("PL14", entry.name, "name", problem, "rename one of them", details))
        else:
            unique[entry.name] = entry
    return tuple(unique.values())


_SPECIFIER: Final = re.compile(r"^(>=|<=|==|!=|>|<)\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})$")


def admits_python(specifiers: str, version: tuple[int, int, int]) -> bool:
    """Return whether a list such as `>=3.11,<4` admits a version. An unreadable list admits none."""
    for specifier in specifiers.split(","):
        match = _SPECIFIER.match(specifier.strip())
        if match is None:
            return False
        wanted = tuple(int(part) for part in match[2].split("."))
        have = version[: len(wanted)]
        verdict = {
            ">=": have >= wanted,
            "<=": have <= wanted,
            "==": have == wanted,
            "!=": have != wanted,
            ">": have > wanted,
            "<": have < wanted,
        }
        if not verdict[match[1]]:
            return False
    return True
