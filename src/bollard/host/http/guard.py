"""Who may use a route, and what everybody else is told. Plain ASGI apps, so that they cost little on the hot paths."""

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bollard.host.errors import HostError, NotFound
from bollard.host.http.answers import error_answer

__all__ = ["Check", "Elsewhere", "Guarded", "Handler", "Unauthenticated", "bearer_of"]

Handler = Callable[[Request], Awaitable[Response]]
Check = Callable[[Request], HostError | None]
"""Why a request may not come in; `None` when it may."""


class Guarded:
    """A route behind a check, whose errors are typed answers."""

    def __init__(self, handler: Handler, check: Check) -> None:
        self._handler = handler
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        refusal = self._check(request)
        if refusal is not None:
            answer: ASGIApp = error_answer(refusal)
        else:
            try:
                answer = await self._handler(request)
            except ClientDisconnect:
                return  # nobody is left to be answered
            except HostError as error:
                answer = error_answer(error)
        await answer(scope, receive, send)


class Elsewhere:
    """Whatever no route takes: refused like everything else, with a code, a sentence and a hint."""

    def __init__(self, known: list[Route]) -> None:
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = [route for route in self._known if route.matches(scope)[0] is Match.PARTIAL]
        if not here:
            answer = error_answer(NotFound("there is nothing here", hint="see docs/reference/http.md"))
        else:
            methods = ", ".join(sorted({method for route in here for method in route.methods or ()}))
            answer = error_answer(_MethodNotAllowed(f"{scope['method']} is not possible here", hint=f"use {methods}"))
            answer.headers["allow"] = methods
        await answer(scope, receive, send)


class _MethodNotAllowed(HostError):
    code = "method_not_allowed"


class Unauthenticated(HostError):
    """The same for everyone who has no token, or a wrong one."""

    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "this needs a token",
            hint="send `Authorization: Bearer …` with the admin token that the first start printed",
        )


def bearer_of(request: Request) -> str | None:
    """The token of an `Authorization` header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
