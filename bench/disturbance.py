"""The share of the machine that other processes used during a measurement: figures of a busy machine say little."""

import os
import resource
import time
from dataclasses import dataclass
from typing import Self

__all__ = ["BUSY", "Disturbance"]

BUSY = 0.15
"""The share above which the benchmark reports it."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The clocks at the beginning."""

    at: float
    ours: float
    everyone: float

    @classmethod
    def start(cls) -> Self:
        return cls(time.perf_counter(), _ours(), _everyone())

    def share(self) -> float:
        """CPU of other processes since then, as a share of the whole machine. Call it when the measured processes have
        ended."""
        others = (_everyone() - self.everyone) - (_ours() - self.ours)
        return max(0.0, others) / ((time.perf_counter() - self.at) * (os.cpu_count() or 1))


def _ours() -> float:
    """CPU of this process and of all children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _everyone() -> float:
    """All time in which the processors were not idle, including time that the hypervisor took."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _waiting, irq, softirq, stolen = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")
