"""The output of a worker process as lines: reads its pipes to the end, within a rate limit."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import IO, Literal

from bollard.wire.limits import (
    OUTPUT_BURST_BYTES,
    OUTPUT_BURST_LINES,
    OUTPUT_BYTES_PER_S,
    OUTPUT_DROPPED_S,
    OUTPUT_LAST_LINES,
    OUTPUT_LINE_BYTES,
    OUTPUT_LINES_PER_S,
    OUTPUT_READ_BYTES,
)


class OutputLimiter:
    """Token buckets for the lines and bytes that a worker prints, over both of its pipes. Pure.

    Output of native code and children bypasses the worker's own log limit. Lines beyond their rate are dropped and
    counted. Beyond the byte rate reading pauses, so that the writer blocks and not the host.
    """

    def __init__(
        self,
        now: float,
        *,
        bytes_per_s: float = OUTPUT_BYTES_PER_S,
        burst_bytes: int = OUTPUT_BURST_BYTES,
        lines_per_s: float = OUTPUT_LINES_PER_S,
        burst_lines: int = OUTPUT_BURST_LINES,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._burst_bytes = burst_bytes
        self._lines_per_s = lines_per_s
        self._burst_lines = burst_lines
        self._bytes = float(burst_bytes)
        self._lines = float(burst_lines)
        self._at = now
        self._dropped = 0
        self._noticed_at: float | None = None

    def read(self, size: int, now: float) -> float:
        """Count bytes that were read, and return the seconds to pause before the next read."""
        self._refill(now)
        self._bytes -= size
        return max(0.0, -self._bytes / self._bytes_per_s)

    def admit(self, now: float) -> bool:
        """Return whether one more line may be reported. A refused line is counted as dropped."""
        self._refill(now)
        if self._lines < 1:
            self._dropped += 1
            return False
        self._lines -= 1
        return True

    def drop(self, lines: int) -> None:
        """Count further dropped lines."""
        self._dropped += lines

    def dropped(self, now: float, *, last: bool = False) -> int:
        """Return the lines dropped since the last notice, or 0 if the next notice is not due."""
        if not self._dropped or (
            not last and self._noticed_at is not None and now - self._noticed_at < OUTPUT_DROPPED_S
        ):
            return 0
        found, self._dropped, self._noticed_at = self._dropped, 0, now
        return found

    def _refill(self, now: float) -> None:
        seconds, self._at = now - self._at, now
        self._bytes = min(self._burst_bytes, self._bytes + seconds * self._bytes_per_s)
        self._lines = min(self._burst_lines, self._lines + seconds * self._lines_per_s)


PipeName = Literal["stdout", "stderr"]
LineCallback = Callable[[PipeName, str], None]


class LineSplitter:
    """Splits the bytes of one pipe into lines of at most `OUTPUT_LINE_BYTES`; a longer line is truncated and marked.

    Lines beyond the limiter's rate are reported as a number, and the newest of them when the output ends.
    """

    def __init__(self, name: PipeName, output: LineCallback, gate: OutputLimiter, clock: Callable[[], float]) -> None:
        self._name: PipeName = name
        self._output = output
        self._gate = gate
        self._clock = clock
        self._line = bytearray()
        self._skipping = False
        self._newest_dropped: deque[str] = deque(maxlen=OUTPUT_LAST_LINES)

    def feed(self, data: bytes) -> None:
        now = self._clock()
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end], now)
            start = end + 1
            if self._skipping:
                self._skipping = False  # its start was reported when it was truncated
            elif not self._report(now):
                start = self._skip(data, start)
        self._add(data[start:], now)

    def end(self) -> None:
        now = self._clock()
        if self._line:
            self._report(now)
        if dropped := self._gate.dropped(now, last=True):
            self._report_dropped(dropped)
        for line in self._newest_dropped:
            self._output(self._name, line)
        self._newest_dropped.clear()

    def _skip(self, data: bytes, start: int) -> int:
        """Skip the complete lines after a dropped one, counting them without checking each one."""
        last = data.rfind(b"\n", start)
        if last < 0:
            return start
        self._gate.drop(data.count(b"\n", start, last + 1))
        for line in data[start:last].rsplit(b"\n", OUTPUT_LAST_LINES)[-OUTPUT_LAST_LINES:]:
            self._newest_dropped.append(_decode_line(line[:OUTPUT_LINE_BYTES], cut=len(line) > OUTPUT_LINE_BYTES))
        return last + 1

    def _add(self, piece: bytes, now: float) -> None:
        if self._skipping:
            return
        room = OUTPUT_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._skipping = True
            self._report(now)

    def _report(self, now: float) -> bool:
        """Report the line that has ended or was truncated. Returns False if it is dropped."""
        line = _decode_line(self._line, cut=self._skipping)
        self._line.clear()
        if not self._gate.admit(now):
            self._newest_dropped.append(line)
            return False
        if dropped := self._gate.dropped(now):
            self._report_dropped(dropped)
        self._newest_dropped.clear()  # a newer line was reported
        self._output(self._name, line)
        return True

    def _report_dropped(self, lines: int) -> None:
        self._output(self._name, f"[{lines} lines were dropped: the plugin prints too fast]")


def _decode_line(line: bytes | bytearray, *, cut: bool) -> str:
    return line.decode("utf-8", "replace") + (" […cut]" if cut else "")


class PipeReader:
    """Reads one pipe to its end."""

    def __init__(self, file: IO[bytes], lines: LineSplitter, gate: OutputLimiter) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._lines = lines
        self._gate = gate
        self._pause: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(file.fileno(), False)
        self._resume()

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._file.fileno(), self._readable)

    def _readable(self) -> None:
        data = self._read()
        if data is None:
            return
        if not data:
            self.close()
            return
        self._lines.feed(data)
        if wait_s := self._gate.read(len(data), self._loop.time()):
            self._loop.remove_reader(self._file.fileno())
            self._pause = self._loop.call_later(wait_s, self._resume)

    def _read(self) -> bytes | None:
        try:
            return os.read(self._file.fileno(), OUTPUT_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a broken pipe has ended

    def close(self) -> None:
        """Stop reading and report what is left."""
        if self.closed.done():
            return
        if self._pause is not None:
            self._pause.cancel()
            self._lines.feed(self._read() or b"")  # the last output of an exited process is still in the pipe
        self._loop.remove_reader(self._file.fileno())
        self._file.close()
        self._lines.end()
        self.closed.set_result(None)
