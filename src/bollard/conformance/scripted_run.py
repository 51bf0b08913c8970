"""One run of the scripted runner: waits for results, cancels, and reads how it ended."""

import json
from collections.abc import Callable
from typing import Final, cast

from bollard.conformance.connection import WorkerConnection, shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.judge import ObservedRun
from bollard.conformance.limits import ANSWER_S
from bollard.protocol import JsonObject, JsonValue, runner_id
from bollard.wire.envelope import ErrorResponse, Response


class ScriptedRun:
    """One run of the scripted runner."""

    def __init__(self, connection: WorkerConnection, run: ObservedRun) -> None:
        self._connection = connection
        self.observed = run

    @property
    def id(self) -> str:
        return self.observed.run_id

    @property
    def count(self) -> int:
        return len(self.observed.results)

    @property
    def texts(self) -> list[str]:
        """The texts of the deltas so far."""
        found: list[str] = []
        for result in self.observed.results:
            if result["type"] == "message.delta":
                chunk = cast("dict[str, dict[str, str]]", result["data"])["chunk"]
                found.append(chunk.get("content", ""))
        return found

    def credit(self, sequence: int) -> None:
        self._connection.credit(self.observed, sequence)

    def cancel(self, reason: str = "cancelled") -> None:
        self.observed.cancelled = True
        self._connection.note("run/cancel", {"run_id": self.id, "reason": reason})

    async def has(self, count: int, *, within: float = ANSWER_S) -> None:
        """Wait for that many results."""
        await self._wait_before_end(lambda: self.count >= count, f"{count} results of {self.id}", within)

    async def _wait_before_end(self, condition: Callable[[], bool], what: str, within: float) -> None:
        """Wait for the condition, or fail when the run ends before."""
        await self._connection.until(lambda: condition() or self.observed.over, what, within=within)
        if not condition():
            how = self.observed.terminal if self.observed.terminal is not None else self.observed.answer
            raise CaseFailed(what, f"the run is over with {shorten(how)} after {self.count} results")

    async def answered(self, *, within: float = ANSWER_S) -> Response | ErrorResponse:
        """Wait for the response to `run/start`."""
        return await self._connection.until(
            lambda: self.observed.answer, f"an answer to run/start of {self.id}", within=within
        )

    async def ended(self, *, within: float = ANSWER_S) -> JsonObject:
        """Wait for the response to `run/start`, and return the terminal result."""
        answer = await self.answered(within=within)
        if isinstance(answer, ErrorResponse):
            raise CaseFailed(f"{self.id} to run", f"run/start was refused: {answer.message} ({answer.code})")
        if self.observed.terminal is None:
            raise CaseFailed("a terminal result", f"run/start was answered after {self.count} results without one")
        return self.observed.terminal

    async def fails_with(self, *codes: str, within: float = ANSWER_S) -> JsonObject:
        """Require the run to end as `run.failed` with one of the codes."""
        terminal = await self.ended(within=within)
        data = cast("JsonObject", terminal["data"])
        if terminal["type"] != "run.failed" or data.get("code") not in codes:
            raise CaseFailed(f"run.failed with {' or '.join(codes)}", f"the run ended with {shorten(terminal)}")
        return data

    async def completes(self, *, within: float = ANSWER_S) -> JsonObject:
        """Require the run to end as `run.completed`."""
        terminal = await self.ended(within=within)
        if terminal["type"] != "run.completed":
            raise CaseFailed("run.completed", f"the run ended with {shorten(terminal)}")
        return cast("JsonObject", terminal["data"])

    async def said(self, *, within: float = ANSWER_S) -> JsonObject:
        """Return the first delta as the JSON object that a step emits."""
        await self._wait_before_end(lambda: bool(self.texts), f"what a step of {self.id} emits", within)
        try:
            value: object = json.loads(self.texts[0])
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise CaseFailed("a delta that is a JSON object", f"its content is {shorten(self.texts[0])}")
        return cast("JsonObject", value)


# The plugin and the scripts are described in docs/reference/conformance.md.


AUTHOR: Final = "bollard"
PLUGIN: Final = "conformance"
RUNNERS: Final = ("scripted", "stubborn")
TOOLS: Final = ("broken", "echo", "slow")


def step(do: str, **fields: JsonValue) -> JsonObject:
    """Return one step of a script."""
    return {"do": do, **fields}


def run_request(
    run_id: str, script: list[JsonObject], *, runner: str = "scripted", context: JsonObject | None = None
) -> JsonObject:
    """Return the parameters of `run/start`; `context` replaces or adds fields of the context."""
    body: JsonObject = {
        "run_id": run_id,
        "trigger": {"type": "message", "source": "api"},
        "event": {"event_id": f"event-{run_id}", "event_type": "message.received", "source": "conformance"},
        "input": {"text": "hello"},
        "delivery": {"surface": "conformance", "supports_streaming": True},
        "config": {"script": [*script]},
    }
    return {"runner_id": runner_id(AUTHOR, PLUGIN, runner), "runner_name": runner, "context": body | (context or {})}


def tool_call(
    call_id: str, tool: str, arguments: JsonObject, *, run_id: str = "run-of-the-tool", timeout_ms: int = 10_000
) -> JsonObject:
    """Return the parameters of `tool/call`."""
    return {
        "call_id": call_id,
        "tool": tool,
        "arguments": arguments,
        "timeout_ms": timeout_ms,
        "context": {"run_id": run_id, "workspace_id": "w", "agent_id": "a"},
    }
