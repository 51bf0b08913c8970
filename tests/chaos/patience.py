"""The patience of the chaos tests, and their report about a host when a wait fails."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import psutil

__all__ = ["PATIENCE_S", "describe_processes", "holders_of", "patience", "tail"]

PATIENCE_S = 120.0
"""An upper limit on a busy machine, never the subject of a test: answers arrive within a second or two."""
_TAIL_BYTES = 4000


@contextlib.asynccontextmanager
async def patience(what: str, seen: Callable[[], Awaitable[str]]) -> AsyncGenerator[None]:
    """Bounds a wait for `what`. A failed wait reports it, with the state from `seen`."""
    limit = asyncio.timeout(PATIENCE_S)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise  # a timeout of another wait
        raise AssertionError(f"waited {PATIENCE_S:g} s for {what}\n{await seen()}") from error


def tail(path: Path) -> str:
    """The end of a log."""
    if not path.exists():
        return "(absent)"
    return path.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace") or "(empty)"


def holders_of(inode: int) -> list[psutil.Process]:
    """Processes that have this pipe open, beside this process: the output ends when the last of them closes it."""
    found = list[psutil.Process]()
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            descriptors = list(Path(f"/proc/{process.pid}/fd").iterdir())
            if process.pid != os.getpid() and any(_inode(each) == inode for each in descriptors):
                found.append(process)
    return found


def _inode(descriptor: Path) -> int | None:
    try:
        return descriptor.stat().st_ino
    except OSError:
        return None


def describe_processes(processes: list[psutil.Process]) -> str:
    """One line for each process: its state, the wait of its kernel side, and its command."""
    return "\n".join(_described(process) for process in processes) or "(none)"


def _described(process: psutil.Process) -> str:
    try:
        waits_for = Path(f"/proc/{process.pid}/wchan").read_text(encoding="utf-8")
        with process.oneshot():
            line = " ".join(process.cmdline())[-160:]
            return f"{process.pid} of {process.ppid()} {process.status()} in {waits_for or '-'}: {line}"
    except (OSError, psutil.Error) as error:
        return f"{process.pid} {type(error).__name__}"
