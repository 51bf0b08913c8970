"""Reads the runners and tools that a worker lists. A bad entry becomes a named problem and does not hide the others.

Pure: the input is the decoded response to `runners/list` or `tools/list`.
"""

from typing import TypeVar

import msgspec
from pydantic import ValidationError

from bollard.protocol import (
    AgentRunnerDiscovery,
    JsonValue,
    PluginIdentity,
    Shape,
    ToolDefinition,
    first_problem,
    limits,
)


class CatalogueProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was skipped: its name, the invalid field, and the problem."""

    entry: str
    field: str
    problem: str


class RunnerCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The usable runners of a plugin, and a problem for each other entry."""

    runners: tuple[AgentRunnerDiscovery, ...]
    problems: tuple[CatalogueProblem, ...]


class ToolCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The usable tools of a plugin, and a problem for each other entry."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[CatalogueProblem, ...]


S = TypeVar("S", bound=Shape)


def _entry_name(entry: JsonValue, key: str, index: int) -> str:
    name = entry.get(key) if isinstance(entry, dict) else None
    return name[: limits.NAME_CHARACTERS] if isinstance(name, str) else f"#{index}"


def _read_entries(
    answer: JsonValue, key: str, name_key: str, shape: type[S], most: int
) -> tuple[list[S], list[CatalogueProblem]]:
    entries = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return [], [CatalogueProblem(entry=key, field=key, problem="the answer has no list of this name")]
    found: list[S] = []
    problems: list[CatalogueProblem] = []
    for index, entry in enumerate(entries[:most]):
        try:
            found.append(shape.from_wire(entry))
        except ValidationError as error:
            field, problem = first_problem(error)
            problems.append(CatalogueProblem(entry=_entry_name(entry, name_key, index), field=field, problem=problem))
    if len(entries) > most:
        text = f"{len(entries)} entries, only the first {most} were read"
        problems.append(CatalogueProblem(entry=key, field=key, problem=text))
    return found, problems


def read_runners(answer: JsonValue, plugin: PluginIdentity) -> RunnerCatalogue:
    """Return the valid runners that belong to `plugin`; other entries become problems."""
    found, problems = _read_entries(answer, "runners", "runner_name", AgentRunnerDiscovery, limits.RUNNERS_PER_PLUGIN)
    runners: dict[str, AgentRunnerDiscovery] = {}
    for runner in found:
        if (runner.plugin_author, runner.plugin_name) != (plugin.author, plugin.name):
            text = f"says it belongs to {runner.plugin_author}/{runner.plugin_name}, not to this plugin"
            problems.append(CatalogueProblem(entry=runner.runner_name, field="plugin_name", problem=text))
        elif runner.runner_name in runners:
            text = "a second runner of this name in one plugin"
            problems.append(CatalogueProblem(entry=runner.runner_name, field="runner_name", problem=text))
        else:
            runners[runner.runner_name] = runner
    return RunnerCatalogue(runners=tuple(runners.values()), problems=tuple(problems))


def read_tools(answer: JsonValue) -> ToolCatalogue:
    """Return the valid tools; other entries become problems."""
    found, problems = _read_entries(answer, "tools", "name", ToolDefinition, limits.TOOLS_PER_PLUGIN)
    tools: dict[str, ToolDefinition] = {}
    for tool in found:
        if tool.name in tools:
            text = "a second tool of this name in one plugin"
            problems.append(CatalogueProblem(entry=tool.name, field="name", problem=text))
        else:
            tools[tool.name] = tool
    return ToolCatalogue(tools=tuple(tools.values()), problems=tuple(problems))
