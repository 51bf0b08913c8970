"""Follows one run to its end. A broken stream resumes after the last record."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TextIO

from bollard.cli.client.host_client import HostClient, problem_of_failure
from bollard.cli.client.http_client import BadAnswer, ConnectionLost, Unreachable
from bollard.cli.errors import HostProblem
from bollard.cli.language import Text
from bollard.cli.limits import RECONNECT_S, RECONNECT_WAIT_S
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable, revocation
from bollard.cli.terminal.renderers import ApiDone, Renderer, RunEnded
from bollard.host.egress.connections import HttpAnswer
from bollard.host.egress.sse import SseEvent
from bollard.host.errors import ExplainedError
from bollard.protocol import RESULT_PAYLOADS, AgentRunRecord, AgentRunResult, JsonObject, JsonValue

# --- records as JSON lines, or as calls of the renderer of `plugin run` ---


_OF_THE_HOST: Final = frozenset({"expires_ms", "flow", "version"})
"""Fields that the host adds to a result of the runner."""


_GAPS: Final = {
    "uncommitted": "chat.gap_uncommitted",
    "behind": "chat.gap_behind",
    "closing": "chat.gap_closing",
    "unavailable": "chat.gap_unavailable",
    "revoked": "chat.gap_revoked",
}
"""Texts for gaps, by reason."""


class RecordSink(Protocol):
    """Receives the records of a run in stream order."""

    def record(self, record: AgentRunRecord) -> None: ...

    def gap(self, gap: JsonObject) -> None:
        """The stream reports a gap."""
        ...


class RecordLines:
    """Writes one JSON line per record."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def record(self, record: AgentRunRecord) -> None:
        self._line(record.to_wire())

    def gap(self, gap: JsonObject) -> None:
        self._line(gap)

    def _line(self, value: JsonObject) -> None:
        self._out.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._out.flush()


class Requests(Protocol):
    """Hears what a run asks of people. The data is that of the records."""

    def approval(self, data: JsonObject) -> None: ...

    def approval_ended(self, data: JsonObject) -> None:
        """The approval was decided or has expired."""
        ...

    def question(self, data: JsonObject) -> None: ...

    def question_ended(self, data: JsonObject) -> None:
        """The question was answered or has expired."""
        ...

    def run_ended(self) -> None: ...


class RequestNotes:
    """Names the commands that decide and answer, where nobody types into the stream."""

    def __init__(self, renderer: Renderer, text: Text) -> None:
        self._renderer = renderer
        self._text = text

    def approval(self, data: JsonObject) -> None:
        asked = {"name": printable(str(data.get("name"))), "approval": str(data.get("approval_id"))}
        self._renderer.note(self._text("chat.waits", **asked))

    def approval_ended(self, data: JsonObject) -> None:
        """The next records show what became of it."""

    def question(self, data: JsonObject) -> None:
        asked = {"question": printable(str(data.get("question"))), "id": str(data.get("question_id"))}
        self._renderer.note(self._text("chat.question", **asked))

    def question_ended(self, data: JsonObject) -> None:
        """The next records show what became of it."""

    def run_ended(self) -> None:
        """The end is shown by itself."""


class RecordPrinter:
    """Shows results like `plugin run`, and the host's records as text."""

    def __init__(self, renderer: Renderer, text: Text, requests: Requests | None = None) -> None:
        self._renderer = renderer
        self._text = text
        self._requests = requests or RequestNotes(renderer, text)
        self._began: float | None = None
        self._results = 0
        self._asked: set[str] = set()
        """Open questions."""
        self._plugin = "AUTHOR/NAME"
        """The plugin of the runner, once its record came."""
        self._failed_model: str | None = None
        """The model of the last call, if the call failed."""
        self._lacks_model = False
        """Whether the last call failed because the workspace has no default model; the error has the command then."""

    def record(self, record: AgentRunRecord) -> None:
        if self._began is None:
            self._began = record.created_at
        if record.type == "run.ended":
            self._ended(record)
        elif record.type in RESULT_PAYLOADS:
            self._results += not record.observed  # assembled by the host, not a result of the runner
            fields = {name: value for name, value in record.data.items() if name not in _OF_THE_HOST}
            self._renderer.result(
                AgentRunResult(run_id=record.run_id, type=record.type, data=fields, sequence=record.seq)
            )
        elif record.type.startswith("result."):
            self._renderer.rejected(record.type, str(record.data.get("problem") or json.dumps(record.data)))
        else:
            self._host_said(record.type, record.data)

    def _host_said(self, kind: str, data: JsonObject) -> None:
        """Show changes of messages and permissions during the run, and what it calls and asks for."""
        match kind:
            case "steering.injected":
                self._renderer.note(self._text("chat.injected"))
            case "steering.dropped":
                self._renderer.note(self._text(_given_back(data)))
            case "run.created":
                self._plugin = plugin_of(str(data.get("runner_id")))
            case "model.called":
                self._failed_model = str(data.get("model_id")) if data.get("status") == "failed" else None
                self._lacks_model = data.get("reason") == "no_default_model"
            case "grant.revoked":
                self._renderer.note(self._text("chat.revoked", what=revocation(data, self._text)))
            case "api.denied" if "action" in data:
                self._renderer.called(
                    ApiDone(action=str(data.get("action")), params={}, error=str(data.get("outcome")), seconds=0.0)
                )
            case _ if kind.startswith("action."):
                self._call(kind, data)
            case _:
                self._request(kind, data)

    def _call(self, kind: str, data: JsonObject) -> None:
        call_id, name = str(data.get("call_id")), str(data.get("name") or data.get("capability"))
        match kind:
            case "action.started":
                self._renderer.call_started(call_id, name, data.get("arguments"))
            case "action.completed" if data.get("is_error"):
                self._renderer.call_ended(call_id, name, error=_result_of(data))
            case "action.completed":
                self._renderer.call_ended(call_id, name, result=_result_of(data))
            case _:  # it failed, was refused before it began, or its outcome is unknown
                self._renderer.call_ended(call_id, name, error=_error_of(data, self._text))

    def _request(self, kind: str, data: JsonObject) -> None:
        match kind:
            case "approval.requested":
                self._asked.add(str(data.get("approval_id")))
                self._requests.approval(data)
            case "approval.granted" | "approval.denied" | "approval.expired":
                self._asked.discard(str(data.get("approval_id")))
                self._requests.approval_ended(data)
            case "question.asked":
                self._requests.question(data)
            case "question.answered" | "question.expired":
                self._requests.question_ended(data)
            case _:
                pass

    def gap(self, gap: JsonObject) -> None:
        data = gap.get("data")
        body = data if isinstance(data, dict) else {}
        fields = {name: body.get(name) for name in ("first", "last", "reason")}
        key = _GAPS.get(str(body.get("reason")), "chat.gap")
        self._renderer.note(self._text(key, **fields))

    def _ended(self, record: AgentRunRecord) -> None:
        code, error, details = (record.data.get(name) for name in ("code", "error", "details"))
        began, self._began = self._began or record.created_at, None
        results, self._results = self._results, 0
        self._renderer.ended(
            RunEnded(
                run_id=record.run_id,
                status=str(record.data.get("status")),
                code=None if code is None else str(code),
                error=None if error is None else str(error),
                details=details if isinstance(details, dict) else {},
                results=results,
                seconds=max(0.0, record.created_at - began),
            )
        )
        self._requests.run_ended()
        asked, self._asked = self._asked, set[str]()
        if code == "host.lost" and asked:  # a repeated request would ask twice
            self._renderer.note(self._text("hint", hint=self._text("chat.still_asked")))
        elif code == "runner.error" and self._failed_model is not None:
            model = printable(self._failed_model)
            self._renderer.note(self._text("hint", hint=self._text("failure.model", model=model)))
        elif (key := f"failure.{code}") in self._text and not self._lacks_model:
            self._renderer.note(self._text("hint", hint=self._text(key, plugin=printable(self._plugin))))


def _result_of(data: JsonObject) -> JsonValue:
    """The text of a result if it is nothing else, otherwise all its content."""
    content = data.get("content")
    if isinstance(content, list) and content and all(isinstance(part, dict) and "text" in part for part in content):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict))
    return content if content else data.get("structured")


def _error_of(data: JsonObject, text: Text) -> str:
    """The error of a call, in the person's language."""
    code, details = str(data.get("code") or ""), data.get("details")
    message = str(data.get("message") or code)
    return text.host_error(code, details if isinstance(details, dict) else {}, message, "")[0]


def sink_for(shell: Shell, renderer: Renderer, requests: Requests | None = None) -> RecordSink:
    """JSON lines for a program, or the renderer for a person."""
    return RecordLines(sys.stdout) if shell.for_programs else RecordPrinter(renderer, shell.text, requests)


def plugin_of(runner_id: str) -> str:
    """The `author/name` of the plugin of a runner."""
    return runner_id.removeprefix("plugin:").rpartition("/")[0] or runner_id


def _given_back(data: JsonObject) -> str:
    """The text for a steering message that the run did not answer."""
    if not data.get("redispatch"):
        return "chat.dropped"
    return "chat.unanswered" if data.get("pulled") else "chat.redispatched"


Stream = AbstractAsyncContextManager[tuple[HttpAnswer, AsyncIterator[SseEvent]]]


class FollowedRun:
    """Follows one run, whose id may be unknown until the host answers."""

    def __init__(
        self,
        client: HostClient,
        sink: RecordSink,
        renderer: Renderer,
        text: Text,
        *,
        run_id: str | None = None,
        request: JsonObject | None = None,
        place: str | None = None,
    ) -> None:
        self._client = client
        self._sink = sink
        self._run_id = run_id
        self._request = request
        self._place = place
        self._renderer = renderer
        self._text = text
        self._end: AgentRunRecord | None = None
        self._cancel_wanted = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str | None:
        """The run id, once the host has sent it."""
        return self._run_id

    async def to_the_end(self) -> AgentRunRecord:
        """The `run.ended` record. Raises `HostProblem` if the host refuses or stays unreachable."""
        tries, since = 0, time.monotonic()
        while True:
            place = self._place
            failure = await self._read_once()
            if self._end is not None:
                return self._end
            if self._place != place:  # progress resets the retries
                tries, since = 0, time.monotonic()
            if self._run_id is None and isinstance(failure, Unreachable) and tries == 0:
                raise problem_of_failure(failure)  # nothing started: fail at once
            if time.monotonic() - since > RECONNECT_S:
                raise problem_of_failure(failure)
            if tries == 0:
                self._renderer.note(self._text("chat.lost", detail=failure.detail))
            await asyncio.sleep(RECONNECT_WAIT_S[min(tries, len(RECONNECT_WAIT_S) - 1)])
            tries += 1

    def cancel(self) -> bool:
        """Cancel the run, once its id is known. False if it was cancelled already."""
        if self._cancel_wanted:
            return False
        self._cancel_wanted = True
        if self._run_id is not None:
            self._send_cancel(self._run_id)
        return True

    async def close(self) -> None:
        """Wait for pending requests."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read_once(self) -> Unreachable | ConnectionLost:
        """Read until the stream ends. A stream that ends before its run is broken."""
        try:
            async with self._opened() as (answer, events):
                self._known(answer.header("bollard-run-id"))
                async for event in events:
                    self._take(event)
        except (Unreachable, ConnectionLost) as error:
            return error
        except BadAnswer as error:
            raise problem_of_failure(error) from error
        ended = ExplainedError("the stream ended before the run", "net.stream_ended")
        return ConnectionLost(self._client.address, ended)

    def _opened(self) -> Stream:
        if self._run_id is not None:
            return self._client.events("GET", f"/api/v1/runs/{self._run_id}/stream", last_id=self._place)
        # The request has its own id, so a retry finds the run of the first attempt.
        return self._client.events("POST", "/api/v1/runs", self._request)

    def _known(self, run_id: str | None) -> None:
        again = self._run_id is not None and self._place is not None
        first = self._run_id is None
        self._run_id = self._run_id or run_id
        if again:
            self._renderer.note(self._text("chat.resumed"))
        if first and self._cancel_wanted and self._run_id is not None:
            self._send_cancel(self._run_id)

    def _take(self, event: SseEvent) -> None:
        value: Any = json.loads(event.data)
        if event.name == "gap":
            self._sink.gap(value)
            return
        record = AgentRunRecord.from_wire(value)
        self._place = event.id or self._place
        if record.type == "run.ended":
            self._end = record
        self._sink.record(record)

    def _send_cancel(self, run_id: str) -> None:
        task = asyncio.create_task(self._post_cancel(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post_cancel(self, run_id: str) -> None:
        try:
            await self._client.post(f"/api/v1/runs/{run_id}/cancel", {})
        except HostProblem:
            self._cancel_wanted = False  # the run ended or the host is unreachable; another Ctrl-C retries
