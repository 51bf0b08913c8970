"""The sandbox of plugins that a command starts without a host: `bollard plugin run` and `check`."""

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bollard.cli.errors import WorkerProblem
from bollard.cli.language import Text
from bollard.confine.errors import ConfineError
from bollard.confine.plugin_launch import level_of
from bollard.host.egress.connection_log import ConnectionSum
from bollard.host.workers.plugin_sandbox import confine_plugin
from bollard.host.workers.sandbox import ConfinedWorker
from bollard.manifest.text import declared_worker


async def confine_locally(
    path: Path, argv: Sequence[str], descriptor_variable: str, text: Text, note: Callable[[ConnectionSum], None]
) -> ConfinedWorker | None:
    """Prepare the process of a plugin with what its manifest asks for; `None` if nothing is confined. `note` gets its
    connections. Raises `WorkerProblem`."""
    with confinement_problems(path, text):
        return await confine_plugin(
            await asyncio.to_thread(level_of, os.environ),
            argv,
            code=path,
            declared=declared_worker(path),
            environment=os.environ,
            descriptor_variable=descriptor_variable,
            note=note,
        )


@contextmanager
def confinement_problems(path: Path, text: Text) -> Generator[None]:
    """Explain that a plugin cannot be confined, as a `WorkerProblem`."""
    try:
        yield
    except ConfineError as error:
        detail = text.problem({"problem": error.message, **error.details})
        raise WorkerProblem("error.confine", "hint.confine", path=path, detail=detail) from error
