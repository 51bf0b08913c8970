"""Everything the SDK raises on purpose: one tree, with fields. Programs decide by type and field, never by sentence.

SdkError
├── DeclarationError     a decorator was used in a way that cannot work
├── ConfigError          an agent's configuration does not fit the runner's model
├── ResultTooLarge       one result exceeds a limit
├── InvalidResult        one result does not fit its shape
├── BadYield             a runner yielded or returned something that is no result
└── AgentAPIException    the host refused a call, or could not finish it
"""

import os
import traceback
from typing import Final

from bollard.protocol import AgentAPIError, ErrorCode, JsonObject

__all__ = [
    "ERROR_CHARACTERS",
    "AgentAPIException",
    "BadYield",
    "ConfigError",
    "DeclarationError",
    "InvalidResult",
    "ResultTooLarge",
    "SdkError",
    "api_failure",
    "place_of",
    "sentence_of",
]


ERROR_CHARACTERS: Final = 2000
"""The sentence of a `run.failed`."""
_OURS: Final = os.path.join("bollard", "sdk")
_FRAMES: Final = 8
"""Frames of runner code that a log record names."""


class SdkError(Exception):
    """Anything the SDK raises on purpose."""


class DeclarationError(SdkError):
    """A runner, tool or configuration model is declared in a way that cannot work."""

    def __init__(self, subject: str, problem: str, hint: str) -> None:
        super().__init__(f"{subject}: {problem}. Hint: {hint}")
        self.subject = subject
        self.problem = problem
        self.hint = hint


class ConfigError(SdkError):
    """An agent's configuration does not fit the runner's model."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"configuration field {field}: {problem}" if field else f"configuration: {problem}")
        self.field = field
        self.problem = problem


class ResultTooLarge(SdkError):
    """One result exceeds a limit; nothing of it was sent."""

    def __init__(self, type: str, size_bytes: int, limit_bytes: int, hint: str = "") -> None:  # noqa: A002
        advice = hint or "send large content with ctx.api.artifacts.write, or send less at once"
        super().__init__(f"a {type} of {size_bytes} bytes exceeds {limit_bytes} bytes: {advice}")
        self.type = type
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class InvalidResult(SdkError):
    """One result does not fit its shape; it was not sent."""

    def __init__(self, type: str, field: str, problem: str) -> None:  # noqa: A002
        super().__init__(f"{type}: {field}: {problem}" if field else f"{type}: {problem}")
        self.type = type
        self.field = field
        self.problem = problem


class BadYield(SdkError):
    """A runner yielded or returned something that is no result."""

    def __init__(self, value_type: str, verb: str = "yielded") -> None:
        accepted = "a str, or what ctx.delta(), ctx.completed(), ctx.artifact() … return"
        if verb == "returned":
            accepted = "None, a str, a Message, or what ctx.finish() returns"
        super().__init__(f"the runner {verb} a {value_type}, which is no result; expected {accepted}")
        self.value_type = value_type


class AgentAPIException(SdkError):
    """The host refused a call, or could not finish it."""

    def __init__(self, error: AgentAPIError) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error

    @property
    def code(self) -> str:
        """One of the protocol's error codes, or one that a newer host knows."""
        return self.error.code

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.error.retryable


def api_failure(code: ErrorCode, message: str, details: JsonObject | None = None) -> AgentAPIException:
    """The exception for a call that failed on this side of the channel."""
    return AgentAPIException(AgentAPIError(code=code, message=message, details=details or {}))


def sentence_of(error: BaseException, most: int = ERROR_CHARACTERS) -> str:
    """`Type: message`, safe to send: bounded, and never a second exception."""
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 -- runner code: an exception that cannot even say what it is
        message = "(its message cannot be read)"
    name = type(error).__name__
    whole = f"{name}: {message}" if message else name
    sentence = whole if len(whole) <= most else whole[: most - 1] + "…"
    return sentence.encode("utf-8", "replace").decode()


def place_of(error: BaseException) -> str:
    """Where runner code raised: its own frames, innermost last, without ours. Empty where there are none."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _OURS not in frame.filename
    ]
    return " > ".join(frames[-_FRAMES:])
