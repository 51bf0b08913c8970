"""A session for programs: one JSON line for each result and one `run.ended` on stdout; everything else on stderr."""

import json
from typing import TextIO

from bollard.cli.columns import shorten
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.render import ApiDone, RunEnded, SessionFacts
from bollard.protocol import AgentRunResult, JsonObject, LogRecord

__all__ = ["JsonRenderer"]


class JsonRenderer:
    """Lines for a program, remarks for whoever reads its log."""

    def __init__(self, out: TextIO, side: TextIO, text: Text) -> None:
        self._out = out
        self._side = side
        self._text = text

    def opened(self, facts: SessionFacts) -> None:
        """A program knows what it started."""

    def greet(self, label: str, sentence: str, keys: str | None) -> None:
        """And whom it talks to."""

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        self._remark(" ".join(part for part in (rule, f"{where}: {field}: {problem}") if part))
        if hint:
            self._remark(self._text("hint", hint=hint))

    def result(self, result: AgentRunResult) -> None:
        self._line(result.to_wire())

    def rejected(self, record: str, reason: str) -> None:
        self._remark(self._text("run.rejected", record=record, reason=reason))

    def called(self, call: ApiDone) -> None:
        """Calls are between the runner and the host."""

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
