"""The bounds of workers, as people see them: the level of confinement, the network, and the limits of one worker and of
one workspace. Pure."""

from dataclasses import dataclass
from typing import TypeVar

from bollard.confine.cgroup import GroupLimits
from bollard.confine.limits import LAUNCH_GROUP_BYTES, LAUNCH_PROCESSES, LAUNCH_PROCESSORS
from bollard.confine.worker_level import LevelName, WorkerLevel
from bollard.host.limits import MIB
from bollard.host.settings import Settings
from bollard.protocol import JsonObject, PluginSandbox

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBounds:
    """The enforced limits of a group of processes. `None` is unlimited."""

    memory_mib: int | None
    processors: float | None
    processes: int | None

    def to_wire(self) -> JsonObject:
        return {"memory_mib": self.memory_mib, "cpu": self.processors, "processes": self.processes}

    def within(self, outer: "GroupBounds") -> "GroupBounds":
        """The bounds of a group below another."""
        return GroupBounds(
            memory_mib=_least(self.memory_mib, outer.memory_mib),
            processors=_least(self.processors, outer.processors),
            processes=_least(self.processes, outer.processes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBounds:
    """What one worker may use, and all of its workspace together."""

    level: LevelName
    network: str | tuple[str, ...]
    """`none`, `open`, or the names with consent."""
    worker: GroupBounds
    workspace: GroupBounds

    def to_wire(self) -> JsonObject:
        return {
            "level": self.level,
            "network": self.network if isinstance(self.network, str) else [*self.network],
            **self.worker.to_wire(),
            "workspace": self.workspace.to_wire(),
        }


def workspace_limits(settings: Settings) -> GroupLimits:
    """What the workers and MCP servers of one workspace may use together."""
    return GroupLimits(
        processes=settings.workspace_processes or None,
        memory_bytes=settings.workspace_memory_mib * MIB or None,
        processors=settings.workspace_cpu or None,
    )


def group_bounds(level: WorkerLevel, limits: GroupLimits) -> GroupBounds:
    """Those of the limits that are enforced at this level."""
    memory = limits.memory_bytes
    return GroupBounds(
        memory_mib=memory // MIB if memory is not None and "memory" in level.controllers else None,
        processors=limits.processors if "cpu" in level.controllers else None,
        processes=limits.processes if "pids" in level.controllers else None,
    )


def bounds_of(level: WorkerLevel, sandbox: PluginSandbox, workspace: GroupLimits) -> WorkerBounds:
    """The bounds at this level of a worker that may use `sandbox`, in a workspace with these limits."""
    outer = group_bounds(level, workspace)
    limits = GroupLimits(
        processes=LAUNCH_PROCESSES,
        memory_bytes=LAUNCH_GROUP_BYTES if sandbox.memory_mib is None else sandbox.memory_mib * MIB,
        processors=LAUNCH_PROCESSORS if sandbox.cpu is None else sandbox.cpu,
    )
    network = sandbox.network if isinstance(sandbox.network, str) else tuple(sandbox.network)
    if level.name == "none":
        network = "open"
    elif not (level.namespaces or level.limits_ports):
        network = "none"
    return WorkerBounds(
        level=level.name, network=network, worker=group_bounds(level, limits).within(outer), workspace=outer
    )


def _least(one: _Number | None, other: _Number | None) -> _Number | None:
    found = [each for each in (one, other) if each is not None]
    return min(found, default=None)
