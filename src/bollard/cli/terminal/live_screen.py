"""The input line below the output, drawn with prompt_toolkit. Only an interactive terminal imports this module.

Complete lines scroll away above. The unfinished line of the answer, or a sign of waiting, stands above the input line
and is redrawn in place, so typed characters and the answer never share a line.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output.vt100 import Vt100_Output

from bollard.cli.language import Text
from bollard.cli.terminal.columns import escaped, shorten_columns
from bollard.cli.terminal.history_file import HistoryFile
from bollard.cli.terminal.screen import MARK, Listener, typed_lines
from bollard.cli.terminal.styles import styles_for

_INPUT_ROWS: Final = 10
"""Rows of the input line; a longer message scrolls in it."""
_QUIET_S: Final = 1.0
"""Pause in typing before a question takes the keys."""
_REDRAW_S: Final = 0.03
_SIGN_S: Final = 1.0
"""Interval at which the sign of waiting counts."""


@dataclass(slots=True)
class _Question:
    sentence: str
    keys: Sequence[str]
    answer: "asyncio.Future[str]"


class _FileHistory(History):
    """The history of the input line in a file."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._file.read())

    def store_string(self, string: str) -> None:
        self._file.add(string)


class LiveScreen:
    """One input line for one conversation."""

    def __init__(self, history: HistoryFile, text: Text) -> None:
        self.styles = styles_for()
        self._text = text
        self._listener: Listener | None = None
        self._lines: list[str] = []
        self._line = ""
        self._sign: str | None = None
        self._running = False
        self._since = 0.0
        self._question: _Question | None = None
        self._typed_at = -_QUIET_S
        self._buffer = Buffer(
            multiline=True, history=_FileHistory(history), on_text_changed=self._typed, enable_history_search=True
        )
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            output=_output(),
            erase_when_done=True,
            min_redraw_interval=_REDRAW_S,
            refresh_interval=_SIGN_S,
        )
        self._app.ttimeoutlen = 0.05  # a lone Escape is rare; Alt-Enter arrives in one piece

    # --- the surface ---

    @property
    def columns(self) -> int:
        return self._app.output.get_size().columns

    def write(self, line: str) -> None:
        if not self._lines and self._app.is_running:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(line)
        if not self._app.is_running:
            self._flush()

    def live(self, line: str) -> None:
        self._line = line
        self._app.invalidate()

    def wait(self, sentence: str | None) -> None:
        if sentence is not None and self._sign is None:
            self._since = time.monotonic()
        self._sign = sentence
        self._app.invalidate()

    def _flush(self) -> None:
        """Write the complete lines above the input line."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        if self._app.is_running:
            self._app.renderer.erase()
        self._app.output.write_raw("".join(f"{escaped(line)}\n" for line in lines))
        self._app.output.flush()
        self._app.invalidate()

    # --- the person ---

    @asynccontextmanager
    async def opened(self, listener: Listener) -> AsyncGenerator[None]:
        self._listener = listener
        reading = asyncio.create_task(self._read(listener))
        try:
            yield
        finally:
            if self._app.is_running:
                self._flush()
                self._app.exit()
            await asyncio.gather(reading, return_exceptions=True)
            self._flush()

    async def _read(self, listener: Listener) -> None:
        with suppress(EOFError, KeyboardInterrupt):
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        listener.end()  # also where the terminal has gone

    def clear_draft(self) -> bool:
        if not self._buffer.text:
            return False
        self._buffer.reset()
        return True

    def busy(self, running: bool) -> None:
        self._running = running

    async def pause(self) -> None:
        while (pause := self._typed_at + _QUIET_S - time.monotonic()) > 0:  # noqa: ASYNC110 -- typing prolongs it
            await asyncio.sleep(pause)

    async def ask_key(self, question: str, keys: Sequence[str]) -> str:
        asked = _Question(question, keys, asyncio.get_running_loop().create_future())
        self._question = asked
        self._app.invalidate()
        try:
            key = await asked.answer
            self.write(f"{self.styles.paint(question, 'bold')} {key}")
            return key
        finally:
            self._question = None
            self._app.invalidate()

    # --- drawing ---

    def _layout(self) -> Layout:
        asking = Condition(lambda: self._question is not None)
        waiting = Condition(lambda: bool(self._sign))
        above = Window(FormattedTextControl(self._above), dont_extend_height=True, wrap_lines=False)
        question = Window(FormattedTextControl(self._asked), dont_extend_height=True, wrap_lines=True)
        line = Window(
            BufferControl(self._buffer),
            height=Dimension(min=1, max=_INPUT_ROWS),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=lambda number, wrapped: MARK if number == wrapped == 0 else " " * len(MARK),
        )
        return Layout(
            HSplit(
                [
                    ConditionalContainer(above, Condition(lambda: bool(self._line)) | (waiting & ~asking)),
                    ConditionalContainer(question, asking),
                    ConditionalContainer(line, ~asking),
                ]
            ),
            focused_element=line,
        )

    def _above(self) -> ANSI:
        if self._line:
            return ANSI(escaped(self._line))
        sign = f"… {self._sign}"
        if (seconds := int(time.monotonic() - self._since)) > 0:
            sign += f" · {self._text('run.seconds', seconds=seconds)}"
        return ANSI(self.styles.paint(shorten_columns(sign, self.columns), "dim"))

    def _asked(self) -> ANSI:
        return ANSI(self.styles.paint("" if self._question is None else self._question.sentence, "bold") + " ")

    # --- keys ---

    def _typed(self, buffer: Buffer) -> None:
        del buffer
        self._typed_at = time.monotonic()

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        asking = Condition(lambda: self._question is not None)

        def heard(event: KeyPressEvent) -> None:
            del event
            if self._listener is not None:
                self._listener.interrupt()

        for key in ("c-c", Keys.SIGINT):
            bindings.add(key, eager=True)(heard)

        @bindings.add("c-d", eager=True, filter=asking | Condition(lambda: not self._buffer.text))
        def _leave(event: KeyPressEvent) -> None:
            del event
            if self._listener is not None:
                self._listener.end()

        @bindings.add("c-z", eager=True)
        def _suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @bindings.add("enter", eager=True, filter=~asking)
        def _accept(event: KeyPressEvent) -> None:
            del event
            self._accept()

        @bindings.add("escape", "enter", eager=True, filter=~asking)
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add(Keys.Any, eager=True, filter=asking)
        def _key(event: KeyPressEvent) -> None:
            asked, key = self._question, event.data.lower()
            self._typed_at = time.monotonic()
            if asked is not None and key in asked.keys and not asked.answer.done():
                asked.answer.set_result(key)

        @bindings.add(Keys.BracketedPaste, eager=True, filter=asking)
        def _pasted(event: KeyPressEvent) -> None:
            del event

        return bindings

    def _accept(self) -> None:
        text = self._buffer.text
        if text.endswith("\\"):  # the message goes on in the next line
            self._buffer.document = Document(f"{text[:-1]}\n")
            return
        if not text.strip():
            self._buffer.reset()
            return
        self._buffer.append_to_history()
        self._buffer.reset()
        if not self._running:  # a message that begins a run stands apart from the answer before it
            self.write("")
        for line in typed_lines(text.rstrip(), self.columns, self.styles):
            self.write(line)
        if self._listener is not None:
            self._listener.line(text.rstrip())


def _output() -> Vt100_Output:
    stdout = sys.__stdout__ or sys.stdout

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(stdout.fileno())
        except OSError:  # the terminal has gone
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    # Without requests for the cursor's position: some terminals answer them into the input.
    return Vt100_Output(stdout, size, term=os.environ.get("TERM"), enable_cpr=False)
