"""What this process uses of the machine. Blocks for a moment: it lists the open files."""

import os
import resource
import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["ProcessNumbers", "process_numbers"]

_STATM: Final = Path("/proc/self/statm")
_DESCRIPTORS: Final = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")


class ProcessNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be known on a system is `None`."""

    cpu_s: float
    resident_bytes: int | None
    open_files: int | None
    most_files: int


def process_numbers() -> ProcessNumbers:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return ProcessNumbers(
        cpu_s=used.ru_utime + used.ru_stime,
        resident_bytes=_resident(),
        open_files=_open_files(),
        most_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def _resident() -> int | None:
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1  # the listing itself has one
    except OSError:
        return None
