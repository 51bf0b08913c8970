"""What the workers of one plugin in one workspace said lately: bounded lines that can be read and followed.

Nothing here is on disk. What a terminal would obey is taken out, and so are the values of the variables that the
plugin was given: a plugin that prints its key does not show it to everybody who may read its log.
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
from bollard.protocol import JsonObject


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said."""

    number: int
    """Counts on from 1, also over lines that are gone."""
    at_ms: int
    kind: LineKind
    level: str
    text: str
    pid: int | None = None
    run_id: str | None = None
    fields: JsonObject | None = None

    def to_wire(self) -> JsonObject:
        line: JsonObject = {
            "number": self.number,
            "at_ms": self.at_ms,
            "kind": self.kind,
            "level": self.level,
            "text": self.text,
        }
        more: JsonObject = {"pid": self.pid, "run_id": self.run_id, "fields": self.fields}
        return line | {name: value for name, value in more.items() if value is not None}


class PluginLog:
    """Implements `WorkerLog`. Outlives the workers, and the versions of the plugin."""

    def __init__(self, clock: Clock, secrets: Scrubber | None = None) -> None:
        """`secrets` are those of the workspace."""
        self._clock = clock
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._number = 0
        self._mask = Mask(secrets)
        self._readers = 0
        self.closed = False
        self.came = asyncio.Event()
        """Set when the next line is there."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Values that must not be shown."""
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
            fields=None if fields is None else {self.shown(name): self._plain(fields[name]) for name in fields},
        )
        self._lines.append(line)
        self._size += _size(line)
        while len(self._lines) > PLUGIN_LOG_LINES or (self._size > PLUGIN_LOG_BYTES and len(self._lines) > 1):
            self._size -= _size(self._lines.popleft())
        came, self.came = self.came, asyncio.Event()
        came.set()

    def after(self, number: int, limit: int) -> list[LogLine]:
        """The oldest lines behind a number."""
        first = self._lines[0].number if self._lines else 0
        skipped = max(0, number - first + 1) if self._lines else 0
        return [self._lines[at] for at in range(skipped, min(len(self._lines), skipped + limit))]

    def last(self, limit: int) -> list[LogLine]:
        """The newest lines, oldest first."""
        return self.after(self._number - limit, limit) if limit else []

    def check_room(self) -> None:
        """Raises `Overloaded` when too many follow already."""
        if self._readers >= PLUGIN_LOG_READERS:
            raise Overloaded("too many readers follow this log", hint="close another one", limit=PLUGIN_LOG_READERS)

    @contextlib.contextmanager
    def reading(self) -> Generator[None]:
        """Be one of those who follow."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def close(self) -> None:
        """Nothing more will come: who follows may go."""
        self.closed = True
        self.came.set()

    def shown(self, text: str) -> str:
        """A text without what must not be shown."""
        return self._mask.text(text)

    def _plain(self, value: object) -> str:
        """A field as text: it is for reading."""
        return self.shown(value if isinstance(value, str) else repr(value))


def _size(line: LogLine) -> int:
    return len(line.text) + sum(len(name) + len(str(value)) for name, value in (line.fields or {}).items())
