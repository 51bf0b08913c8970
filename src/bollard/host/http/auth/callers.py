"""The caller of a request, as the guard and the handlers use it."""

from typing import Final, Protocol, cast

from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.errors import Forbidden, HostError
from bollard.host.identity.caller import Caller
from bollard.host.scope import Actor

_CALLER: Final = "bollard.caller"


class Authenticator(Protocol):
    """Finds the caller of a request. Called for every request, so it must be cheap."""

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        """The caller, or the error to send."""
        ...


def caller_of(connection: HTTPConnection) -> Caller:
    """The caller that the guard admitted. An open operation has none: calling this there is a bug."""
    return cast("Caller", connection.scope[_CALLER])


def caller_in(scope: Scope) -> Caller | None:
    """The caller, or `None` for an open operation."""
    return cast("Caller | None", scope.get(_CALLER))


def give_caller(connection: HTTPConnection, caller: Caller) -> None:
    """Set the caller. Called by the guard."""
    connection.scope[_CALLER] = caller


def bearer_of(connection: HTTPConnection) -> str | None:
    """The token of an `Authorization` header."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def speaker(caller: Caller, named: Actor | None) -> Actor | None:
    """The actor of a message: the caller, or another one that the caller may assume. Raises `Forbidden`."""
    own = caller.actor
    if own is None:
        return named
    if named is None:
        return own
    if named != own and not caller.may("actors.assume"):
        raise Forbidden(
            "this caller speaks in its own name only",
            reason="actor",
            hint="leave out actor, or use a key with the right actors.assume",
            right="actors.assume",
        )
    return named
