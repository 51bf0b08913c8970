"""The folders of runs. A folder is created at its first use and removed some time after its last use.

Files in it are accessed through `bollard.confine` only.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
import structlog

from bollard.confine.errors import OverLimit
from bollard.confine.folder import Folder, remove_tree
from bollard.confine.limits import FOLDER_BYTES, FOLDER_FILES
from bollard.confine.paths import is_plain_name
from bollard.host.errors import ToolFailed
from bollard.host.limits import MIB, WORKSPACE_KEPT_S

_log = structlog.get_logger("bollard.host.tools")


class RunFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one run."""

    whole: Path
    """The folder whose total size is limited. It contains the others."""
    files: Path
    temporary: Path


class Workspaces:
    """The folders of all runs of this host."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def root(self) -> Path:
        return self._root

    def open(self, run_id: str) -> RunFolders:
        """Create the run's folders if needed, and mark them as used. Blocks."""
        if not is_plain_name(run_id):
            raise ToolFailed("this run cannot have files", reason="run_id_unusable")
        whole = self._root / run_id
        folders = RunFolders(whole=whole, files=whole / "files", temporary=whole / "tmp")
        for folder in (self._root, whole, folders.files, folders.temporary):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(whole)
        return folders

    @contextlib.asynccontextmanager
    async def changing(self, run_id: str) -> AsyncGenerator[None]:
        """Serialise changes of a run's files, so that a read-modify-write loses nothing."""
        lock = self._locks.get(run_id)
        if lock is None:
            lock = self._locks[run_id] = asyncio.Lock()
        async with lock:
            yield

    def sweep(self, is_live: Callable[[str], bool], now_s: float | None = None) -> int:
        """Remove the long unused folders of ended runs; returns their number. Blocks."""
        removed, now_s = 0, time.time() if now_s is None else now_s
        with contextlib.suppress(FileNotFoundError):
            for folder in list(self._root.iterdir()):
                try:
                    if is_live(folder.name) or now_s - folder.stat().st_mtime < WORKSPACE_KEPT_S:
                        continue
                    remove_tree(folder)
                    removed += 1
                except OSError as error:
                    _log.warning("the folder of a run cannot be removed", run_id=folder.name, error=str(error))
        return removed


def check_room(folder: Folder, more_bytes: int = 0) -> None:
    """Raises `OverLimit` if the folder has no room for `more_bytes`."""
    used = folder.usage()
    if used.over or used.bytes + more_bytes > FOLDER_BYTES or used.files >= FOLDER_FILES:
        raise OverLimit(
            f"the folder of the run has no room: at most {FOLDER_BYTES // MIB} MiB and {FOLDER_FILES} files",
            hint="remove files that are no longer needed",
        )
