"""The sandbox of plugins that a command starts without a host: `bollard plugin run` and `check`."""

import os
from collections.abc import Sequence
from pathlib import Path

from bollard.cli.errors import WorkerProblem
from bollard.cli.language import Text
from bollard.confine.errors import ConfineError
from bollard.confine.launch import Launch
from bollard.confine.plugin_launch import launch_plugin, level_of
from bollard.manifest.text import declared_worker


def confine_locally(path: Path, argv: Sequence[str], descriptor_variable: str, text: Text) -> Launch | None:
    """Prepare the process of a plugin with what its manifest asks for; `None` if nothing is confined. Blocks for a
    moment. Raises `WorkerProblem`."""
    try:
        return launch_plugin(
            level_of(os.environ),
            argv,
            code=path.resolve(),
            sandbox=declared_worker(path).sandbox,
            environment=os.environ,
            descriptor_variable=descriptor_variable,
        )
    except ConfineError as error:
        detail = text.problem({"problem": error.message, **error.details})
        raise WorkerProblem("error.confine", "hint.confine", path=path, detail=detail) from error
