"""The bounds of the workers of one plugin, as people see them: the level of confinement, its network and its limits.
Pure."""

from dataclasses import dataclass

from bollard.confine.limits import LAUNCH_GROUP_BYTES, LAUNCH_PROCESSES, LAUNCH_PROCESSORS
from bollard.confine.worker_level import LevelName, WorkerLevel
from bollard.host.limits import MIB
from bollard.protocol import JsonObject, PluginSandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBounds:
    """What one worker may use. `None` is unlimited."""

    level: LevelName
    network: str | tuple[str, ...]
    """`none`, `open`, or the names with consent."""
    memory_mib: int | None
    processors: float | None
    processes: int | None

    def to_wire(self) -> JsonObject:
        return {
            "level": self.level,
            "network": self.network if isinstance(self.network, str) else [*self.network],
            "memory_mib": self.memory_mib,
            "cpu": self.processors,
            "processes": self.processes,
        }


def bounds_of(level: WorkerLevel, sandbox: PluginSandbox) -> WorkerBounds:
    """The bounds at this level of a worker that may use `sandbox`."""
    if level.name == "none":
        return WorkerBounds(level="none", network="open", memory_mib=None, processors=None, processes=None)
    network = sandbox.network if isinstance(sandbox.network, str) else tuple(sandbox.network)
    reachable = level.namespaces or level.limits_ports
    memory = LAUNCH_GROUP_BYTES // MIB if sandbox.memory_mib is None else sandbox.memory_mib
    processors = LAUNCH_PROCESSORS if sandbox.cpu is None else sandbox.cpu
    return WorkerBounds(
        level=level.name,
        network=network if reachable else "none",
        memory_mib=memory if "memory" in level.controllers else None,
        processors=processors if "cpu" in level.controllers else None,
        processes=LAUNCH_PROCESSES if "pids" in level.controllers else None,
    )
