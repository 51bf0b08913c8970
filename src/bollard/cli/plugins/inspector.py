"""Loads a plugin in a process of its own, `inspection.py`, and reads its report. The process and its children end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.plugins.local_sandbox import confine_locally, confinement_problems
from bollard.cli.terminal.columns import printable, shorten
from bollard.host.egress.connection_log import ConnectionSum
from bollard.runtime import Problem
from bollard.wire import worker_environment

_ISOLATED: Final = ("-B", "-P")
"""Write no bytecode into the plugin's folder, and import nothing from the current one."""


_ANSWERS_VARIABLE: Final = "BOLLARD_ANSWERS_FD"
"""The descriptor that the sandbox lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The report of the process; without one, the rule that was broken."""

    timeout_s: float
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    rule: Literal["", "PC08", "PC09"] = ""
    code: int = 0
    last_line: str = ""
    """The last line that the process printed, if there is no report."""

    @property
    def problems(self) -> list[Problem]:
        """The problems of the loader."""
        found = [self.answer["fatal"]] if "fatal" in self.answer else self.answer.get("problems", [])
        return [Problem(**problem) for problem in found]


def inspect_plugin(path: Path, environment: tuple[str, ...], text: Text, *, timeout_s: float) -> Inspection:
    """Load the plugin in its sandbox, with the variables that its manifest names, and return its report. Raises
    `WorkerProblem`."""
    return asyncio.run(_inspect(path.resolve(), environment, text, timeout_s=timeout_s))


async def _inspect(path: Path, environment: tuple[str, ...], text: Text, *, timeout_s: float) -> Inspection:
    # Files, not pipes: a process that the plugin left behind may hold them open, and would delay the end.
    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as printed:
        argv = [sys.executable, *_ISOLATED, "-m", "bollard.cli.plugins.inspection"]
        argv += [str(answers.fileno()), str(path)]
        variables = worker_environment(os.environ, environment)
        sandbox = await confine_locally(path, argv, _ANSWERS_VARIABLE, text, _ignore)
        if sandbox is not None:
            argv, variables = sandbox.argv, sandbox.environment(variables)
        # The child leads a session of its own, so that whatever it started ends with it.
        with subprocess.Popen(  # noqa: S603, ASYNC220 -- our own interpreter; only its proxy uses this loop
            argv,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**variables, _ANSWERS_VARIABLE: str(answers.fileno())},
            pass_fds=(answers.fileno(), *(() if sandbox is None else sandbox.descriptors)),
            start_new_session=True,
        ) as child:
            try:
                if sandbox is not None:
                    with confinement_problems(path, text):
                        await sandbox.start()
                code = await asyncio.to_thread(child.wait, timeout_s)
            except subprocess.TimeoutExpired:
                return Inspection(timeout_s=timeout_s, rule="PC08")
            finally:
                _end_group(child)
                if sandbox is not None:
                    await sandbox.close()
        answers.seek(0)
        output = answers.read()
        if code == 0 and output:
            return Inspection(timeout_s=timeout_s, answer=json.loads(output))
        printed.seek(0)
        lines = printable(printed.read().decode("utf-8", "replace")).split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
    return Inspection(timeout_s=timeout_s, rule="PC09", code=code, last_line=shorten(last, LINE_CHARACTERS))


def _ignore(found: ConnectionSum) -> None:
    """A refused connection is a problem of the plugin, which the report has."""
    del found


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
