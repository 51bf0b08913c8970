"""The log of a host in files: one for each UTC day, bounded in size and number. Old files are deleted."""

import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bollard.cli.limits import LOG_FILE_BYTES, LOG_FILES, LOG_LINE_BYTES
from bollard.host.errors import SettingsError, caused_by

_NAME: Final = re.compile(r"bollard-(\d{4}-\d\d-\d\d)(?:\.(\d{1,9}))?\.log")


def _bounded(line: bytes, limit: int) -> bytes:
    """The line within the limit, with the number of bytes that were left out."""
    if len(line) <= limit:
        return line
    kept = line[:limit].decode("utf-8", "ignore").encode()  # no half of a character
    return kept + f"… [{len(line) - len(kept)} bytes left out]".encode()


class LogFiles:
    """Appends lines to the file of the day. A full file is followed by a further part of its day. One host writes into
    a folder. A failure to write does not stop the host."""

    def __init__(
        self,
        folder: Path,
        report: Callable[[OSError], object],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        file_bytes: int = LOG_FILE_BYTES,
        line_bytes: int = LOG_LINE_BYTES,
        files: int = LOG_FILES,
    ) -> None:
        """`report` is called with the problem when a line is lost, once until lines are written again. Raises
        `SettingsError` if the folder cannot be used."""
        self._folder = folder
        self._report = report
        self._now = now
        self._file_bytes = file_bytes
        self._line_bytes = line_bytes
        self._files = files
        self._lock = threading.Lock()
        self._day = ""
        self._file = -1
        self._size = 0
        self._broken = False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open(self._today())
        except OSError as error:
            raise SettingsError(
                f"log_dir {str(folder)!r} cannot be written: {error.strerror or error}",
                reason="log_dir_unwritable",
                hint="choose a folder that the host may create and write, or leave log_dir empty",
                field="log_dir",
                value=str(folder),
                **caused_by(error),
            ) from error

    def write(self, line: str) -> None:
        """Append one line. A line that is too long is truncated and marked."""
        data = _bounded(line.encode("utf-8", "replace"), self._line_bytes) + b"\n"
        with self._lock:
            try:
                self._append(data)
                self._broken = False
            except OSError as error:
                if not self._broken:
                    self._broken = True
                    self._report(error)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _append(self, data: bytes) -> None:
        day = self._today()
        if day != self._day or self._file < 0:
            self._open(day)
        if self._size and self._size + len(data) > self._file_bytes:
            self._open(day, further=True)
        os.write(self._file, data)
        self._size += len(data)

    def _open(self, day: str, *, further: bool = False) -> None:
        """Open the newest part of a day, or a further one, and delete the oldest files."""
        self._close()
        part = max((part for found, part, _ in self._found() if found == day), default=0) + further
        path = self._path(day, part)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size, self._day = os.fstat(self._file).st_size, day
        for _, _, old in sorted(self._found())[: -self._files]:
            old.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _found(self) -> list[tuple[str, int, Path]]:
        """The log files with their day and part."""
        named = ((path, _NAME.fullmatch(path.name)) for path in self._folder.iterdir())
        return [(name[1], int(name[2] or 0), path) for path, name in named if name is not None]

    def _path(self, day: str, part: int) -> Path:
        return self._folder / (f"bollard-{day}.{part}.log" if part else f"bollard-{day}.log")

    def _today(self) -> str:
        return self._now().strftime("%Y-%m-%d")
