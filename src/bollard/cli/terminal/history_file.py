"""The messages that a person typed, in a file that only they may read. A file that cannot be used is ignored: the
history is a convenience."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HISTORY_ENTRIES: Final = 1000
"""Messages that the file keeps. It is cut when it has twice as many."""


def history_path(environment: Mapping[str, str]) -> Path:
    """The file in the state directory of the user."""
    state = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".local/state")
    return Path(state) / "bollard" / "chat_history"


class HistoryFile:
    """Messages as JSON strings, one for each line, oldest first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[str]:
        """The newest messages, oldest first."""
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        if len(lines) > 2 * HISTORY_ENTRIES:
            self._write(os.O_TRUNC, lines[-HISTORY_ENTRIES:])
        entries = (_entry(line) for line in lines[-HISTORY_ENTRIES:])
        return [entry for entry in entries if entry is not None]

    def add(self, message: str) -> None:
        self._write(os.O_APPEND, [json.dumps(message, ensure_ascii=False)])

    def _write(self, mode: int, lines: list[str]) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | mode
            with os.fdopen(os.open(self._path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError:
            return


def _entry(line: str) -> str | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
