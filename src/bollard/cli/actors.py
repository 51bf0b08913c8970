"""Who speaks: `--actor TYPE:ID`, and otherwise the user of this machine."""

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


def speaker(given: str | None) -> dict[str, str]:
    """The actor of a message: the one that is named, or whoever is logged in here."""
    return actor_of(given) if given is not None else {"type": "user", "id": _user()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"
