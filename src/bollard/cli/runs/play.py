"""Feeds a session with lines: from `--message`, from stdin, or from a person at a terminal."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from bollard.cli.errors import EXIT_INTERRUPTED
from bollard.cli.language import Text
from bollard.cli.shell import Shell
from bollard.cli.terminal.prompt import PipedLines, Prompt, PromptInterrupted, ScriptedLines
from bollard.cli.terminal.renderers import Renderer

MESSAGE: Final = "message.received"

LineSource = Callable[[], Awaitable[str | None]]
"""The next line, without its end; `None` when there are no more."""


class RunOver(Protocol):
    """The end of a run, as the source of lines needs it."""

    @property
    def status(self) -> str: ...

    @property
    def dropped(self) -> Sequence[str]:
        """Lines that were sent into the run and that it did not read."""
        ...


class ScriptTarget(Protocol):
    """A session that takes lines: on a worker, or as a chat with a host."""

    async def run(self, text: str | None, event_type: str) -> RunOver: ...

    def cancel(self) -> bool:
        """Cancel the active run. False if there is none, or it is being cancelled already."""
        ...

    def steer(self, text: str, on_sent: Callable[[bool], None]) -> None:
        """Send a line into the active run. `on_sent` is called with whether the run took it, before `run` returns."""
        ...


class _Interrupts:
    """Ctrl-C during a run: the first cancels the run, the second leaves."""

    def __init__(self, session: ScriptTarget, renderer: Renderer, text: Text) -> None:
        self._session = session
        self._renderer = renderer
        self._text = text
        self.cancelled = False
        self.leave = asyncio.Event()

    def __call__(self) -> None:
        if self._session.cancel():
            self.cancelled = True
            self._renderer.note(self._text("run.cancelling"))
        else:
            self.leave.set()


@contextmanager
def _sigint(handler: Callable[[], None]) -> Generator[None]:
    """Call `handler` for Ctrl-C in the block."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, handler)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)


async def _run(session: ScriptTarget, text: str | None, event_type: str, interrupts: _Interrupts) -> RunOver | None:
    """The end of the run; `None` if the person left during it."""
    run = asyncio.create_task(session.run(text, event_type))
    leave = asyncio.create_task(interrupts.leave.wait())
    with _sigint(interrupts):
        await asyncio.wait({run, leave}, return_when=asyncio.FIRST_COMPLETED)
    leave.cancel()
    if run.done():
        return await run
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return None


async def play(
    session: ScriptTarget, renderer: Renderer, shell: Shell, messages: Sequence[str] | None, event_type: str = MESSAGE
) -> int:
    """Feed a session from the messages, or else from a person at the terminal, or else from the lines of stdin."""
    text = shell.text
    if messages is not None:
        return await _play_all(session, renderer, text, ScriptedLines(messages), event_type)
    if shell.has_person:
        return await _converse(session, renderer, text, Prompt(text))
    return await _play_all(session, renderer, text, PipedLines(sys.stdin), event_type)


async def _play_all(session: ScriptTarget, renderer: Renderer, text: Text, lines: LineSource, event_type: str) -> int:
    """One run per line, in order. Returns 1 if a run did not complete."""
    worst = 0
    while (line := await lines()) is not None:
        interrupts = _Interrupts(session, renderer, text)
        end = await _run(session, line or None, event_type, interrupts)
        if end is None or interrupts.cancelled:
            return EXIT_INTERRUPTED
        worst = worst if end.status == "completed" else 1
    return worst


async def _converse(session: ScriptTarget, renderer: Renderer, text: Text, ask: LineSource) -> int:
    """Alternate prompts and runs. A line typed during a run steers it, or is the next message."""
    waiting: deque[str] = deque()
    typed = _TypedLines()

    def during(line: str) -> None:
        def on_sent(taken: bool) -> None:
            if not taken:
                waiting.append(line)
            renderer.note(text("run.steered" if taken else "run.queued"))

        session.steer(line, on_sent)

    while True:
        message: str | None
        if waiting:
            message = waiting.popleft()
            renderer.note(text("run.next", message=message))
        else:
            try:
                message = None if typed.closed else await ask()
            except PromptInterrupted:
                return EXIT_INTERRUPTED
        if message is None:
            return 0
        interrupts = _Interrupts(session, renderer, text)
        with typed.reading(during, lambda: renderer.note(text("run.leaving"))):
            end = await _run(session, message, MESSAGE, interrupts)
        if end is None:
            return EXIT_INTERRUPTED
        if not interrupts.cancelled:  # no message is lost: unread lines are the next messages
            waiting.extendleft(reversed(end.dropped))
        elif end.dropped or waiting:
            renderer.note(text("run.dropped", count=len(end.dropped) + len(waiting)))
            waiting.clear()


class _TypedLines:
    """Lines typed during a run, read from the terminal without the prompt's line editor."""

    def __init__(self) -> None:
        self.closed = False
        self._rest = b""

    @contextmanager
    def reading(self, take: Callable[[str], None], leave: Callable[[], None]) -> Generator[None]:
        """Call `take` with every complete line, and `leave` at the end of the input."""
        loop = asyncio.get_running_loop()
        descriptor = sys.stdin.fileno()

        def readable() -> None:
            data = os.read(descriptor, 4096)
            if not data:  # Ctrl-D: leave when the run has ended
                self.closed = True
                loop.remove_reader(descriptor)
                leave()
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                if line.strip():
                    take(line.decode("utf-8", "replace").strip())

        loop.add_reader(descriptor, readable)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)
