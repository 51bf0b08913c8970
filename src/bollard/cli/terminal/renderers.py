"""Renderers: how a session is shown as it happens, to a person at a terminal or to a program that reads lines."""

import json
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from bollard.cli.errors import CliError
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.terminal.columns import shorten
from bollard.protocol import AgentRunResult, JsonObject, JsonValue, LogRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The plugin and the runner of a session."""

    plugin: str
    version: str
    runner: str
    label: str
    tools: tuple[str, ...]
    steering: bool
    interactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDone:
    """One answered call of the run API."""

    action: str
    params: JsonObject
    error: str | None
    """`code: message`; `None` after a success."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """How a run ended."""

    run_id: str
    status: str
    code: str | None
    error: str | None
    results: int
    seconds: float
    details: JsonObject = field(default_factory=dict[str, JsonValue])
    """The type of the error, by which its translation is found."""


class Renderer(Protocol):
    """Shows a session as it happens. Nothing here may block for long or raise."""

    def opened(self, facts: SessionFacts) -> None: ...

    def greet(self, label: str, sentence: str, keys: str | None) -> None:
        """Show the agent, its address, and what keys do."""
        ...

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        """A part of the plugin that cannot be used; shown before the first run."""
        ...

    def result(self, result: AgentRunResult) -> None: ...

    def rejected(self, record: str, reason: str) -> None:
        """A result without effect."""
        ...

    def called(self, call: ApiDone) -> None: ...

    def logged(self, record: LogRecord) -> None: ...

    def note(self, sentence: str) -> None:
        """A sentence of the session itself, in the person's language."""
        ...

    def ended(self, end: RunEnded) -> None: ...

    def started(self) -> None:
        """A message was sent, and its run begins."""
        ...

    def idle(self) -> None:
        """No run is active."""
        ...

    def call_started(self, call_id: str, name: str, arguments: JsonValue) -> None: ...

    def call_ended(self, call_id: str, name: str, *, result: JsonValue = None, error: JsonValue = None) -> None: ...


def note_problem(renderer: Renderer, error: CliError, text: Text) -> None:
    """Show an error and its hint inside a session, which goes on."""
    sentence, hint = error.sentences(text)
    renderer.note(sentence)
    renderer.note(text("hint", hint=hint))


# A session for programs: one JSON line for each result and one `run.ended` on stdout; everything else on stderr.


class JsonRenderer:
    """JSON lines on stdout, remarks on stderr."""

    def __init__(self, out: TextIO, side: TextIO, text: Text) -> None:
        self._out = out
        self._side = side
        self._text = text

    def opened(self, facts: SessionFacts) -> None:
        """Not shown to a program."""

    def greet(self, label: str, sentence: str, keys: str | None) -> None:
        """Not shown to a program."""

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        self._remark(" ".join(part for part in (rule, f"{where}: {field}: {problem}") if part))
        if hint:
            self._remark(self._text("hint", hint=hint))

    def result(self, result: AgentRunResult) -> None:
        self._line(result.to_wire())

    def rejected(self, record: str, reason: str) -> None:
        self._remark(self._text("run.rejected", record=record, reason=reason))

    def called(self, call: ApiDone) -> None:
        """Not shown to a program."""

    def logged(self, record: LogRecord) -> None:
        self._remark(self._text("run.log", level=record.level, message=record.message))

    def note(self, sentence: str) -> None:
        self._remark(sentence)

    def ended(self, end: RunEnded) -> None:
        data: JsonObject = {"status": end.status}
        if end.code is not None:
            data |= {"code": end.code, "error": end.error or ""}
        data |= {"results": end.results, "duration_ms": round(end.seconds * 1000)}
        self._line({"run_id": end.run_id, "type": "run.ended", "data": data})

    def started(self) -> None:
        """The records say so."""

    def idle(self) -> None:
        """Not shown to a program."""

    def call_started(self, call_id: str, name: str, arguments: JsonValue) -> None:
        """The records say so."""

    def call_ended(self, call_id: str, name: str, *, result: JsonValue = None, error: JsonValue = None) -> None:
        """The records say so."""

    def _line(self, value: JsonObject) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._out.flush()

    def _remark(self, sentence: str) -> None:
        self._side.write(shorten(sentence, LINE_CHARACTERS) + "\n")
        self._side.flush()
