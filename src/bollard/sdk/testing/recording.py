"""Recordings: one run as JSON lines (its context, each call with its answer, its results), and their replay.

Secret fields of the configuration are blanked; all other values are recorded.
"""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ValidationError

from bollard.protocol import AgentAPIError, AgentRunContext, AgentRunResult, JsonObject, JsonValue, first_problem
from bollard.sdk.calls import ApiCaller
from bollard.sdk.declaration import RunnerDeclaration
from bollard.sdk.errors import AgentAPIException, api_failure
from bollard.sdk.testing.errors import RecordingError, ReplayMismatch

BLANK = "***"


class Recording:
    """One run: entries in the order in which they began."""

    def __init__(self, context: AgentRunContext, entries: list[JsonObject] | None = None) -> None:
        self.context = context
        self.entries: list[JsonObject] = [] if entries is None else entries

    @classmethod
    def begin(cls, context: AgentRunContext, declaration: RunnerDeclaration | None = None) -> Self:
        """Begin the recording of a run. Secret fields of the configuration are blanked."""
        secret = (
            {item.name for item in declaration.config_schema if item.type == "secret"} if declaration else set[str]()
        )
        config = {name: BLANK if name in secret else value for name, value in context.config.items()}
        return cls(context.model_copy(update={"config": config}))

    @property
    def calls(self) -> list[JsonObject]:
        """The calls and streams."""
        return [entry for entry in self.entries if entry["kind"] in ("call", "stream")]

    @property
    def results(self) -> list[AgentRunResult]:
        """The results."""
        return [AgentRunResult.from_wire(entry["result"]) for entry in self.entries if entry["kind"] == "result"]

    def asked(self, kind: str, action: str, params: JsonObject) -> JsonObject:
        """Record a call and return its entry. The caller adds the answer to the entry."""
        entry: JsonObject = {"kind": kind, "action": action, "params": params}
        self.entries.append(entry)
        return entry

    def result(self, result: AgentRunResult) -> None:
        """Record a result."""
        self.entries.append({"kind": "result", "result": result.to_wire()})

    def save(self, path: Path | str) -> None:
        """Write the file."""
        first: JsonObject = {"kind": "context", "context": self.context.to_wire()}
        lines = [json.dumps(entry, ensure_ascii=False) for entry in (first, *self.entries)]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file; raises `RecordingError` that names the line."""
        entries: list[JsonObject] = []
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
            try:
                entry: Any = json.loads(line)
            except json.JSONDecodeError as error:
                raise RecordingError(str(path), number, f"is not JSON: {error}") from error
            problem = _problem(entry, first=number == 1)
            if problem is not None:
                raise RecordingError(str(path), number, problem)
            entries.append(entry)
        if not entries:
            raise RecordingError(str(path), 1, "the file is empty")
        try:
            context = AgentRunContext.from_wire(entries[0]["context"])
        except ValidationError as error:
            raise RecordingError(str(path), 1, "context: " + ": ".join(first_problem(error))) from error
        return cls(context, entries[1:])


_FIELDS = {
    "context": ("context",),
    "call": ("action", "params"),
    "stream": ("action", "params", "chunks"),
    "result": ("result",),
}


def _problem(entry: Any, *, first: bool) -> str | None:
    if not isinstance(entry, dict):
        return "is not a JSON object"
    body = cast("JsonObject", entry)
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS or (kind == "context") is not first:
        return f"kind: {kind!r} does not belong here"
    missing = [name for name in _FIELDS[kind] if name not in body]
    return f"{missing[0]}: is missing" if missing else None


class _RecordingCaller:
    def __init__(self, caller: ApiCaller, recording: Recording) -> None:
        self._caller = caller
        self._recording = recording

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        entry = self._recording.asked("call", action, params)
        try:
            answer = await self._caller.call(action, params)
        except AgentAPIException as error:
            entry["error"] = error.error.to_wire()
            raise
        entry["answer"] = answer
        return answer

    async def stream(self, action: str, params: JsonObject) -> AsyncGenerator[JsonValue, None]:
        entry = self._recording.asked("stream", action, params)
        chunks: list[JsonValue] = []
        entry["chunks"] = chunks
        source = self._caller.stream(action, params)
        try:
            async for chunk in source:
                chunks.append(chunk)
                yield chunk
        except AgentAPIException as error:
            entry["error"] = error.error.to_wire()
            raise
        else:
            entry["ended"] = True
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()


def record(caller: ApiCaller, recording: Recording) -> ApiCaller:
    """Return a caller that records the calls of `caller` and their answers."""
    return _RecordingCaller(caller, recording)


class ReplayedCalls:
    """Answers calls from a recording, in order. Another call raises `ReplayMismatch`, which `finish` raises again."""

    def __init__(self, recording: Recording) -> None:
        self._calls = recording.calls
        self._position = 0
        self.mismatch: ReplayMismatch | None = None

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        entry = self._next("call", action, params)
        _raise_recorded(entry)
        if "answer" not in entry:
            raise api_failure("cancelled", f"the recorded {action} was given up before its answer")
        return entry["answer"]

    async def stream(self, action: str, params: JsonObject) -> AsyncGenerator[JsonValue, None]:
        entry = self._next("stream", action, params)
        for chunk in cast("list[JsonValue]", entry["chunks"]):
            yield chunk
        _raise_recorded(entry)
        if "ended" not in entry:
            raise api_failure("cancelled", f"the recorded {action} was given up before its end")

    def finish(self) -> None:
        """Raise the first mismatch, or one for recorded calls that were not made."""
        if self.mismatch is None and self._position < len(self._calls):
            self.mismatch = ReplayMismatch(_described(self._calls[self._position]), None, self._position + 1)
        if self.mismatch is not None:
            raise self.mismatch

    def _next(self, kind: str, action: str, params: JsonObject) -> JsonObject:
        position = self._position
        entry = self._calls[position] if position < len(self._calls) else None
        asked: JsonObject = {"kind": kind, "action": action, "params": params}
        if entry is None or any(entry[name] != asked[name] for name in asked):
            expected = None if entry is None else _described(entry)
            error = ReplayMismatch(expected, _described(asked), position + 1)
            self.mismatch = self.mismatch or error
            raise error
        self._position += 1
        return entry


def _raise_recorded(entry: JsonObject) -> None:
    if "error" in entry:
        raise AgentAPIException(AgentAPIError.from_wire(entry["error"]))


def _described(entry: JsonObject) -> str:
    return f"{entry['action']} {json.dumps(entry['params'], ensure_ascii=False, sort_keys=True)}"
