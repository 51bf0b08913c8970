"""A person and a session: lines that are typed at any time, and one run after the other."""

import asyncio
import os
import signal
from collections import deque
from typing import Protocol

from bollard.cli.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, CliError
from bollard.cli.language import Text
from bollard.cli.runs.play import MESSAGE, RunOver, ScriptTarget
from bollard.cli.shell import Shell
from bollard.cli.terminal.history_file import HistoryFile, history_path
from bollard.cli.terminal.plain_screen import PlainScreen
from bollard.cli.terminal.renderers import Renderer, note_problem
from bollard.cli.terminal.screen import Screen
from bollard.cli.terminal.styles import is_dumb


class Commands(Protocol):
    """Lines that are orders to the chat itself."""

    def takes(self, line: str) -> bool: ...

    async def run(self, line: str, dialogue: "Dialogue") -> None: ...


def screen_for(shell: Shell) -> Screen | None:
    """A screen, if a person reads stdout and can answer."""
    if not shell.has_person:
        return None
    if is_dumb():
        return PlainScreen()
    from bollard.cli.terminal.live_screen import LiveScreen  # takes longer to load than any other part

    return LiveScreen(HistoryFile(history_path(os.environ)), shell.text)


class Dialogue:
    """Alternates lines and runs. A line typed during a run steers it, answers its question, or is the next message."""

    def __init__(
        self, session: ScriptTarget, renderer: Renderer, text: Text, screen: Screen, commands: Commands | None = None
    ) -> None:
        self._session = session
        self._renderer = renderer
        self._text = text
        self._screen = screen
        self._commands = commands
        self._inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self._waiting: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._leave = asyncio.Event()
        self._ending = False
        self._warned = False
        self._cancelled = False
        self._code = 0
        self.is_running = False

    async def run(self) -> int:
        """The exit code, when the person has left or the process is terminated. The screen gives the terminal back in
        both cases."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._exit, EXIT_TERMINATED)
        try:
            async with self._screen.opened(self):
                while (message := await self._next()) is not None:
                    await self._answer(message)
                await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
        return self._code

    # --- what the person does ---

    def line(self, text: str) -> None:
        self._warned = False
        if self._commands is not None and self._commands.takes(text):
            task = asyncio.create_task(self._commands.run(text, self))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self.is_running:
            self._during(text.strip())
        else:
            self._inbox.put_nowait(text.strip())

    def interrupt(self) -> None:
        """Stop the run. Without one, empty the input line; at an empty one the second time leaves."""
        if self.is_running:
            if not self.stop():
                self._exit(EXIT_INTERRUPTED)
        elif self._screen.clear_draft():
            self._warned = False
        elif self._warned:
            self._exit(EXIT_INTERRUPTED)
        else:
            self._warned = True
            self._renderer.note(self._text("run.leave"))

    def end(self) -> None:
        if self.is_running and not self._ending:
            self._ending = True
            self._renderer.note(self._text("run.leaving"))
        elif not self.is_running:
            self._exit(0)

    def stop(self) -> bool:
        """Cancel the active run. False if there is none, or it is being cancelled already."""
        if not self.is_running or not self._session.cancel():
            return False
        self._cancelled = True
        self._renderer.note(self._text("run.cancelling"))
        return True

    def _exit(self, code: int) -> None:
        if self._leave.is_set():  # closing the screen ends its input once more
            return
        self._code = code
        self._ending = True
        self._leave.set()
        self._inbox.put_nowait(None)

    # --- runs ---

    async def _next(self) -> str | None:
        if self._leave.is_set():
            return None
        if self._waiting:
            message = self._waiting.popleft()
            self._renderer.note(self._text("run.next", message=message))
            return message
        if self._ending:
            return None
        self._screen.busy(False)
        return await self._inbox.get()

    async def _answer(self, message: str) -> None:
        self._screen.busy(True)
        self.is_running, self._cancelled = True, False
        self._renderer.started()
        try:
            end = await self._run(message)
        except CliError as error:
            note_problem(self._renderer, error, self._text)
            return
        finally:
            self.is_running = False
            self._renderer.idle()
        if end is None:
            return
        if not self._cancelled:  # no message is lost: unread lines are the next messages
            self._waiting.extendleft(reversed(end.dropped))
        elif end.dropped or self._waiting:
            self._renderer.note(self._text("run.dropped", count=len(end.dropped) + len(self._waiting)))
            self._waiting.clear()

    async def _run(self, message: str) -> RunOver | None:
        """The end of the run; `None` if the person left during it."""
        run = asyncio.create_task(self._session.run(message, MESSAGE))
        leave = asyncio.create_task(self._leave.wait())
        await asyncio.wait({run, leave}, return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        if run.done():
            return await run
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        return None

    def _during(self, line: str) -> None:
        def on_sent(taken: bool) -> None:
            if not taken:
                self._waiting.append(line)
            self._renderer.note(self._text("run.steered" if taken else "run.queued"))

        self._session.steer(line, on_sent)
