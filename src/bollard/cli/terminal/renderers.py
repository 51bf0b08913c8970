"""Renderers: how a session is shown as it happens, to a person at a terminal or to a program that reads lines."""

import json
import sys
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from pydantic import ValidationError
from rich.console import Console

from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable, shorten, wrap
from bollard.protocol import (
    RESULT_PAYLOADS,
    ActionRequested,
    AgentRunResult,
    ArtifactCreated,
    ContentElement,
    JsonObject,
    JsonValue,
    LogRecord,
    Message,
    MessageCompleted,
    MessageDelta,
    RunCompleted,
    Shape,
    StateUpdated,
    ToolCallCompleted,
    ToolCallStarted,
)
from bollard.protocol.message import TextContent


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

    def _line(self, value: JsonObject) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._out.flush()

    def _remark(self, sentence: str) -> None:
        self._side.write(shorten(sentence, LINE_CHARACTERS) + "\n")
        self._side.flush()


# A session for people: the answer as it comes, everything else on dim lines of its own.
#
# On a terminal all of it is on stdout; elsewhere stdout has the answers alone and the rest goes to stderr.


_STATUS_STYLES: Final = {"completed": "green", "failed": "red", "cancelled": "yellow", "timeout": "red"}
_LOG_STYLES: Final = {"warning": "dim yellow", "error": "red", "critical": "red"}
_QUIET_CALLS: Final = frozenset({"steering.pull"})
"""Calls that a runner makes at every turn of its loop."""


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


class TextRenderer:
    """Lines for a person."""

    def __init__(self, out: Console, side: Console, text: Text) -> None:
        self._out = out
        self._side = side
        self._text = text
        self._open_line = False
        self._thinking = False
        self._current: str | None = None
        self._later: list[tuple[str, str]] = []
        """Calls that were answered in the middle of a line; they are shown when it ends."""
        self._streamed: dict[str | None, str] = {}
        """The shown part of each message that is not completed."""
        self._completed = False

    # --- the session ---

    def opened(self, facts: SessionFacts) -> None:
        self.greet(
            facts.label, self._text("run.opened", plugin=facts.plugin, version=facts.version, runner=facts.runner), None
        )
        if facts.tools:
            self._dim(self._text("run.tools", names=", ".join(facts.tools)))
        if facts.interactive:
            self._dim(self._text("run.keys_steering" if facts.steering else "run.keys"))

    def greet(self, label: str, sentence: str, keys: str | None) -> None:
        self._side.print(f"{printable(label)} ", style="bold", end="")
        self._side.print(sentence)
        if keys is not None:
            self._dim(keys)

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        head = " ".join(part for part in (rule, where) if part)
        self._aside(shorten(f"{head}: {field}: {problem}", LINE_CHARACTERS), "yellow")
        if hint:
            self._aside(self._text("hint", hint=shorten(hint, LINE_CHARACTERS)), "dim")

    def note(self, sentence: str) -> None:
        self._aside(sentence, "yellow")

    def logged(self, record: LogRecord) -> None:
        fields = f" {_json(record.fields)}" if record.fields.keys() - {"stream"} else ""
        sentence = self._text("run.log", level=record.level, message=record.message + fields)
        self._aside(shorten(sentence, LINE_CHARACTERS), _LOG_STYLES.get(record.level, "dim"))

    # --- a run ---

    def result(self, result: AgentRunResult) -> None:
        if result.type not in RESULT_PAYLOADS:
            return
        try:
            payload = RESULT_PAYLOADS[result.type].from_wire(result.data)
        except ValidationError:
            return  # it has no effect, and `rejected` says so
        if isinstance(payload, MessageDelta):
            self._delta(payload)
        elif isinstance(payload, MessageCompleted) and payload.message.role == "tool":
            words = {"name": payload.message.name or "", "result": self._words(payload.message.content)}
            self._aside(shorten(self._text("run.tool_completed", **words), LINE_CHARACTERS), "dim")
        elif isinstance(payload, MessageCompleted):
            self._completed = True
            self._whole(payload.message, payload.message_id)
        elif isinstance(payload, RunCompleted):
            if payload.message is not None and not self._completed:
                self._whole(payload.message, None)
        elif (line := self._line_of(payload)) is not None:
            self._aside(shorten(line, LINE_CHARACTERS), "dim")

    def _line_of(self, payload: Shape) -> str | None:
        text = self._text
        match payload:
            case ToolCallStarted():
                return text("run.tool_started", name=payload.tool_name, parameters=_json(payload.parameters))
            case ToolCallCompleted() if payload.error is not None:
                return text("run.tool_failed", name=payload.tool_name, error=_json(payload.error))
            case ToolCallCompleted():
                return text("run.tool_completed", name=payload.tool_name, result=_json(payload.result))
            case StateUpdated():
                return text("run.state", scope=payload.scope, key=payload.key, value=_json(payload.value))
            case ArtifactCreated():
                kind = payload.mime_type or payload.artifact_type
                return text("run.artifact", name=payload.name or payload.artifact_id or "?", kind=kind)
            case ActionRequested():
                return text("run.action", action=payload.action, target=_json(payload.target))
            case _:
                return None

    def rejected(self, record: str, reason: str) -> None:
        sentence = self._text("run.rejected", record=record, reason=reason)
        self._aside(shorten(sentence, LINE_CHARACTERS), "yellow")

    def called(self, call: ApiDone) -> None:
        if call.action in _QUIET_CALLS and call.error is None:
            return
        name = call.params.get("name") or call.params.get("model_id") or call.params.get("key") or ""
        what = f"{call.action} {name}".strip()
        line = self._text("run.call", call=what, ms=round(call.seconds * 1000))
        if call.error is not None:
            line = self._text("run.call_refused", call=what, error=call.error)
        shown = (shorten(line, LINE_CHARACTERS), "dim" if call.error is None else "yellow")
        if self._open_line:
            self._later.append(shown)
        else:
            self._aside(*shown)

    def ended(self, end: RunEnded) -> None:
        self._end_line()
        self._streamed.clear()
        self._completed = False
        self._current = None
        words = [self._text(f"status.{end.status}")]
        if end.code is not None and end.code != end.status:
            words.append(end.code)
        if end.error and end.status != "cancelled":
            error, _ = self._text.host_error("run_ended", {"reason": end.code, "error": end.error}, end.error, "")
            words.append(shorten(error, LINE_CHARACTERS))
        words += [self._text("run.seconds", seconds=f"{end.seconds:.2f}"), self._text("run.results", count=end.results)]
        self._aside(" · ".join(words), _STATUS_STYLES.get(end.status, "dim"))

    # --- messages ---

    def _delta(self, delta: MessageDelta) -> None:
        if delta.message_id != self._current and self._open_line:
            self._end_line()
        self._current = delta.message_id
        if delta.chunk.reasoning:
            self._thinking = True
            self._say(delta.chunk.reasoning, "dim italic")
        words = self._words(delta.chunk.content)
        if words:
            if self._thinking:
                self._thinking = False
                self._end_line()
            self._streamed[delta.message_id] = self._streamed.get(delta.message_id, "") + words
            self._say(words, None)

    def _whole(self, message: Message, message_id: str | None) -> None:
        """A completed message overrides its deltas: it is shown if it differs from them."""
        words = self._words(message.content)
        shown = self._streamed.pop(message_id, None)
        if words == shown:
            self._end_line()
            return
        self._end_line()
        if message.reasoning and shown is None:
            self._say(message.reasoning, "dim italic")
            self._end_line()
        if shown is not None:
            self._aside(self._text("run.replaced"), "dim")
        self._say(words, None)
        self._end_line()

    def _words(self, content: str | tuple[ContentElement, ...]) -> str:
        if isinstance(content, str):
            return content
        return "".join(part.text if isinstance(part, TextContent) else f"[{part.type}]" for part in content)

    # --- lines ---

    def _say(self, words: str, style: str | None) -> None:
        clean = printable(words)
        if not clean:
            return
        self._out.out(clean, end="", style=style, highlight=False)
        self._out.file.flush()
        self._open_line = not clean.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line:
            self._out.out("", highlight=False)
            self._open_line = False
        later, self._later = self._later, []
        for sentence, style in later:
            self._aside(sentence, style)

    def _aside(self, sentence: str, style: str) -> None:
        """A line of its own beside the answer, set in by two columns."""
        self._end_line()
        columns = self._side.width - 4 if self._side.is_terminal else len(sentence) * 2
        for line in wrap(sentence, columns):
            self._side.out(f"  {line}", style=style, highlight=False)

    def _dim(self, sentence: str) -> None:
        self._side.print(sentence, style="dim")


def renderer_for(shell: Shell) -> Renderer:
    """Lines for a program, or for a person; beside a pipe the answers stand alone on stdout."""
    if shell.for_programs:
        return JsonRenderer(sys.stdout, sys.stderr, shell.text)
    out = shell.console()
    return TextRenderer(out, out if shell.mode == "terminal" else shell.console(stderr=True), shell.text)
