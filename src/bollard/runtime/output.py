"""Captures the output of a plugin: each line becomes a log record of the run that printed it."""

import asyncio
import codecs
import contextlib
import io
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Final, Literal

from bollard.runtime.limits import OPEN_LINES, OUTPUT_LINE_CHARACTERS, OUTPUT_LINES_WAITING
from bollard.runtime.problems import make_sendable

CURRENT_RUN: Final[ContextVar[str | None]] = ContextVar("CURRENT_RUN", default=None)
"""The run whose code is executing, if known."""

StreamName = Literal["stdout", "stderr"]
LineSink = Callable[[StreamName, str, int, str | None], None]
"""Receives a line: its stream, its text, the number of truncated characters, and its run."""


class _LineQueue:
    """Passes lines of all threads to a sink on the loop's thread. Lines beyond the limit are dropped and counted."""

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.RLock()  # re-entrant: a finalizer may print while its thread is printing
        self._waiting: deque[tuple[StreamName, str, int, str | None]] = deque()
        self._dropped = 0

    def send(self, name: StreamName, line: str, cut: int, run_id: str | None) -> None:
        if threading.get_ident() == self._thread:
            self._sink(name, line, cut, run_id)
            return
        with self._lock:
            if len(self._waiting) >= OUTPUT_LINES_WAITING:
                self._dropped += 1
                return
            self._waiting.append((name, line, cut, run_id))
            if len(self._waiting) > 1:
                return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._lock:
            lines, self._waiting = self._waiting, deque()
            dropped, self._dropped = self._dropped, 0
        for line in lines:
            self._sink(*line)
        if dropped:
            self._sink("stderr", f"{dropped} lines of a thread that prints too quickly were dropped", 0, None)


class _OpenLine:
    """The unfinished line of a run."""

    __slots__ = ("cut", "decoder", "text")

    def __init__(self) -> None:
        self.text = ""
        self.cut = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def extend(self, text: str) -> None:
        room = OUTPUT_LINE_CHARACTERS - len(self.text)
        self.text += text[:room]
        self.cut += max(0, len(text) - room)


class _LineStream(io.TextIOBase):
    """A text stream whose lines go to a sink. Libraries may use its `buffer` and its `fileno`."""

    def __init__(self, name: StreamName, descriptor: int, outflow: _LineQueue) -> None:
        self._name: StreamName = name
        self._descriptor = descriptor
        self._outflow = outflow
        self._lock = threading.RLock()
        self._open: dict[str | None, _OpenLine] = {}
        self.name = f"<{name}>"
        self.buffer = _ByteStream(self)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "replace"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the real pipe, for a child process that inherits the stream."""
        return self._descriptor

    def reconfigure(self, **_: object) -> None:
        """Do nothing: lines are always sent when they end."""

    def close(self) -> None:
        """Do nothing: the stream belongs to the process, not to the plugin."""

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._take(lambda _: text)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        self._take(lambda line: line.decoder.decode(data))

    def end(self, run_id: str | None) -> None:
        """Send the unfinished line of a run that has ended."""
        with self._lock:
            line = self._open.pop(run_id, None)
        if line is not None and (line.text or line.cut):
            self._send(line, run_id)

    def _take(self, read: Callable[[_OpenLine], str]) -> None:
        run_id = CURRENT_RUN.get()
        ended: list[_OpenLine] = []
        with self._lock:
            line = self._open.setdefault(run_id, _OpenLine())
            first, *others = read(line).split("\n")
            line.extend(first)
            for text in others:
                ended.append(line)
                decoder, line = line.decoder, _OpenLine()
                line.decoder = decoder
                line.extend(text)
            self._open[run_id] = line
            oldest = next(iter(self._open)) if len(self._open) > OPEN_LINES else run_id
        for done in ended:
            self._send(done, run_id)
        if oldest != run_id:
            self.end(oldest)

    def _send(self, line: _OpenLine, run_id: str | None) -> None:
        text = make_sendable(line.text)
        self._outflow.send(self._name, text, line.cut, run_id)


class _ByteStream(io.RawIOBase):
    """`sys.stdout.buffer`: decodes bytes as UTF-8 into the lines of the text stream."""

    def __init__(self, stream: _LineStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        """Do nothing, like its stream."""

    def write(self, data: object, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        whole = bytes(memoryview(data))  # pyright: ignore[reportArgumentType] -- a TypeError is what a caller expects
        self._stream.write_bytes(whole)
        return len(whole)


@contextlib.contextmanager
def capture_output(sink: LineSink) -> Generator[None]:
    """Send the output of Python code to `sink`. Output of native code and children still goes to the real pipes."""
    outflow = _LineQueue(sink)
    before = sys.stdout, sys.stderr
    sys.stdout = _LineStream("stdout", 1, outflow)
    sys.stderr = _LineStream("stderr", 2, outflow)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def end_lines(run_id: str) -> None:
    """Send the unfinished lines of a run that has ended."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _LineStream):
            stream.end(run_id)
