"""Judges `manifest.yaml`: the plugin's part is strict, each runner and tool stands for itself. Runs no plugin code."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from bollard.protocol import (
    JsonObject,
    JsonValue,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginTool,
    Shape,
    first_problem,
    limits,
)
from bollard.runtime.problems import PluginLoadError, Problem
from bollard.wire.manifest_text import MANIFEST_NAME, ManifestError, load_manifest

__all__ = ["ManifestReading", "fits_python", "read_manifest"]

S = TypeVar("S", bound=Shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReading:
    """What of a manifest can be used, and what cannot."""

    metadata: PluginMetadata
    runners: tuple[PluginRunner, ...]
    tools: tuple[PluginTool, ...]
    env: tuple[str, ...]
    problems: tuple[Problem, ...]


def _fatal(rule: str, field: str, problem: str, hint: str) -> PluginLoadError:
    return PluginLoadError(Problem(rule=rule, where=MANIFEST_NAME, field=field, problem=problem, hint=hint))


def _load(folder: Path) -> JsonObject:
    try:
        return load_manifest(folder)
    except ManifestError as error:
        raise _fatal("PL03" if error.was_read else "PL02", error.place, error.problem, error.hint) from error


def read_manifest(folder: Path) -> ManifestReading:
    """Read and judge the manifest of a plugin folder. Raises `PluginLoadError` when nothing of it can be used."""
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
        raise _fatal("PL04", field, problem, "see docs/reference/plugin-manifest.md") from error
    if plugin.spec.python is not None and not fits_python(plugin.spec.python, sys.version_info[:3]):
        hint = "run it on that Python; a range is written as in >=3.11,<4"
        running = ".".join(str(part) for part in sys.version_info[:3])
        raise _fatal("PL05", "spec.python", f"wants {plugin.spec.python}, this is {running}", hint)
    problems: list[Problem] = []
    runners = _entries(lists["runners"], "runners", "PL10", PluginRunner, limits.RUNNERS_PER_PLUGIN, problems)
    tools = _entries(lists["tools"], "tools", "PL20", PluginTool, limits.TOOLS_PER_PLUGIN, problems)
    return ManifestReading(
        metadata=plugin.metadata,
        runners=_unique(runners, "runners", problems),
        tools=_unique(tools, "tools", problems),
        env=plugin.spec.env,
        problems=tuple(problems),
    )


def _entries(value: JsonValue, key: str, rule: str, shape: type[S], most: int, problems: list[Problem]) -> list[S]:
    def broken(where: str, field: str, problem: str) -> None:
        hint = "see docs/reference/plugin-manifest.md"
        problems.append(Problem(rule=rule, where=where, field=field, problem=problem, hint=hint))

    if not isinstance(value, list):
        broken(MANIFEST_NAME, f"spec.{key}", "is not a list")
        return []
    if len(value) > most:
        broken(MANIFEST_NAME, f"spec.{key}", f"{len(value)} entries, only the first {most} are used")
    found: list[S] = []
    for index, entry in enumerate(value[:most]):
        try:
            found.append(shape.from_wire(entry))
        except ValidationError as error:
            field, problem = first_problem(error)
            name = entry.get("name") if isinstance(entry, dict) else None
            broken(name if isinstance(name, str) else f"spec.{key}[{index}]", field, problem)
    return found


def _unique(entries: list[Any], key: str, problems: list[Problem]) -> tuple[Any, ...]:
    kept: dict[str, Any] = {}
    for entry in entries:
        if entry.name in kept:
            problem = f"a second entry of spec.{key} has this name"
            problems.append(
                Problem(rule="PL14", where=entry.name, field="name", problem=problem, hint="rename one of them")
            )
        else:
            kept[entry.name] = entry
    return tuple(kept.values())


_SPECIFIER: Final = re.compile(r"^(>=|<=|==|!=|>|<)\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})$")


def fits_python(specifiers: str, version: tuple[int, int, int]) -> bool:
    """Whether a comma-separated list such as `>=3.11,<4` admits a version. One that cannot be read admits none."""
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
