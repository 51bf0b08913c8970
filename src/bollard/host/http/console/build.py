"""The build of the console beside the host, as the file of its progress shows it. `scripts/console` writes the file."""

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from bollard.host.limits import CONSOLE_PROGRESS_BYTES

PROGRESS: Final = "console-build.json"
"""Beside the folder of the built files."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of a host without a console shows."""

    state: Literal["missing", "running", "failed"] = "missing"
    step: str = ""
    pid: int = 0
    """The process of the build."""
    lines: tuple[str, ...] = ()
    """The last lines of its output."""


class ConsoleBuild:
    """Reads the progress of the build."""

    def __init__(self, files: Path) -> None:
        self._path = files.with_name(PROGRESS)

    def progress(self) -> Progress:
        """The progress. An unreadable file counts as no build, and a build whose process is gone as failed."""
        try:
            with self._path.open("rb") as file:
                progress = msgspec.json.decode(file.read(CONSOLE_PROGRESS_BYTES), type=Progress)
        except (OSError, msgspec.MsgspecError):
            return Progress()
        if progress.state == "running" and not _is_alive(progress.pid):
            return msgspec.structs.replace(progress, state="failed")
        return progress


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return pid > 0
