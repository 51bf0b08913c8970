"""What can be wrong with a plugin: each problem has a rule id that docs and translations refer to."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["RULES", "PluginLoadError", "Problem"]

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PL01": "the path is a plugin folder or one Python file",
        "PL02": "a plugin folder has a manifest.yaml",
        "PL03": "manifest.yaml is plain YAML: one mapping, no aliases, tags or duplicate keys, at most 256 KiB",
        "PL04": "the plugin's own fields are complete and valid",
        "PL05": "the plugin runs on this Python",
        "PL06": "the plugin offers at least one runner or tool",
        "PL10": "each runner's manifest entry is complete and valid",
        "PL11": "the module of each entry can be imported",
        "PL12": "each entry names something that exists in its module",
        "PL13": "each runner entry is a runner",
        "PL14": "runner and tool names are unique in a plugin",
        "PL15": "the manifest and the decorator agree",
        "PL20": "each tool's manifest entry is complete and valid",
        "PL23": "each tool entry is a tool",
    }
)
"""Rule ids and what they demand. Everything but PL01 to PL05 concerns one entry and leaves the others usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule: where, which field, what is wrong, and what to do."""

    rule: str
    where: str
    field: str
    problem: str
    hint: str

    def __str__(self) -> str:
        return f"{self.rule} {self.where}: {self.field}: {self.problem}"


class PluginLoadError(Exception):
    """The plugin cannot be used at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem}\nhint: {problem.hint}")
        self.problem = problem
