"""Shared fixtures of the SDK's tests: a plain context, a caller that remembers, and an outlet that collects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bollard.protocol import AgentRunContext, JsonObject, JsonValue
from bollard.sdk import AgentAPIException, RunContext, RunnerObject, declaration_of, drive


@dataclass
class RememberingCaller:
    """Answers each action with the answer of the test, and records its requests."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, JsonObject]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        self.asked.append((action, params))
        answer = self.answers[action]
        if isinstance(answer, AgentAPIException):
            raise answer
        return answer(params) if callable(answer) else answer

    async def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        self.asked.append((action, params))
        try:
            for chunk in self.answers[action]:
                if isinstance(chunk, AgentAPIException):
                    raise chunk
                yield chunk
        finally:
            self.closed.append(action)


@dataclass
class Collected:
    """An outlet without limits; a test may make one of its results fail, wait, or text leave at once."""

    sent: list[tuple[str, JsonObject]] = field(default_factory=list)
    refuse: dict[str, BaseException] = field(default_factory=dict)
    at_once: bool = False
    gate: asyncio.Event | None = None
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def offer_text(self, text: str) -> bool:
        if self.at_once:
            self.sent.append(("message.delta", {"chunk": {"content": text}}))
        return self.at_once

    async def emit(self, kind: str, data: JsonObject) -> None:
        if kind in self.refuse:
            raise self.refuse.pop(kind)
        if self.gate is not None and not kind.startswith("run."):
            self.waiting.set()
            await self.gate.wait()
        self.sent.append((kind, data))

    @property
    def types(self) -> list[str]:
        return [kind for kind, _ in self.sent]

    @property
    def text(self) -> str:
        return "".join(data["chunk"]["content"] for kind, data in self.sent if kind == "message.delta")

    @property
    def terminal(self) -> tuple[str, JsonObject]:
        ends = [(kind, data) for kind, data in self.sent if kind in ("run.completed", "run.failed")]
        assert len(ends) == 1, f"one terminal result, not {ends}"
        assert self.sent[-1] == ends[0], "nothing follows the terminal result"
        return ends[0]


@dataclass
class Driven:
    """A run under way, and the reason it is cancelled with."""

    outlet: Collected
    reason: str | None = None
    task: asyncio.Task[None] | None = None

    def cancel(self, reason: str = "cancelled") -> None:
        assert self.task is not None
        self.reason = reason
        self.task.cancel()


@pytest.fixture
def raw() -> AgentRunContext:
    return AgentRunContext.from_wire(
        {
            "run_id": "run-1",
            "trigger": {"type": "message.received", "source": "api"},
            "event": {"event_id": "event-1", "event_type": "message.received", "source": "api"},
            "input": {"text": "hi"},
            "delivery": {"surface": "test"},
        }
    )


@pytest.fixture
def caller() -> RememberingCaller:
    return RememberingCaller()


@pytest.fixture
def outlet() -> Collected:
    return Collected()


@pytest.fixture
def ctx(raw: AgentRunContext, caller: RememberingCaller) -> RunContext:
    return RunContext(raw, caller, {})


@pytest.fixture
def start(ctx: RunContext, outlet: Collected) -> Callable[..., Driven]:
    """Start a decorated runner in a separate task."""

    def begin(target: object, *, interrupt: bool = False) -> Driven:
        declaration = declaration_of(target)
        runner: RunnerObject = target if declaration is None else declaration.instantiate()
        driven = Driven(outlet)
        running = drive(runner, ctx, outlet, interrupt=interrupt, cancel_reason=lambda: driven.reason)
        driven.task = asyncio.get_running_loop().create_task(running)
        return driven

    return begin


@pytest.fixture
def driven(start: Callable[..., Driven]) -> Callable[..., Any]:
    """Drive a decorated runner to its end."""

    async def run(target: object, **options: Any) -> Collected:
        begun = start(target, **options)
        assert begun.task is not None
        await begun.task
        return begun.outlet

    return run
