"""What a copy that was cut off leaves beside its place: named by the process that made it, and removed by the next."""

import os
import re
import shutil
from pathlib import Path

__all__ = ["remove_leftovers", "unfinished_name"]


def unfinished_name(path: Path, suffix: str) -> Path:
    """Where something is made before it gets the name `path`: hidden, and this process's alone."""
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")


def remove_leftovers(path: Path, suffix: str) -> None:
    """Those of processes that are gone. What cannot be removed stays; it is in nobody's way."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)\.{suffix}")
    try:
        found = list(path.absolute().parent.iterdir())
    except OSError:
        return
    for entry in found:
        named = pattern.fullmatch(entry.name)
        if named is None or _is_alive(int(named[1])):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
