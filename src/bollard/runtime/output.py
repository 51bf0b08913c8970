"""What a plugin prints: each line becomes a log record of the run that printed it. Never the channel."""

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
from bollard.runtime.sendable import sendable_text

__all__ = ["CURRENT_RUN", "LineSink", "StreamName", "captured_output", "end_lines"]

CURRENT_RUN: Final[ContextVar[str | None]] = ContextVar("CURRENT_RUN", default=None)
"""The run whose code is executing, where that is known."""

StreamName = Literal["stdout", "stderr"]
LineSink = Callable[[StreamName, str, int, str | None], None]
"""Takes a line: its stream, its text, how many characters were cut from it, its run."""


class _Outflow:
    """Takes lines of every thread to a sink on the loop's thread. A thread that is too quick loses lines, counted."""

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.RLock()  # a finalizer may print while its own thread is printing
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
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
    """The line that a run has begun and not ended."""

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
    """A text stream whose lines go to a sink. Libraries may ask it for bytes, or for the descriptor it stands for."""

    def __init__(self, name: StreamName, descriptor: int, outflow: _Outflow) -> None:
        self._name: StreamName = name
        self._descriptor = descriptor
        self._outflow = outflow
        self._lock = threading.RLock()
        self._open: dict[str | None, _OpenLine] = {}
        self.name = f"<{name}>"
        self.buffer = _BytesFace(self)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "replace"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """The real pipe, for whoever hands this stream to a child process."""
        return self._descriptor

    def reconfigure(self, **_: object) -> None:
        """Nothing to configure: lines leave as they end."""

    def close(self) -> None:
        """Stays open: it belongs to the process, not to the plugin."""

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._take(lambda _: text)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        self._take(lambda line: line.decoder.decode(data))

    def end(self, run_id: str | None) -> None:
        """The run is over: its last line may have no end."""
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
        text = sendable_text(line.text)
        self._outflow.send(self._name, text, line.cut, run_id)


class _BytesFace(io.RawIOBase):
    """`sys.stdout.buffer`: bytes are read as UTF-8 and join the lines of the text stream."""

    def __init__(self, stream: _LineStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        """Stays open, like its stream."""

    def write(self, data: object, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        whole = bytes(memoryview(data))  # pyright: ignore[reportArgumentType] -- a TypeError is what a caller expects
        self._stream.write_bytes(whole)
        return len(whole)


@contextlib.contextmanager
def captured_output(sink: LineSink) -> Generator[None]:
    """Send what Python code prints to `sink`. Output of native code and children still reaches the real pipes."""
    outflow = _Outflow(sink)
    before = sys.stdout, sys.stderr
    sys.stdout = _LineStream("stdout", 1, outflow)
    sys.stderr = _LineStream("stderr", 2, outflow)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def end_lines(run_id: str) -> None:
    """The run is over: send what it printed without an end of line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _LineStream):
            stream.end(run_id)
