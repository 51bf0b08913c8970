"""What stands before every operation: who asks, whether they may, how often, and whether they asked before. What goes
wrong behind it becomes a typed answer. Cheap: it is on the hot path."""

from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import msgspec
import structlog
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from bollard.host.errors import Forbidden, HostError, InvalidRequest, Unauthenticated
from bollard.host.http.answers import error_answer
from bollard.host.http.callers import Authenticator, bearer_of, give_caller
from bollard.host.http.edge_rates import AtOnce
from bollard.host.http.operations import Operation
from bollard.host.http.presence import Endable, Presence
from bollard.host.http.queries import check_query, refuse_token, ticket_in
from bollard.host.http.repeats import KEY_HEADER, Repeats
from bollard.host.http.tickets import TicketBook
from bollard.host.http.watching import RequestWatch
from bollard.host.identity.caller import Caller
from bollard.host.limits import REQUESTS_AT_ONCE
from bollard.host.secrets.redactor import Scrubber

__all__ = ["Endpoint", "Guard", "Rates", "RunTokens", "Unlimited"]

_log = structlog.get_logger("bollard.host.http")


class Rates(Protocol):
    """How often one identity may ask."""

    def take(self, name: str) -> HostError | None:
        """One turn; what to tell whoever has none left."""
        ...


class Unlimited:
    """No rates at all."""

    def take(self, name: str) -> HostError | None:
        del name
        return None


class _Stream(Endable, Protocol):
    """An answer that goes on until somebody ends it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


RunTokens = Callable[[str, str], Caller | HostError]
"""Who holds this token for this run, or what to tell whoever does not."""


class Endpoint(msgspec.Struct, frozen=True):
    """An operation with the methods of its resource bound."""

    operation: Operation
    handler: Callable[[Request], Awaitable[ASGIApp]]
    socket: Callable[[WebSocket], Awaitable[None]] | None = None


class Guard:
    """One for all operations."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        tickets: TicketBook,
        repeats: Repeats,
        run_tokens: RunTokens,
        rates: Rates | None = None,
        strangers: Rates | None = None,
        at_once: AtOnce | None = None,
        watch: RequestWatch | None = None,
        presence: Presence | None = None,
        hidden: Scrubber | None = None,
    ) -> None:
        """`rates` are those of callers, `strangers` those of addresses that have no valid token. What is `hidden` is in
        no refusal."""
        self._hidden = hidden
        self._watch = watch
        self._presence = presence or Presence(lambda _: True)
        self._authenticator = authenticator
        self._tickets = tickets
        self._repeats = repeats
        self._run_tokens = run_tokens
        self._rates = rates or Unlimited()
        self._strangers = strangers or Unlimited()
        self._at_once = at_once or AtOnce(REQUESTS_AT_ONCE)

    async def answer(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        request, watch, operation = Request(scope, receive, send), self._watch, endpoint.operation
        watched = watch.begin(scope, operation.name) if watch is not None and watch.curious else None
        status, entered, caller = 0, None, None
        try:
            try:
                caller = self.admit(operation, request)
                entered = None if caller is None else self.enter(caller)
                answer = await self._answered(endpoint, request, caller)
            except ClientDisconnect:
                return  # nobody is left to be answered
            except HostError as error:
                answer = error_answer(error, self._hidden)
            except Exception:  # noqa: BLE001 -- the boundary: the caller gets a typed answer, the log the rest
                _log.exception("a request failed", operation=operation.name)
                answer = error_answer(broken())
            status = getattr(answer, "status_code", 200)
            if watch is not None:
                watch.answered(operation.name, status)
            if caller is not None and hasattr(answer, "end"):
                await self._kept_open(cast("_Stream", answer), caller, scope, receive, send)
            else:
                await answer(scope, receive, send)
        finally:
            self.leave(entered)
            if watch is not None and watched is not None:
                watch.end(watched, scope, operation.name, operation.path, status)

    async def _kept_open(self, stream: "_Stream", caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """An answer that may go on for long, and no longer than its reader may have it."""
        self._presence.enter(stream, caller)
        try:
            await stream(scope, receive, send)
        finally:
            self._presence.leave(stream)

    def enter(self, caller: Caller) -> str:
        """One more request of this caller, which `leave` ends. Raises where too many are open."""
        name = _name(caller)
        refused = self._at_once.enter(name)
        if refused is not None:
            raise refused
        return name

    def leave(self, entered: str | None) -> None:
        if entered is not None:
            self._at_once.leave(entered)

    def counted(self, operation: str, status: int) -> None:
        """A request that was answered elsewhere."""
        if self._watch is not None:
            self._watch.answered(operation, status)

    async def _answered(self, endpoint: Endpoint, request: Request, caller: Caller | None) -> ASGIApp:
        operation = endpoint.operation
        if operation.method == "POST" and operation.repeat != "own" and KEY_HEADER in request.headers:
            return await self._repeats.answer(operation, endpoint.handler, request, caller)
        return await endpoint.handler(request)

    def admit(self, operation: Operation, connection: HTTPConnection) -> Caller | None:
        """The caller, who may do this; nobody where everybody may. Raises what to tell anybody else."""
        query: bytes = connection.scope["query_string"]
        if query:
            refuse_token(query)
        caller = None
        if not operation.open:
            caller = self._caller(operation, connection)
            give_caller(connection, caller)
            if operation.right is not None and operation.right not in caller.rights:
                raise Forbidden(
                    f"this needs the right {operation.right}",
                    hint="ask an admin of the workspace for a role or a key that has it",
                    right=operation.right,
                )
            refused = self._rates.take(_name(caller))
            if refused is not None:
                raise refused
        if query:
            check_query(operation.query, query, ticket=operation.ticket)
        return caller

    def _caller(self, operation: Operation, connection: HTTPConnection) -> Caller:
        if operation.ticket and (ticket := ticket_in(connection)) is not None:
            if "authorization" in connection.headers:
                raise InvalidRequest("there is a ticket and a token", hint="send one of them", field="ticket")
            holder = self._tickets.redeem(ticket, connection.scope["path"])
            if holder is None or not self._presence.is_current(holder):
                raise self._stranger(connection, _no_ticket())
            return holder
        found = self._authenticator.authenticate(connection)
        if isinstance(found, Caller):
            return found
        if operation.run_token and (token := bearer_of(connection)) is not None:
            found = self._run_tokens(token, connection.path_params["run_id"])
        if isinstance(found, Caller):
            return found
        raise self._stranger(connection, found)

    def _stranger(self, connection: HTTPConnection, error: HostError) -> HostError:
        """What somebody without a valid token is told; after many tries, to wait."""
        client = connection.client
        return self._strangers.take("" if client is None else client.host) or error


def _name(caller: Caller) -> str:
    return f"{caller.workspace}/{caller.name}"


def _no_ticket() -> HostError:
    return Unauthenticated(
        "the ticket opens nothing here",
        hint="a ticket is good for one path, once, for seconds: get another with POST /api/v1/tickets",
    )


def broken() -> HostError:
    """What is said of a mistake of ours."""
    return HostError("the host made a mistake", hint="its log says more; please report it")
