"""Detects a blocked event loop: writes its stack to stderr at once, and reports it when the loop runs again."""

import asyncio
import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from bollard.runtime.limits import REPORT_FRAMES, WATCHDOG_REPORT_S, WATCHDOG_TICK_S


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReport:
    """The loop was blocked for `seconds`; `stack` is its stack at that time."""

    seconds: float
    stack: str


class Watchdog:
    """A thread that watches the loop. A blocked loop has its stack on stderr; `report` is called afterwards."""

    def __init__(self, report: Callable[[BlockReport], None], *, stderr_fd: int = 2) -> None:
        self._report = report
        self._stderr_fd = stderr_fd
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._ticked_at = time.monotonic()
        self._blocked_stack: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bollard-watchdog", daemon=True)

    def start(self) -> None:
        self._tick()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _tick(self) -> None:
        now = time.monotonic()
        stack, self._blocked_stack = self._blocked_stack, None
        if stack is not None or now - self._ticked_at >= WATCHDOG_REPORT_S:
            # Code that holds the interpreter lock also stops this thread, so there may be no stack.
            self._report(BlockReport(seconds=now - self._ticked_at, stack=stack or "(unknown)"))
        self._ticked_at = now
        if not self._stop.is_set():
            self._loop.call_later(WATCHDOG_TICK_S, self._tick)

    def _watch(self) -> None:
        while not self._stop.wait(WATCHDOG_TICK_S):
            blocked_s = time.monotonic() - self._ticked_at
            if blocked_s < WATCHDOG_REPORT_S or self._blocked_stack is not None:
                continue
            frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage] -- no public way
            stack = "".join(traceback.format_stack(frame)[-REPORT_FRAMES:]) if frame is not None else ""
            self._blocked_stack = stack
            text = f"bollard: the worker's loop has been blocked for {blocked_s:.1f} s by:\n{stack}"
            with contextlib.suppress(OSError):  # stderr is closed; the report follows
                os.write(self._stderr_fd, text.encode("utf-8", "replace"))
