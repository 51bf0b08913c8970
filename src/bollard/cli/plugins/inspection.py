"""`python -m bollard.cli.plugins.inspection FD PATH`: loads a plugin in a separate process and reports its entries and
problems.

The report goes to the inherited descriptor FD, because the plugin's code may print. The parent is `check.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bollard.protocol.form import default_config
from bollard.protocol.shape import problem_parameters
from bollard.runtime import LoadedPlugin, PluginLoadError, Problem, load_plugin
from bollard.sdk import ConfigError

if TYPE_CHECKING:
    from bollard.protocol import JsonObject, JsonValue
    from bollard.runtime.plugin_loader import LoadedRunner


def _problem(problem: Problem) -> JsonObject:
    return dataclasses.asdict(problem)


def _refused_defaults(loaded: LoadedRunner) -> list[JsonValue]:
    """The defaults of a form that the runner's configuration model refuses, with the reason."""
    defaults = default_config(loaded.declaration.config_schema)
    try:
        loaded.declaration.read_config(defaults)
    except ConfigError as error:
        cause = error.__cause__
        found = cause.errors(include_url=False) if isinstance(cause, ValidationError) else []
        return [
            {
                "runner": loaded.declaration.name,
                "field": str(each["loc"][0]),
                "problem": each["msg"],
                "problem_type": each["type"],
                **problem_parameters(each.get("ctx", {})),
            }
            for each in found
            if each["loc"] and each["loc"][0] in defaults  # the owner of an agent fills in the others
        ]
    return []


def _described(plugin: LoadedPlugin) -> JsonObject:
    return {
        "plugin": plugin.identity.to_wire(),
        "runners": [loaded.discovery.manifest.to_wire() for loaded in plugin.runners.values()],
        "tools": [loaded.definition.to_wire() for loaded in plugin.tools.values()],
        "problems": [_problem(problem) for problem in plugin.problems],
        "refused_defaults": [each for loaded in plugin.runners.values() for each in _refused_defaults(loaded)],
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
