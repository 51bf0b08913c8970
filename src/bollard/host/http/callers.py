"""Who makes a request, as handlers and the guard see it."""

from typing import Final, Protocol, cast

from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.errors import HostError
from bollard.host.identity.caller import Caller

__all__ = ["Authenticator", "bearer_of", "caller_in", "caller_of", "give_caller"]

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
