"""The boundary between a session and whoever watches it: a person at a terminal, or a program that reads lines."""

from dataclasses import dataclass
from typing import Protocol

from bollard.protocol import AgentRunResult, JsonObject, LogRecord

__all__ = ["ApiDone", "Renderer", "RunEnded", "SessionFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What is about to be talked to."""

    plugin: str
    version: str
    runner: str
    label: str
    tools: tuple[str, ...]
    steering: bool
    interactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDone:
    """One call of the run API that was answered."""

    action: str
    params: JsonObject
    error: str | None
    """`code: message`, or nothing when it went well."""
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
        """Who is talked to, where, and what keys do."""
        ...

    def problem(self, rule: str, where: str, field: str, problem: str, hint: str) -> None:
        """A part of the plugin that cannot be used; told before the first run."""
        ...

    def result(self, result: AgentRunResult) -> None: ...

    def rejected(self, record: str, reason: str) -> None:
        """A result without effect."""
        ...

    def called(self, call: ApiDone) -> None: ...

    def logged(self, record: LogRecord) -> None: ...

    def note(self, sentence: str) -> None:
        """Something that the session itself has to say, in the person's language."""
        ...

    def ended(self, end: RunEnded) -> None: ...
