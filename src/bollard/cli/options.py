"""Values of options that several commands read: choices, `NAME=VALUE` pairs, page sizes and actors."""

import difflib
import getpass
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from bollard.cli.errors import UsageProblem
from bollard.protocol.limits import PAGE_ITEMS

ActorOption = Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="option.actor")]


def one_of(option: str, value: str, known: Sequence[str]) -> str:
    """The value. Raises `UsageProblem` with the most similar choice."""
    if value in known:
        return value
    near = difflib.get_close_matches(value, known, n=1)
    hint = "hint.choice_near" if near else "hint.choice"
    raise UsageProblem("error.choice", hint, option=option, value=value, near="".join(near), known=", ".join(known))


def pairs_of(given: Iterable[str] | None, error: str, hint: str, **fields: object) -> list[tuple[str, str]]:
    """Each `NAME=VALUE` as a pair. Raises `UsageProblem` with the keys `error` and `hint`."""
    found: list[tuple[str, str]] = []
    for each in given or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UsageProblem(error, hint, word=each, **fields)
        found.append((name, value))
    return found


def given_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not `None`."""
    return {name: value for name, value in values.items() if value is not None}


def page_limit(limit: int) -> int:
    """The page size; raises `UsageProblem`."""
    if not 1 <= limit <= PAGE_ITEMS:
        raise UsageProblem("error.limit", "hint.limit", option="--limit", value=limit)
    return limit


def actor_of(given: str) -> dict[str, Any]:
    """The actor as the API expects it; raises `UsageProblem`. The type ends at the first colon."""
    kind, colon, name = given.partition(":")
    if not (kind and colon and name):
        raise UsageProblem("error.actor", "hint.actor", value=given)
    return {"type": kind, "id": name}


def speaker(given: str | None, *, named: bool) -> dict[str, Any] | None:
    """The actor of a message: that of `--actor`, otherwise the user of this machine. `None` if the token identifies a
    user or a key, because the host then knows the actor."""
    if given is not None:
        return actor_of(given)
    return None if named else {"type": "user", "id": _user()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"
