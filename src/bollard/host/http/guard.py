"""Guards every operation: authentication, rights, rate limits, idempotency keys and errors as responses. On the hot
path, so it is cheap."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

import msgspec
import structlog
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from bollard.host.background import Background
from bollard.host.errors import HostError, InvalidRequest, Unauthenticated
from bollard.host.http.answers import error_answer, internal_error
from bollard.host.http.auth.callers import Authenticator, bearer_of, give_caller
from bollard.host.http.auth.presence import LongRead, Presence
from bollard.host.http.auth.renewable_tickets import RENEWABLE
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.errors import InFlight, StorageStalled
from bollard.host.http.idempotency import KEY_HEADER, Repeats
from bollard.host.http.operations import Operation
from bollard.host.http.queries import check_query, refuse_token, ticket_in
from bollard.host.http.rates import ConcurrencyLimit
from bollard.host.http.request_log import RequestWatch
from bollard.host.identity.caller import Caller
from bollard.host.limits import EVENT_BYTES, READY_PROBE_S, REQUESTS_AT_ONCE, STALL_S
from bollard.host.secrets.redactor import Scrubber

_log = structlog.get_logger("bollard.host.http")
_TICKET: Final = "bollard.ticket"
"""In the scope of a request that opened a stream with a renewable ticket."""
_RETRY_S: Final = 0.5
"""Time between two probes while requests are stalled."""


class OpenRequest:
    """A request whose operation has not returned yet."""

    __slots__ = ("_receive", "is_answered", "operation", "scope", "send", "since")

    def __init__(self, operation: str, scope: Scope, receive: Receive, send: Send, since: float) -> None:
        self.operation = operation
        self.scope = scope
        self.send = send
        self.since: float | None = since
        """When the client began to wait for the host; `None` while the host waits for the client's body."""
        self.is_answered = False
        """Whether the client got `storage_stalled`, so that the response of the operation is discarded."""
        self._receive = receive

    async def discard(self, answer: ASGIApp) -> None:
        """Run a late response as if its client had disconnected, so that a stream releases its reader."""
        await answer(self.scope, _disconnected, _discard)

    async def receive(self) -> Message:
        self.since = None
        try:
            return await self._receive()
        finally:
            self.since = asyncio.get_running_loop().time()


class StallWatch:
    """Sends `storage_stalled` to clients whose operations wait for a journal or store that does not respond.

    The operation itself continues: its response is saved for an `Idempotency-Key`, and its results are found by event
    id. One timer serves all requests; each costs an entry in a dictionary.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[tuple[str, ...]]],
        on_response: Callable[[str, int], None],
        *,
        timeout_s: float = STALL_S,
    ) -> None:
        """`probe` returns the names of what does not respond now. `on_response` is called with the operation and the
        status of each response sent from here."""
        self._probe = probe
        self._on_response = on_response
        self._timeout_s = timeout_s
        self._lead_s = min(READY_PROBE_S, timeout_s)
        self._open: dict[OpenRequest, None] = {}
        self._stalled: set[OpenRequest] = set()
        """Operations that continue after their client got the error."""
        self._last: StorageStalled | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background()

    def enter(self, operation: str, scope: Scope, receive: Receive, send: Send) -> OpenRequest:
        loop = asyncio.get_running_loop()
        request = OpenRequest(operation, scope, receive, send, loop.time())
        self._open[request] = None
        if self._timer is None:
            self._arm(self._timeout_s - self._lead_s)
        return request

    def leave(self, request: OpenRequest) -> None:
        """The operation has ended."""
        self._open.pop(request, None)
        self._stalled.discard(request)

    @property
    def stall(self) -> StorageStalled | None:
        """The last error that was sent, while an operation of such a client continues."""
        return self._last if self._stalled else None

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        """Probe when a request has almost timed out; otherwise check again when the next one will have."""
        self._timer = None
        waits = [self._wait_s(request) for request in self._open]
        if not waits:
            return
        left_s = self._timeout_s - self._lead_s - max(waits)
        if left_s > 0:
            self._arm(left_s)
        else:
            self._background.begin(self._answer_stalled())

    async def _answer_stalled(self) -> None:
        try:
            unresponsive = await self._probe()
            least_s = self._timeout_s - _RETRY_S  # one probe also covers requests that came a moment later
            late = [each for each in self._open if each.since is not None and self._wait_s(each) >= least_s]
            if unresponsive and late:
                await self._answer(late, unresponsive)
        finally:
            if self._timer is None:
                self._arm(_RETRY_S)

    async def _answer(self, late: list[OpenRequest], unresponsive: tuple[str, ...]) -> None:
        waits_for = " and ".join(unresponsive)
        self._last = error = StorageStalled(
            f"no response from the {waits_for} for {self._timeout_s:g} s: the outcome of this request is not known yet",
            reason="no_response",
            hint="repeat the request with the same Idempotency-Key or event id: it returns the first outcome",
            outcome="unknown",
            waits_for=waits_for,
            retry_after_s=self._timeout_s,
        )
        _log.warning("requests are stalled: the storage does not respond", waits_for=waits_for, requests=len(late))
        for request in late:
            del self._open[request]
            self._stalled.add(request)
            request.is_answered = True
        await asyncio.gather(*(self._respond(request, error) for request in late))

    async def _respond(self, request: OpenRequest, error: StorageStalled) -> None:
        answer = error_answer(error)
        self._on_response(request.operation, answer.status_code)
        await answer(request.scope, _disconnected, request.send)

    def _wait_s(self, request: OpenRequest) -> float:
        return 0.0 if request.since is None else asyncio.get_running_loop().time() - request.since


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


async def _discard(message: Message) -> None:
    del message


class Rates(Protocol):
    """A rate limit per identity."""

    def take(self, name: str) -> HostError | None:
        """Count one request; returns the error when the limit is reached."""
        ...


class Unlimited:
    """No rate limit."""

    def take(self, name: str) -> HostError | None:
        del name
        return None


class _Stream(LongRead, Protocol):
    """A response that can be ended from outside."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


RunTokens = Callable[[str, str], Caller | HostError]
"""The caller for a run token and a run, or the error."""


class Endpoint(msgspec.Struct, frozen=True):
    """An operation with the methods of its resource bound."""

    operation: Operation
    handler: Callable[[Request], Awaitable[ASGIApp]]
    socket: Callable[[WebSocket], Awaitable[None]] | None = None


async def always_responsive() -> tuple[str, ...]:
    return ()


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, logging and probes of requests."""

    event_bytes: int = EVENT_BYTES
    """The largest body of an event."""
    rates: Rates = Unlimited()
    """Rates of authenticated callers."""
    strangers: Rates = Unlimited()
    """Rates of addresses without a valid token."""
    at_once: ConcurrencyLimit = msgspec.field(default_factory=lambda: ConcurrencyLimit(REQUESTS_AT_ONCE))
    watch: RequestWatch | None = None
    hidden: Scrubber | None = None
    """Removes secrets from errors."""
    silent: Callable[[], Awaitable[tuple[str, ...]]] = always_responsive
    """The names of those of journal and store that do not respond now."""


class Guard:
    """Admits requests and turns errors into responses, for all operations."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        tickets: TicketRegistry,
        repeats: Repeats,
        run_tokens: RunTokens,
        traffic: Traffic,
        presence: Presence | None = None,
    ) -> None:
        self._hidden = traffic.hidden
        self._watch = traffic.watch
        self._stalls = StallWatch(traffic.silent, self.counted)
        self._presence = presence or Presence(lambda _: True)
        self._authenticator = authenticator
        self._tickets = tickets
        self._repeats = repeats
        self._run_tokens = run_tokens
        self._rates = traffic.rates
        self._strangers = traffic.strangers
        self._at_once = traffic.at_once

    async def answer(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        watch, operation = self._watch, endpoint.operation
        waiting = self._stalls.enter(operation.name, scope, receive, send)
        request = Request(scope, waiting.receive, send)
        watched = watch.begin(scope, operation.name) if watch is not None and watch.is_detailed else None
        status, entered, caller = 0, None, None
        try:
            try:
                caller = self.admit(operation, request)
                entered = None if caller is None else self.enter(caller)
                answer = await self._handle(endpoint, request, caller)
            except ClientDisconnect:
                return  # no client is left
            except HostError as error:
                answer = error_answer(error, self._hidden)
            except Exception:  # noqa: BLE001 -- the boundary: the caller gets a typed error, the log the rest
                _log.exception("a request failed", operation=operation.name)
                answer = error_answer(internal_error())
            self._stalls.leave(waiting)
            status = getattr(answer, "status_code", 200)
            if waiting.is_answered:
                await waiting.discard(answer)
                return
            if watch is not None:
                watch.answered(operation.name, status)
            if caller is not None and hasattr(answer, "end"):
                await self._run_stream(cast("_Stream", answer), caller, scope, receive, send)
            else:
                await answer(scope, receive, send)
        finally:
            self._stalls.leave(waiting)
            self.leave(entered)
            if _TICKET in scope:
                self._tickets.renewable.leave(scope[_TICKET])
            if watch is not None and watched is not None:
                watch.end(watched, scope, operation.name, operation.path, status)

    async def _run_stream(self, stream: "_Stream", caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a stream, which ends early when the caller loses access."""
        self._presence.enter(stream, caller)
        try:
            await stream(scope, receive, send)
        finally:
            self._presence.leave(stream)

    def enter(self, caller: Caller) -> str:
        """Open a request of this caller, which `leave` closes. Raises `Overloaded`."""
        name = _name(caller)
        error = self._at_once.enter(name)
        if error is not None:
            raise error
        return name

    def leave(self, entered: str | None) -> None:
        if entered is not None:
            self._at_once.leave(entered)

    def counted(self, operation: str, status: int) -> None:
        """Count a response that was sent elsewhere."""
        if self._watch is not None:
            self._watch.answered(operation, status)

    async def _handle(self, endpoint: Endpoint, request: Request, caller: Caller | None) -> ASGIApp:
        operation = endpoint.operation
        if operation.method == "POST" and operation.repeat != "own" and KEY_HEADER in request.headers:
            try:
                return await self._repeats.answer(operation, endpoint.handler, request, caller)
            except InFlight:
                if (stall := self._stalls.stall) is not None:
                    raise stall from None  # the client got this error for the first request
                raise
        return await endpoint.handler(request)

    def admit(self, operation: Operation, connection: HTTPConnection) -> Caller | None:
        """The caller, if it may use this operation; `None` for an open operation. Raises the error to send."""
        query: bytes = connection.scope["query_string"]
        if query:
            refuse_token(query)
        caller = None
        if not operation.open:
            caller = self._caller(operation, connection)
            give_caller(connection, caller)
            if operation.right is not None:
                caller.require(operation.right)
            error = self._rates.take(_name(caller))
            if error is not None:
                raise error
        if (query or operation.query) and not operation.any_query:
            check_query(operation.query, query, ticket=operation.ticket)
        return caller

    def _caller(self, operation: Operation, connection: HTTPConnection) -> Caller:
        if operation.ticket and (ticket := ticket_in(connection)) is not None:
            if "authorization" in connection.headers:
                raise InvalidRequest(
                    "the request has a ticket and a token",
                    reason="ticket_and_token",
                    hint="send one of them",
                    field="ticket",
                )
            return self._ticket_holder(ticket, connection)
        caller = self._authenticator.authenticate(connection)
        if isinstance(caller, Caller):
            return caller
        if operation.run_token and (token := bearer_of(connection)) is not None:
            caller = self._run_tokens(token, connection.path_params["run_id"])
        if isinstance(caller, Caller):
            return caller
        raise self._reject(connection, caller)

    def _ticket_holder(self, ticket: str, connection: HTTPConnection) -> Caller:
        renewable, path = self._tickets.renewable, connection.scope["path"]
        if not ticket.startswith(RENEWABLE):
            holder = self._tickets.redeem(ticket, path)
        elif (holder := renewable.enter(ticket, path)) is not None:
            connection.scope[_TICKET] = ticket
        if holder is None or not self._presence.is_current(holder):
            renewable.drop(ticket)
            raise self._reject(connection, _invalid_ticket())
        return holder

    def _reject(self, connection: HTTPConnection, error: HostError) -> HostError:
        """The error for a client without a valid token, or the rate limit after many attempts."""
        client = connection.client
        return self._strangers.take("" if client is None else client.host) or error


def _name(caller: Caller) -> str:
    return f"{caller.workspace}/{caller.name}"


def _invalid_ticket() -> HostError:
    return Unauthenticated(
        "the ticket is not valid here",
        reason="ticket",
        hint="a ticket opens one path, once or while it is renewed: get another with POST /api/v1/tickets",
    )
