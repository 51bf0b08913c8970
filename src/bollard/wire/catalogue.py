"""Reads the runners and tools that a worker lists. A bad entry becomes a named problem and does not hide the others.

Pure: the input is the decoded response to `runners/list` or `tools/list`.
"""

from typing import TypeVar

import msgspec
from pydantic import ValidationError

from bollard.protocol import (
    AgentRunnerDiscovery,
    JsonObject,
    JsonValue,
    PluginIdentity,
    Shape,
    ToolDefinition,
    first_problem,
    limits,
)
from bollard.protocol.shape import problem_details


class CatalogueProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was skipped: its name, the invalid field, and the problem. A translation of the problem is found by
    the type in `details`, and filled with its values."""

    entry: str
    field: str
    problem: str
    details: JsonObject


class RunnerCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The usable runners of a plugin, and a problem for each other entry."""

    runners: tuple[AgentRunnerDiscovery, ...]
    problems: tuple[CatalogueProblem, ...]


class ToolCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The usable tools of a plugin, and a problem for each other entry."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[CatalogueProblem, ...]


S = TypeVar("S", bound=Shape)


def _typed(problem_type: str, **values: JsonValue) -> JsonObject:
    return {"problem_type": problem_type, **values}


def _skipped(entry: str, field: str, problem: str, details: JsonObject) -> CatalogueProblem:
    return CatalogueProblem(entry=entry, field=field, problem=problem, details=details)


def _entry_name(entry: JsonValue, key: str, index: int) -> str:
    name = entry.get(key) if isinstance(entry, dict) else None
    return name[: limits.NAME_CHARACTERS] if isinstance(name, str) else f"#{index}"


def _read_entries(
    answer: JsonValue, key: str, name_key: str, shape: type[S], most: int
) -> tuple[list[S], list[CatalogueProblem]]:
    entries = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        problem, details = "the answer has no list of this name", _typed("catalogue.no_list")
        return [], [_skipped(key, key, problem, details)]
    found: list[S] = []
    problems: list[CatalogueProblem] = []
    for index, entry in enumerate(entries[:most]):
        try:
            found.append(shape.from_wire(entry))
        except ValidationError as error:
            field, problem = first_problem(error)
            name = _entry_name(entry, name_key, index)
            problems.append(_skipped(name, field, problem, {**problem_details(error)}))
    if len(entries) > most:
        text = f"{len(entries)} entries, only the first {most} were read"
        details = _typed("plugin.too_many_entries", count=len(entries), most=most)
        problems.append(_skipped(key, key, text, details))
    return found, problems


def read_runners(answer: JsonValue, plugin: PluginIdentity) -> RunnerCatalogue:
    """Return the valid runners that belong to `plugin`; other entries become problems."""
    found, problems = _read_entries(answer, "runners", "runner_name", AgentRunnerDiscovery, limits.RUNNERS_PER_PLUGIN)
    runners: dict[str, AgentRunnerDiscovery] = {}
    for runner in found:
        if (runner.plugin_author, runner.plugin_name) != (plugin.author, plugin.name):
            owner = f"{runner.plugin_author}/{runner.plugin_name}"
            text, details = f"says it belongs to {owner}, not to this plugin", _typed("catalogue.owner", plugin=owner)
            problems.append(_skipped(runner.runner_name, "plugin_name", text, details))
        elif runner.runner_name in runners:
            text, details = "a second runner of this name in one plugin", _typed("plugin.second_runner")
            problems.append(_skipped(runner.runner_name, "runner_name", text, details))
        else:
            runners[runner.runner_name] = runner
    return RunnerCatalogue(runners=tuple(runners.values()), problems=tuple(problems))


def read_tools(answer: JsonValue) -> ToolCatalogue:
    """Return the valid tools; other entries become problems."""
    found, problems = _read_entries(answer, "tools", "name", ToolDefinition, limits.TOOLS_PER_PLUGIN)
    tools: dict[str, ToolDefinition] = {}
    for tool in found:
        if tool.name in tools:
            text, details = "a second tool of this name in one plugin", _typed("plugin.second_tool")
            problems.append(_skipped(tool.name, "name", text, details))
        else:
            tools[tool.name] = tool
    return ToolCatalogue(tools=tuple(tools.values()), problems=tuple(problems))
