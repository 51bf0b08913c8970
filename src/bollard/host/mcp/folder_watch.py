"""Watches the size of the folder of an MCP server while the server runs. The folder is on the host's disk, and a server
writes to it without asking."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bollard.host.limits import MIB, PROGRAM_DISK_FREE_BYTES
from bollard.host.mcp.limits import FOLDER_BYTES, FOLDER_FILES, FOLDER_WATCH_S, FOLDER_WATCH_SHARE
from bollard.host.mcp.missing_permission import MissingPermission
from bollard.host.reason import why

_MOST: Final = FOLDER_BYTES // MIB
_PROBLEM: Final = f"its folder is full: more than {_MOST} MiB or {FOLDER_FILES} files, or the disk has no room"
_HINT: Final = "remove files of the server below `mcp` of the data directory, and connect it again"
FOLDER_FULL: Final = MissingPermission(why(_PROBLEM, "mcp.folder_full", mib=_MOST, files=FOLDER_FILES), _HINT)
"""Why a server is not started."""
FOLDER_FILLED: Final = MissingPermission(why(_PROBLEM, "mcp.folder_filled", mib=_MOST, files=FOLDER_FILES), _HINT)
"""Why a running server was ended."""


class FolderWatch:
    """Ends a server whose folder is full. Remembers that for its problem."""

    def __init__(self, folder: Path, kill: Callable[[], None]) -> None:
        self.is_full = False
        self._folder = folder
        self._kill = kill
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self) -> None:
        while True:
            started = time.monotonic()
            if await asyncio.to_thread(is_full, self._folder):
                self.is_full = True
                self._kill()
                return
            took = time.monotonic() - started
            await asyncio.sleep(max(FOLDER_WATCH_S, took / FOLDER_WATCH_SHARE))


def is_full(folder: Path) -> bool:
    """Whether a folder has more than a server may have, or its disk has no room for more. Blocks."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < PROGRAM_DISK_FREE_BYTES:
        return True
    files, size, waiting = 0, 0, [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:  # it may have gone
            for entry in entries:
                files += 1
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                if files > FOLDER_FILES or size > FOLDER_BYTES:
                    return True
    return False
