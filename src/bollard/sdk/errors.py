"""The errors of the SDK, as one tree. Programs decide by type and field, never by message.

SdkError
├── DeclarationError     a decorator was used in a way that cannot work
├── ConfigError          an agent's configuration does not fit the runner's model
├── ResultTooLarge       one result exceeds a limit
├── InvalidResult        one result does not fit its shape
├── BadYield             a runner yielded or returned something that is no result
└── AgentAPIException    the host refused a call, or could not finish it
"""

import contextlib
import os
import traceback
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import ValidationError

from bollard.protocol import AgentAPIError, ErrorCode, JsonObject, JsonValue, first_problem
from bollard.protocol.shape import problem_details

ERROR_CHARACTERS: Final = 2000
"""The sentence of a `run.failed`."""
_OURS: Final = os.path.join("bollard", "sdk")
_FRAMES: Final = 8
"""Frames of runner code that a log record names."""


class SdkError(Exception):
    """Root of the tree."""


class DeclarationError(SdkError):
    """A runner, tool or configuration model is declared in a way that cannot work.

    `details` holds the type of the problem (`problem_type`) and its values, by which a translation is found.
    """

    def __init__(self, subject: str, problem: str, hint: str, problem_type: str = "", /, **values: JsonValue) -> None:
        super().__init__(f"{subject}: {problem}. Hint: {hint}")
        self.subject = subject
        self.problem = problem
        self.hint = hint
        self.details: JsonObject = {"problem_type": problem_type, **values} if problem_type else values


def invalid_argument(
    subject: str, error: ValidationError, hint: str, *, below: str = "", inside: str = ""
) -> DeclarationError:
    """The error of a declaration whose first invalid field the validator found. The field is `below` an argument; the
    details name it `inside` the subject."""
    field, problem = first_problem(error)
    found: JsonObject = {"field": f"{inside}{below}{field}", "problem": problem, **problem_details(error)}
    return DeclarationError(subject, f"{below}{field}: {problem}", hint, "", problems=[found])


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
        super().__init__(f"{error.code}: {error.message}" + (f". Hint: {error.hint}" if error.hint else ""))
        self.error = error

    @property
    def code(self) -> str:
        """One of the protocol's error codes, or one that a newer host knows."""
        return self.error.code

    @property
    def hint(self) -> str:
        """What to do next; empty if the host has no advice."""
        return self.error.hint

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.error.retryable


def api_failure(
    code: ErrorCode, message: str, details: JsonObject | None = None, *, hint: str = ""
) -> AgentAPIException:
    """Return the exception for a call that failed before it reached the host."""
    return AgentAPIException(AgentAPIError(code=code, message=message, details=details or {}, hint=hint))


def describe_error(error: BaseException, most: int = ERROR_CHARACTERS) -> str:
    """Return `Type: message`, bounded and encodable. Never raises."""
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 -- runner code: an exception that cannot even say what it is
        message = "(its message cannot be read)"
    name = type(error).__name__
    whole = f"{name}: {message}" if message else name
    sentence = whole if len(whole) <= most else whole[: most - 1] + "…"
    return sentence.encode("utf-8", "replace").decode()


def locate_error(error: BaseException) -> str:
    """Return the frames of runner code in the traceback, innermost last. Empty if there are none."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _OURS not in frame.filename
    ]
    return " > ".join(frames[-_FRAMES:])


D = TypeVar("D")
F = TypeVar("F")

_DEFERRING: Final[ContextVar[bool]] = ContextVar("_DEFERRING", default=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _DeferredError:
    target: object
    error: DeclarationError


@contextlib.contextmanager
def defer_declaration_errors() -> Generator[None]:
    """Store a `DeclarationError` on the decorated object instead of raising it at import.

    `declaration_of` and `tool_declaration_of` raise it later. Raised at import, one bad runner would hide every other
    runner of its module.
    """
    before = _DEFERRING.set(True)
    try:
        yield
    finally:
        _DEFERRING.reset(before)


def reject_declaration(target: F, mark: str, error: DeclarationError) -> F:
    """Raise `error`; while errors are deferred, store it under `mark` and return the target."""
    if not _DEFERRING.get():
        raise error
    try:
        setattr(target, mark, _DeferredError(target=target, error=error))
    except (AttributeError, TypeError):  # a number or a built-in has no attributes
        raise error from None
    return target


def read_declaration(candidate: object, mark: str, kind: type[D]) -> D | None:
    """Return the declaration under `mark`. Raises the `DeclarationError` that was stored there."""
    found: object = getattr(candidate, mark, None)
    if isinstance(found, _DeferredError) and found.target is candidate:
        raise found.error
    return found if isinstance(found, kind) else None
