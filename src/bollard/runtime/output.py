"""What a plugin prints: each line becomes a log record of the run that printed it. Never the channel."""

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Final, Literal

from bollard.runtime.limits import OUTPUT_LINE_CHARACTERS

__all__ = ["CURRENT_RUN", "captured_output"]

CURRENT_RUN: Final[ContextVar[str | None]] = ContextVar("CURRENT_RUN", default=None)
"""The run whose code is executing, where that is known."""

LineSink = Callable[[Literal["stdout", "stderr"], str, str | None], None]


class _LineStream(io.TextIOBase):
    """A text stream whose lines go to a sink on the loop's thread."""

    def __init__(self, name: Literal["stdout", "stderr"], sink: LineSink, loop: asyncio.AbstractEventLoop) -> None:
        self._name: Literal["stdout", "stderr"] = name
        self._sink = sink
        self._loop = loop
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._partial: dict[str | None, str] = {}

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        run_id = CURRENT_RUN.get()
        with self._lock:
            *lines, rest = (self._partial.pop(run_id, "") + text).split("\n")
            if len(rest) > OUTPUT_LINE_CHARACTERS:
                lines.append(rest)
                rest = ""
            if rest:
                self._partial[run_id] = rest
        for line in lines:
            self._emit(line, run_id)
        return len(text)

    def _emit(self, line: str, run_id: str | None) -> None:
        line = line[:OUTPUT_LINE_CHARACTERS].encode("utf-8", "replace").decode()
        if threading.get_ident() == self._thread:
            self._sink(self._name, line, run_id)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._sink, self._name, line, run_id)


@contextlib.contextmanager
def captured_output(sink: LineSink) -> Generator[None]:
    """Send what Python code prints to `sink`. Output of native code and children still reaches the real pipes."""
    loop = asyncio.get_running_loop()
    before = sys.stdout, sys.stderr
    sys.stdout = _LineStream("stdout", sink, loop)
    sys.stderr = _LineStream("stderr", sink, loop)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
