"""Why a connection, a call, a login or a tool failed: a sentence, a hint, and the details by which a translation is
found."""

from typing import Any

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """`details` holds the type of the problem (`problem_type`) and its values. It is empty for a sentence of a server
    or of the SDK."""

    problem: str
    details: dict[str, Any] = {}
    hint: str = ""


def fault(problem: str, problem_type: str, /, hint: str = "", **values: Any) -> Fault:
    """A fault with a sentence of ours."""
    return Fault(problem, {"problem_type": problem_type, **values}, hint)


class FaultRaised(Exception):
    """Mixed into an error of a library that is raised with a sentence of ours."""

    fault: Fault
