"""`python -m bollard.cli.plugins.inspection FD PATH`: loads a plugin in a separate process and reports its entries and
problems.

The report goes to the inherited descriptor FD, because the plugin's code may print. The parent is `check.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bollard.runtime import LoadedPlugin, PluginLoadError, Problem, load_plugin

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


def _problem(problem: Problem) -> JsonObject:
    return {
        "rule": problem.rule,
        "where": problem.where,
        "field": problem.field,
        "problem": problem.problem,
        "hint": problem.hint,
    }


def _described(plugin: LoadedPlugin) -> JsonObject:
    return {
        "plugin": plugin.identity.to_wire(),
        "runners": [loaded.discovery.manifest.to_wire() for loaded in plugin.runners.values()],
        "tools": [loaded.definition.to_wire() for loaded in plugin.tools.values()],
        "problems": [_problem(problem) for problem in plugin.problems],
    }


def main(descriptor: int, path: Path) -> None:
    """Write one JSON document and exit at once: threads of the plugin must not keep the process alive."""
    os.set_inheritable(descriptor, False)
    try:
        answer = _described(load_plugin(path))
    except PluginLoadError as error:
        answer = {"fatal": _problem(error.problem)}
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(answer, out)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
