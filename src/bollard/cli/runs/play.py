"""Feeds a session with lines: from `--message`, or from stdin."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from bollard.cli.errors import EXIT_INTERRUPTED
from bollard.cli.language import Text
from bollard.cli.shell import Shell
from bollard.cli.terminal.prompt import PipedLines, ScriptedLines
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
    """One run for each message, or else for each line of stdin. Returns 1 if a run did not complete."""
    lines: LineSource = PipedLines(sys.stdin) if messages is None else ScriptedLines(messages)
    worst = 0
    while (line := await lines()) is not None:
        interrupts = _Interrupts(session, renderer, shell.text)
        renderer.started()
        try:
            end = await _run(session, line or None, event_type, interrupts)
        finally:
            renderer.idle()
        if end is None or interrupts.cancelled:
            return EXIT_INTERRUPTED
        worst = worst if end.status == "completed" else 1
    return worst
