"""Who makes a request, as handlers and the guard see it."""

from typing import Final, Protocol, cast

from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.errors import Forbidden, HostError
from bollard.host.http.bodies import Actor
from bollard.host.identity.caller import Caller

_CALLER: Final = "bollard.caller"


class Authenticator(Protocol):
    """Finds who makes a request. Cheap: it is asked for every one."""

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        """The caller, or what to tell whoever is none."""
        ...


def caller_of(connection: HTTPConnection) -> Caller:
    """Who the guard let in. An open operation has no caller: asking there is a mistake of ours."""
    return cast("Caller", connection.scope[_CALLER])


def caller_in(scope: Scope) -> Caller | None:
    """The same where there may be nobody."""
    return cast("Caller | None", scope.get(_CALLER))


def give_caller(connection: HTTPConnection, caller: Caller) -> None:
    """Called by the guard."""
    connection.scope[_CALLER] = caller


def bearer_of(connection: HTTPConnection) -> str | None:
    """The token of an `Authorization` header."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


# In whose name a caller speaks. Pure.


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
