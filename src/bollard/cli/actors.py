"""Who speaks: `--actor TYPE:ID`, otherwise whose token it is, otherwise the user of this machine."""

import getpass
from typing import Annotated

import typer

from bollard.cli.errors import UsageProblem

__all__ = ["ActorOption", "actor_of", "speaker"]

ActorOption = Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="option.actor")]


def actor_of(given: str) -> dict[str, str]:
    """The actor as the host takes it; raises `UsageProblem`. The type ends at the first colon."""
    kind, colon, name = given.partition(":")
    if not (kind and colon and name):
        raise UsageProblem("error.actor", "hint.actor", value=given)
    return {"type": kind, "id": name}


def speaker(given: str | None, *, named: bool) -> dict[str, str] | None:
    """The actor of a message: the one that is asked for, or whoever uses this machine. Nobody where the token is
    somebody's (`named`): then the host knows who speaks."""
    if given is not None:
        return actor_of(given)
    return None if named else {"type": "user", "id": _user()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"
