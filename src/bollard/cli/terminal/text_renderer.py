"""A session for people: the answer as it comes, and lines beside it.

Without `verbose` it shows what a person talks about: answers, tool calls, artifacts, sources, and what went wrong. With
it, also state, calls of the run API, log records, and how each run ended.
"""

import json
import sys
from typing import Final

from pydantic import ValidationError

from bollard.cli.language import Text, run_error
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable, shorten
from bollard.cli.terminal.page import Page, PipePage, stdout_page
from bollard.cli.terminal.renderers import ApiDone, JsonRenderer, Renderer, RunEnded, SessionFacts
from bollard.cli.terminal.tool_calls import ToolCalls, call_line, error_words
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

_STATUS_STYLES: Final = {"completed": "green", "failed": "red", "cancelled": "yellow", "timeout": "red"}
_LOG_STYLES: Final = {"warning": "dim yellow", "error": "red", "critical": "red"}
_QUIET_CALLS: Final = frozenset({"steering.pull"})
"""Calls that a runner makes at every turn of its loop."""


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


class TextRenderer:
    """Shows a session on a page."""

    def __init__(self, page: Page, text: Text, *, verbose: bool, answers_only: bool = False) -> None:
        self._page = page
        self._text = text
        self._verbose = verbose
        self._answers_only = answers_only and not verbose
        """Whether only problems stand beside the answer."""
        self.calls = ToolCalls()
        """The calls of the newest run."""
        self._streaming = False
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
            self._page.remark(self._text("run.tools", names=", ".join(facts.tools)), "dim")
        if facts.interactive:
            self._page.remark(self._text("run.keys_steering" if facts.steering else "run.keys"), "dim")

    def greet(self, label: str, sentence: str, keys: str | None) -> None:
        if self._answers_only:
            return
        self._page.title(label, sentence)
        if keys is not None:
            self._page.remark(keys, "dim")

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        head = " ".join(part for part in (rule, where) if part)
        self._aside(shorten(f"{head}: {field}: {problem}", LINE_CHARACTERS), "yellow")
        if hint:
            self._aside(self._text("hint", hint=shorten(hint, LINE_CHARACTERS)), "dim")

    def note(self, sentence: str) -> None:
        self._page.remark(sentence, "yellow")

    def logged(self, record: LogRecord) -> None:
        if not self._verbose:
            return
        fields = f" {_json(record.fields)}" if record.fields.keys() - {"stream"} else ""
        sentence = self._text("run.log", level=record.level, message=record.message + fields)
        self._aside(shorten(sentence, LINE_CHARACTERS), _LOG_STYLES.get(record.level, "dim"))

    # --- a run ---

    def started(self) -> None:
        self.calls.clear()
        self._page.wait(self._text("chat.waiting"))

    def idle(self) -> None:
        self._end_line()
        self._page.wait(None)

    def result(self, result: AgentRunResult) -> None:
        if result.type not in RESULT_PAYLOADS:
            return
        try:
            payload = RESULT_PAYLOADS[result.type].from_wire(result.data)
        except ValidationError:
            return  # it has no effect, and `rejected` says so
        match payload:
            case MessageDelta():
                self._delta(payload)
            case MessageCompleted(message=message) if message.role == "tool":
                self.call_ended(message.tool_call_id or "", message.name or "", result=self._words(message.content))
            case MessageCompleted():
                self._completed = True
                self._whole(payload.message, payload.message_id)
            case RunCompleted():
                if payload.message is not None and not self._completed:
                    self._whole(payload.message, None)
            case ToolCallStarted():
                self.call_started(payload.tool_call_id, payload.tool_name, payload.parameters)
            case ToolCallCompleted():
                self.call_ended(payload.tool_call_id, payload.tool_name, result=payload.result, error=payload.error)
            case _:
                if (line := self._line_of(payload)) is not None:
                    self._aside(shorten(line, LINE_CHARACTERS), "dim")

    def _line_of(self, payload: Shape) -> str | None:
        text = self._text
        match payload:
            case ArtifactCreated() if not self._answers_only:
                kind = payload.mime_type or payload.artifact_type
                return text("run.artifact", name=payload.name or payload.artifact_id or "?", kind=kind)
            case StateUpdated() if self._verbose:
                return text("run.state", scope=payload.scope, key=payload.key, value=_json(payload.value))
            case ActionRequested() if self._verbose:
                return text("run.action", action=payload.action, target=_json(payload.target))
            case _:
                return None

    def call_started(self, call_id: str, name: str, arguments: JsonValue) -> None:
        call = self.calls.start(call_id, name, arguments)
        if call is not None and self._verbose:
            line = self._text("run.tool_started", name=call.name, parameters=_json(call.arguments))
            self._aside(shorten(line, LINE_CHARACTERS), "dim")
        self._wait_for_calls()

    def call_ended(self, call_id: str, name: str, *, result: JsonValue = None, error: JsonValue = None) -> None:
        call = self.calls.end(call_id, name, result=result, error=error)
        self._wait_for_calls()
        if call is None or self._answers_only:
            return
        if not self._verbose:
            self._end_line()
            self._page.line(call_line(call, self._text), "dim" if call.error is None else "yellow")
        elif call.error is not None:
            line = self._text("run.tool_failed", name=call.name, error=error_words(call, self._text))
            self._aside(shorten(line, LINE_CHARACTERS), "dim")
        else:
            words = call.result if isinstance(call.result, str) else _json(call.result)
            line = self._text("run.tool_completed", name=call.name, result=words)
            self._aside(shorten(line, LINE_CHARACTERS), "dim")

    def _wait_for_calls(self) -> None:
        names = ", ".join(printable(name) for name in self.calls.open_names)
        self._page.wait(self._text("chat.calling", names=names) if names else self._text("chat.waiting"))

    def rejected(self, record: str, reason: str) -> None:
        if self._verbose:
            sentence = self._text("run.rejected", record=record, reason=reason)
            self._aside(shorten(sentence, LINE_CHARACTERS), "yellow")

    def called(self, call: ApiDone) -> None:
        if not self._verbose or (call.action in _QUIET_CALLS and call.error is None):
            return
        name = call.params.get("name") or call.params.get("model_id") or call.params.get("key") or ""
        what = f"{call.action} {name}".strip()
        line = self._text("run.call", call=what, ms=round(call.seconds * 1000))
        if call.error is not None:
            line = self._text("run.call_refused", call=what, error=call.error)
        shown = (shorten(line, LINE_CHARACTERS), "dim" if call.error is None else "yellow")
        if self._streaming:
            self._later.append(shown)
        else:
            self._aside(*shown)

    def ended(self, end: RunEnded) -> None:
        self.idle()
        self._streamed.clear()
        self._completed = False
        self._current = None
        if end.status == "completed" and not self._verbose:
            return
        words = [self._text(f"status.{end.status}")]
        if end.code is not None and end.code != end.status:
            words.append(end.code)
        if end.error and end.status != "cancelled":
            words.append(shorten(run_error(end.code, end.error, end.details, self._text), LINE_CHARACTERS))
        words.append(self._text("run.seconds", seconds=f"{end.seconds:.2f}"))
        if self._verbose:
            words.append(self._text("run.results", count=end.results))
        self._aside(" · ".join(words), _STATUS_STYLES.get(end.status, "dim"))

    # --- messages ---

    def _delta(self, delta: MessageDelta) -> None:
        if delta.message_id != self._current:
            self._end_line()
        self._current = delta.message_id
        if delta.chunk.reasoning:
            self._say(delta.chunk.reasoning, thought=True)
        words = self._words(delta.chunk.content)
        if words:
            self._streamed[delta.message_id] = self._streamed.get(delta.message_id, "") + words
            self._say(words)

    def _whole(self, message: Message, message_id: str | None) -> None:
        """A completed message overrides its deltas: it is shown if it differs from them."""
        words = self._words(message.content)
        shown = self._streamed.pop(message_id, None)
        self._end_line()
        if words != shown:
            if message.reasoning and shown is None:
                self._say(message.reasoning, thought=True)
                self._end_line()
            if shown is not None:
                self._aside(self._text("run.replaced"), "dim")
            self._say(words)
            self._end_line()
        if not self._answers_only:
            self._sources(message)

    def _sources(self, message: Message) -> None:
        """The cited sources, below the answer."""
        cited = (message.metadata or {}).get("citations")
        for source in cited if isinstance(cited, list) else ():
            if isinstance(source, dict):
                fields = {name: printable(str(source.get(name) or "")) for name in ("id", "kb_id")}
                self._page.aside(self._text("chat.source", name=printable(source_name(source)), **fields), "dim")

    def _words(self, content: str | tuple[ContentElement, ...]) -> str:
        if isinstance(content, str):
            return content
        return "".join(part.text if isinstance(part, TextContent) else f"[{part.type}]" for part in content)

    # --- lines ---

    def _say(self, words: str, *, thought: bool = False) -> None:
        if words:
            self._streaming = True
            self._page.say(words, thought=thought)

    def _end_line(self) -> None:
        self._streaming = False
        self._page.end()
        later, self._later = self._later, []
        for sentence, style in later:
            self._page.aside(sentence, style)

    def _aside(self, sentence: str, style: str) -> None:
        self._end_line()
        self._page.aside(sentence, style)


def source_name(cited: JsonObject) -> str:
    """The document of a citation, and the headings above the cited part."""
    source = cited.get("source")
    if not isinstance(source, dict):
        return str(source or cited.get("name") or "")
    headings = source.get("headings")
    named = [source.get("source") or source.get("name") or cited.get("name") or ""]
    return " › ".join(str(part) for part in (*named, *(headings if isinstance(headings, list) else ())))


def renderer_for(shell: Shell, *, verbose: bool = True, page: Page | None = None) -> Renderer:
    """Lines for a program, or for a person; in a pipe the answers stand alone on stdout."""
    if shell.for_programs:
        return JsonRenderer(sys.stdout, sys.stderr, shell.text)
    if shell.mode == "terminal":
        return TextRenderer(page or stdout_page(), shell.text, verbose=verbose)
    return TextRenderer(PipePage(sys.stdout, sys.stderr), shell.text, verbose=verbose, answers_only=True)
