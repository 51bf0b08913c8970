"""What becomes of a host's records here: lines for a program, or calls of the renderer that `plugin run` uses too."""

import json
from typing import Final, Protocol, TextIO

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.render import ApiDone, Renderer, RunEnded
from bollard.protocol import RESULT_PAYLOADS, AgentRunRecord, AgentRunResult, JsonObject

__all__ = ["RecordLines", "RecordSink", "ShownRecords", "taken_away"]

_OF_THE_HOST: Final = frozenset({"expires_ms", "flow", "version"})
"""What the host adds to what a runner said: no part of the result as the protocol has it."""


class RecordSink(Protocol):
    """Takes the records of one run after the other, as a stream carries them."""

    def record(self, record: AgentRunRecord) -> None: ...

    def gap(self, gap: JsonObject) -> None:
        """The stream says that something cannot be had."""
        ...


class RecordLines:
    """One JSON line for each record."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def record(self, record: AgentRunRecord) -> None:
        self._line(record.to_wire())

    def gap(self, gap: JsonObject) -> None:
        self._line(gap)

    def _line(self, value: JsonObject) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._out.flush()


class ShownRecords:
    """For a person: what the runner sent as `plugin run` shows it, what the host adds in words."""

    def __init__(self, renderer: Renderer, text: Text) -> None:
        self._renderer = renderer
        self._text = text
        self._began: float | None = None
        self._results = 0
        self._asked: set[str] = set()
        """Questions to people that nobody has answered."""

    def record(self, record: AgentRunRecord) -> None:
        if self._began is None:
            self._began = record.created_at
        if record.type == "run.ended":
            self._ended(record)
        elif record.type in RESULT_PAYLOADS:
            self._results += not record.observed  # what the host assembled is no result of the runner
            said = {name: value for name, value in record.data.items() if name not in _OF_THE_HOST}
            self._renderer.result(
                AgentRunResult(run_id=record.run_id, type=record.type, data=said, sequence=record.seq)
            )
        elif record.type.startswith("result."):
            self._renderer.rejected(record.type, str(record.data.get("problem") or json.dumps(record.data)))
        else:
            self._host_said(record.type, record.data)

    def _host_said(self, kind: str, data: JsonObject) -> None:
        """What became of messages and rights during the run. Calls that went well are the runner's own business."""
        match kind:
            case "steering.injected":
                self._renderer.note(self._text("chat.injected"))
            case "steering.dropped":
                self._renderer.note(self._text(_given_back(data)))
            case "approval.requested":
                self._asked.add(str(data.get("approval_id")))
                asked = {"name": printable(str(data.get("name"))), "approval": str(data.get("approval_id"))}
                self._renderer.note(self._text("chat.waits", **asked))
            case "approval.granted" | "approval.denied" | "approval.expired":
                self._asked.discard(str(data.get("approval_id")))
            case "question.asked":
                asked = {"question": printable(str(data.get("question"))), "id": str(data.get("question_id"))}
                self._renderer.note(self._text("chat.question", **asked))
            case "grant.revoked":
                self._renderer.note(self._text("chat.revoked", what=taken_away(data, self._text)))
            case "api.denied" if "action" in data:
                self._renderer.called(
                    ApiDone(action=str(data.get("action")), params={}, error=str(data.get("outcome")), seconds=0.0)
                )
            case _:
                pass

    def gap(self, gap: JsonObject) -> None:
        data = gap.get("data")
        said = data if isinstance(data, dict) else {}
        match said.get("reason"):
            case "uncommitted":
                self._renderer.note(self._text("chat.gap_uncommitted"))
            case "behind":
                self._renderer.note(self._text("chat.gap_behind"))
            case "closing":
                self._renderer.note(self._text("chat.gap_closing"))
            case "revoked":
                self._renderer.note(self._text("chat.gap_revoked"))
            case reason:
                fields = {"first": said.get("first"), "last": said.get("last"), "reason": reason}
                self._renderer.note(self._text("chat.gap", **fields))

    def _ended(self, record: AgentRunRecord) -> None:
        code, error = record.data.get("code"), record.data.get("error")
        began, self._began = self._began or record.created_at, None
        results, self._results = self._results, 0
        self._renderer.ended(
            RunEnded(
                run_id=record.run_id,
                status=str(record.data.get("status")),
                code=None if code is None else str(code),
                error=None if error is None else str(error),
                results=results,
                seconds=max(0.0, record.created_at - began),
            )
        )
        asked, self._asked = self._asked, set[str]()
        if code == "host.lost" and asked:  # sent again, it would be asked for twice
            self._renderer.note(self._text("hint", hint=self._text("chat.still_asked")))
        elif (key := f"failure.{code}") in self._text:
            self._renderer.note(self._text("hint", hint=self._text(key)))


def taken_away(data: JsonObject, text: Text) -> str:
    """What a revocation names, as one line."""
    if data.get("all"):
        return text("rights.everything")
    operations, resources = data.get("operations"), data.get("resources")
    named = [str(name) for name in operations] if isinstance(operations, list) else []
    for kind, things in resources.items() if isinstance(resources, dict) else ():
        named += [f"{kind}:{thing}" for thing in things] if isinstance(things, list) else []
    return ", ".join(named)


def _given_back(data: JsonObject) -> str:
    """What is said of a message that a run gave back: it may have been read, and not answered."""
    if not data.get("redispatch"):
        return "chat.dropped"
    return "chat.unanswered" if data.get("pulled") else "chat.redispatched"
