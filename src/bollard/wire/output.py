"""What a process prints, as lines: its pipes are read to their end, but no faster than its gate lets them."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import IO, Literal

from bollard.wire.limits import OUTPUT_LAST_LINES, OUTPUT_LINE_BYTES, OUTPUT_READ_BYTES
from bollard.wire.output_gate import OutputGate

__all__ = ["Lines", "OutputLine", "Pipe", "PipeName"]

PipeName = Literal["stdout", "stderr"]
OutputLine = Callable[[PipeName, str], None]


class Lines:
    """One pipe's bytes as lines of at most `OUTPUT_LINE_BYTES`: a longer one is cut, said to be cut, and skipped.

    Of lines beyond the gate's rate their number is told, and at the end of the output the newest of them.
    """

    def __init__(self, name: PipeName, output: OutputLine, gate: OutputGate, clock: Callable[[], float]) -> None:
        self._name: PipeName = name
        self._output = output
        self._gate = gate
        self._clock = clock
        self._line = bytearray()
        self._skipping = False
        self._unheard: deque[str] = deque(maxlen=OUTPUT_LAST_LINES)

    def feed(self, data: bytes) -> None:
        now = self._clock()
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end], now)
            start = end + 1
            if self._skipping:
                self._skipping = False  # what there is of it was told when it was cut
            elif not self._tell(now):
                start = self._skip(data, start)
        self._add(data[start:], now)

    def end(self) -> None:
        now = self._clock()
        if self._line:
            self._tell(now)
        if dropped := self._gate.dropped(now, last=True):
            self._say_dropped(dropped)
        for line in self._unheard:
            self._output(self._name, line)
        self._unheard.clear()

    def _skip(self, data: bytes, start: int) -> int:
        """Past the whole lines that came with one which was not told: they are counted, not looked at one by one."""
        last = data.rfind(b"\n", start)
        if last < 0:
            return start
        self._gate.drop(data.count(b"\n", start, last + 1))
        for line in data[start:last].rsplit(b"\n", OUTPUT_LAST_LINES)[-OUTPUT_LAST_LINES:]:
            self._unheard.append(_text(line[:OUTPUT_LINE_BYTES], cut=len(line) > OUTPUT_LINE_BYTES))
        return last + 1

    def _add(self, piece: bytes, now: float) -> None:
        if self._skipping:
            return
        room = OUTPUT_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._skipping = True
            self._tell(now)

    def _tell(self, now: float) -> bool:
        """Tell the line that has ended or is cut; false when it is dropped."""
        line = _text(self._line, cut=self._skipping)
        self._line.clear()
        if not self._gate.admit(now):
            self._unheard.append(line)
            return False
        if dropped := self._gate.dropped(now):
            self._say_dropped(dropped)
        self._unheard.clear()  # what came after them is heard
        self._output(self._name, line)
        return True

    def _say_dropped(self, lines: int) -> None:
        self._output(self._name, f"[{lines} lines were dropped: the plugin prints too fast]")


def _text(line: bytes | bytearray, *, cut: bool) -> str:
    return line.decode("utf-8", "replace") + (" […cut]" if cut else "")


class Pipe:
    """One pipe, read to its end."""

    def __init__(self, file: IO[bytes], lines: Lines, gate: OutputGate) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._lines = lines
        self._gate = gate
        self._pause: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(file.fileno(), False)
        self._go_on()

    def _go_on(self) -> None:
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
            self._pause = self._loop.call_later(wait_s, self._go_on)

    def _read(self) -> bytes | None:
        try:
            return os.read(self._file.fileno(), OUTPUT_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a pipe that broke has ended too

    def close(self) -> None:
        """Read no more."""
        if self.closed.done():
            return
        if self._pause is not None:
            self._pause.cancel()
            self._lines.feed(self._read() or b"")  # the last words of a process that has ended are in the pipe
        self._loop.remove_reader(self._file.fileno())
        self._file.close()
        self._lines.end()
        self.closed.set_result(None)
