"""In whose name a caller speaks. Pure."""

from bollard.host.errors import Forbidden
from bollard.host.http.requests import Actor
from bollard.host.identity.caller import Caller

__all__ = ["speaker"]


def speaker(caller: Caller, named: Actor | None) -> Actor | None:
    """The actor of a message: the caller's own, or another for whom the caller may speak. Raises `Forbidden`."""
    own = caller.actor
    if own is None:
        return named
    if named is None:
        return Actor(type=own[0], id=own[1])
    if (named.type, named.id) != own and not caller.may("actors.assume"):
        raise Forbidden(
            "this caller speaks in its own name only",
            hint="leave out actor, or use a key with the right actors.assume",
            right="actors.assume",
        )
    return named
