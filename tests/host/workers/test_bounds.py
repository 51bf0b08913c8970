"""What people see of the limits of a worker."""

from tests.tables import for_each

from bollard.confine.cgroup import GroupLimits
from bollard.confine.worker_level import UNCONFINED, WorkerLevel
from bollard.host.workers.bounds import bounds_of
from bollard.protocol import JsonObject, PluginSandbox

FULL = WorkerLevel(
    demand="best", name="full", namespaces=True, landlock=7, seccomp=True, controllers=("pids", "memory", "cpu")
)
OLD = WorkerLevel(demand="best", name="landlock", landlock=3, seccomp=True)
"""A kernel whose Landlock does not restrict TCP, without control groups."""

LIMITED = {"memory_mib": 2048, "cpu": 2.0, "processes": None}
UNLIMITED = {"memory_mib": None, "cpu": None, "processes": None}


@for_each(
    ("level", "asks", "shown"),
    [
        (FULL, {}, ("full", "none", 1024, 1.0, 256, LIMITED)),
        (
            FULL,
            {"memory_mib": 64, "cpu": 0.5, "network": ["a.example"]},
            ("full", ["a.example"], 64, 0.5, 256, LIMITED),
        ),
        (FULL, {"memory_mib": 9000, "cpu": 8.0}, ("full", "none", 2048, 2.0, 256, LIMITED)),
        (OLD, {"network": "open"}, ("landlock", "none", None, None, None, UNLIMITED)),
        (UNCONFINED, {"memory_mib": 64}, ("none", "open", None, None, None, UNLIMITED)),
    ],
)
def test_the_bounds_are_what_is_enforced(level: WorkerLevel, asks: JsonObject, shown: tuple[object, ...]) -> None:
    workspace = GroupLimits(memory_bytes=2048 << 20, processors=2.0)
    wire = bounds_of(level, PluginSandbox.from_wire(asks), workspace).to_wire()
    assert tuple(wire.values()) == shown
    assert [*wire] == ["level", "network", "memory_mib", "cpu", "processes", "workspace"]
