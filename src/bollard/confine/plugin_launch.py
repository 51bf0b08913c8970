"""Launches of plugins whose worker no host starts: of `bollard plugin run` and `check`, and of a remote runtime."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bollard.confine.errors import ConfineError, LevelMissing
from bollard.confine.launch import Launch, LaunchNeeds
from bollard.confine.limits import LAUNCH_GROUP_BYTES, LAUNCH_PROCESSORS
from bollard.confine.order import WORKER_DEMANDS
from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import WorkerLevel, choose_level
from bollard.protocol import PluginSandbox

DEMAND_VARIABLE: Final = "BOLLARD_WORKER_SANDBOX"
ROOTS_VARIABLE: Final = "BOLLARD_SANDBOX_ROOTS"
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_MIB: Final = 1024 * 1024


def level_of(environment: Mapping[str, str]) -> WorkerLevel:
    """The level that the variable demands, as the setting of a host does. Probes the machine. Raises `ConfineError`."""
    demand = environment.get(DEMAND_VARIABLE) or "best"
    if demand not in WORKER_DEMANDS:
        raise ConfineError(
            f"{DEMAND_VARIABLE} is {demand!r}",
            hint=f"use one of {', '.join(WORKER_DEMANDS)}",
            details={"problem_type": "workers.demand", "value": demand, "choices": ", ".join(WORKER_DEMANDS)},
        )
    level = choose_level(demand, machine_findings())
    if level.is_refused:
        raise LevelMissing(
            f"{DEMAND_VARIABLE} is strict, and {level.problem}",
            hint=level.hint,
            details={
                "problem_type": "workers.strict",
                "inner": {"problem": level.problem, "problem_type": f"workers.{level.missing}"},
            },
        )
    return level


def launch_plugin(
    level: WorkerLevel,
    argv: Sequence[str],
    *,
    code: Path,
    sandbox: PluginSandbox,
    environment: Mapping[str, str],
    descriptor_variable: str,
) -> Launch | None:
    """Prepare the process of a plugin; `None` if nothing is confined. `code` is its folder or file, and `environment`
    names the roots of its files. Raises `ConfineError`."""
    if level.name == "none":
        return None
    roots = [Path(root) for root in environment.get(ROOTS_VARIABLE, "").split(":") if root]
    certificates = [environment[name] for name in _CERTIFICATES if environment.get(name)]
    needs = LaunchNeeds(
        read=(str(code.absolute()), *certificates),
        exact_read=_allowed(sandbox.read, roots),
        exact_write=_allowed(sandbox.write, roots),
        memory_bytes=LAUNCH_GROUP_BYTES if sandbox.memory_mib is None else sandbox.memory_mib * _MIB,
        processors=LAUNCH_PROCESSORS if sandbox.cpu is None else sandbox.cpu,
        network=sandbox.network != "none" and (level.namespaces or level.limits_ports),
        descriptor_variable=descriptor_variable,
    )
    return Launch(level, argv, cwd=str(code.resolve()) if code.is_dir() else "/", needs=needs)


def _allowed(paths: Iterable[str], roots: Iterable[Path]) -> tuple[str, ...]:
    """The paths without links. Raises `ConfineError`."""
    allowed = [root.resolve() for root in roots]
    found = [(path, Path(os.path.realpath(path))) for path in paths]
    for path, real in found:
        if not any(real.is_relative_to(root) for root in allowed):
            raise ConfineError(
                f"the plugin needs {path} (spec.sandbox), which is below none of the allowed roots",
                hint=f"allow it: {ROOTS_VARIABLE}={path}",
                details={"problem_type": "workers.path_denied", "path": path},
            )
    return tuple(str(real) for _, real in found)
