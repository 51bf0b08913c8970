"""The recent log lines of one plugin in one workspace, in memory and bounded. Readers can page and follow.

Terminal control sequences and secret values are shown: a plugin that prints its key does not leak it to readers.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator, Iterable

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.limits import PLUGIN_LOG_BYTES, PLUGIN_LOG_LINES, PLUGIN_LOG_READERS
from bollard.host.secrets.redactor import Scrubber
from bollard.host.workers.boundary import LineKind
from bollard.host.workers.worker_slot import Mask
from bollard.protocol import JsonObject, JsonValue


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a plugin's log."""

    number: int
    """Counts from 1, including lines that were dropped."""
    at_ms: int
    kind: LineKind
    level: str
    text: str
    pid: int | None = None
    run_id: str | None = None
    fields: JsonObject | None = None

    def to_wire(self) -> JsonObject:
        return msgspec.to_builtins(self)


class PluginLog:
    """Implements `WorkerLog`. Outlives the workers, and the versions of the plugin."""

    def __init__(self, clock: Clock, secrets: Scrubber | None = None) -> None:
        """`secrets` scrubs the secrets of the workspace."""
        self._clock = clock
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._number = 0
        self._mask = Mask(secrets)
        self._readers = 0
        self.closed = False
        self.came = asyncio.Event()
        """Set when the next line arrives."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these values from here on."""
        self._mask.hide(secrets)

    def say(
        self,
        kind: LineKind,
        text: str,
        *,
        level: str = "info",
        pid: int | None = None,
        run_id: str | None = None,
        fields: JsonObject | None = None,
    ) -> None:
        self._number += 1
        line = LogLine(
            number=self._number,
            at_ms=self._clock.now_ms(),
            kind=kind,
            level=level,
            text=self.shown(text),
            pid=pid,
            run_id=run_id,
            fields=None if fields is None else {self.shown(name): self._field(fields[name]) for name in fields},
        )
        self._lines.append(line)
        self._size += _size(line)
        while len(self._lines) > PLUGIN_LOG_LINES or (self._size > PLUGIN_LOG_BYTES and len(self._lines) > 1):
            self._size -= _size(self._lines.popleft())
        came, self.came = self.came, asyncio.Event()
        came.set()

    def after(self, number: int, limit: int) -> list[LogLine]:
        """The oldest `limit` lines after a number."""
        first = self._lines[0].number if self._lines else 0
        skipped = max(0, number - first + 1) if self._lines else 0
        return [self._lines[at] for at in range(skipped, min(len(self._lines), skipped + limit))]

    def last(self, limit: int) -> list[LogLine]:
        """The newest `limit` lines, oldest first."""
        return self.after(self._number - limit, limit) if limit else []

    def check_room(self) -> None:
        """Raises `Overloaded` at the limit of readers."""
        if self._readers >= PLUGIN_LOG_READERS:
            raise Overloaded(
                f"{PLUGIN_LOG_READERS} readers follow this log already",
                reason="plugin_log_readers",
                hint="close another reader",
                limit=PLUGIN_LOG_READERS,
            )

    @contextlib.contextmanager
    def reading(self) -> Generator[None]:
        """Count one reader that follows the log."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def close(self) -> None:
        """End the log: readers stop following."""
        self.closed = True
        self.came.set()

    def shown(self, text: str) -> str:
        """The text without secrets and control sequences."""
        return self._mask.text(text)

    def _field(self, value: JsonValue) -> JsonValue:
        return self._mask.value(value) if isinstance(value, str | dict | list) else self.shown(repr(value))


def _size(line: LogLine) -> int:
    return len(line.text) + sum(len(name) + len(str(value)) for name, value in (line.fields or {}).items())
