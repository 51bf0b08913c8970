"""What stands before every operation: who asks, whether they may, how often, and whether they asked before. What goes
wrong behind it becomes a typed answer. Cheap: it is on the hot path."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

import msgspec
import structlog
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from bollard.host.background import Background
from bollard.host.errors import Forbidden, HostError, InvalidRequest, Unauthenticated
from bollard.host.http.answers import error_answer
from bollard.host.http.auth.callers import Authenticator, bearer_of, give_caller
from bollard.host.http.auth.presence import LongRead, Presence
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.edge.rates import ConcurrencyLimit
from bollard.host.http.errors import InFlight, StorageStalled
from bollard.host.http.idempotency import KEY_HEADER, Repeats
from bollard.host.http.operations import Operation
from bollard.host.http.queries import check_query, refuse_token, ticket_in
from bollard.host.http.request_log import RequestWatch
from bollard.host.identity.caller import Caller
from bollard.host.limits import EVENT_BYTES, READY_PROBE_S, REQUESTS_AT_ONCE, STALL_S
from bollard.host.secrets.redactor import Scrubber

# Answers requests whose operation waits for a journal or a store that does not answer.
#
# The operation itself is never cut: it goes on to its real fate, keeps its answer for an `Idempotency-Key`, and what
# it made is found by its event id. Only the client is told early that the outcome is not known yet.


_log = structlog.get_logger("bollard.host.http")
_RETRY_S: Final = 0.5
"""Time between two probes while requests wait for long."""


class OpenRequest:
    """A request whose operation has not returned an answer yet."""

    __slots__ = ("_receive", "is_answered", "operation", "scope", "send", "since")

    def __init__(self, operation: str, scope: Scope, receive: Receive, send: Send, since: float) -> None:
        self.operation = operation
        self.scope = scope
        self.send = send
        self.since: float | None = since
        """Since when the client waits for the host; `None` while the host waits for the client's body."""
        self.is_answered = False
        """Whether the client was told of the stall, so that the operation's answer has nobody to go to."""
        self._receive = receive

    async def discard(self, answer: ASGIApp) -> None:
        """Let an answer end that comes too late, as if its client had hung up: a stream gives its reader back."""
        await answer(self.scope, _hung_up, _nowhere)

    async def receive(self) -> Message:
        self.since = None
        try:
            return await self._receive()
        finally:
            self.since = asyncio.get_running_loop().time()


class StallWatch:
    """Knows the open requests. One timer for all of them: a request costs an entry in a dictionary."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[tuple[str, ...]]],
        told: Callable[[str, int], None],
        *,
        patience_s: float = STALL_S,
    ) -> None:
        """`probe` names what does not answer now; `told` hears of each operation that was answered here, and with which
        status."""
        self._probe = probe
        self._told = told
        self._patience_s = patience_s
        self._lead_s = min(READY_PROBE_S, patience_s)
        self._open: dict[OpenRequest, None] = {}
        self._stalled: set[OpenRequest] = set()
        """Operations that go on after their client was told."""
        self._last: StorageStalled | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background()

    def enter(self, operation: str, scope: Scope, receive: Receive, send: Send) -> OpenRequest:
        loop = asyncio.get_running_loop()
        request = OpenRequest(operation, scope, receive, send, loop.time())
        self._open[request] = None
        if self._timer is None:
            self._arm(self._patience_s - self._lead_s)
        return request

    def leave(self, request: OpenRequest) -> None:
        """The operation has ended."""
        self._open.pop(request, None)
        self._stalled.discard(request)

    @property
    def stall(self) -> StorageStalled | None:
        """What an operation waits for whose client was told; `None` when there is no such operation."""
        return self._last if self._stalled else None

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Probe when a request has waited almost long enough; look again when the next one will have."""
        self._timer = None
        waits = [self._waited_s(request) for request in self._open]
        if not waits:
            return
        left_s = self._patience_s - self._lead_s - max(waits)
        if left_s > 0:
            self._arm(left_s)
        else:
            self._background.begin(self._answer_stalled())

    async def _answer_stalled(self) -> None:
        try:
            silent = await self._probe()
            least_s = self._patience_s - _RETRY_S  # not one more probe for those that came a moment later
            late = [each for each in self._open if each.since is not None and self._waited_s(each) >= least_s]
            if silent and late:
                await self._answer(late, silent)
        finally:
            if self._timer is None:
                self._arm(_RETRY_S)

    async def _answer(self, late: list[OpenRequest], silent: tuple[str, ...]) -> None:
        waits_for = " and ".join(silent)
        verb = "has" if len(silent) == 1 else "have"
        self._last = error = StorageStalled(
            f"the {waits_for} {verb} not answered for {self._patience_s:g} s: whether this was done is not known yet",
            hint="repeat the request with the same Idempotency-Key or event id: it returns the first outcome",
            outcome="unknown",
            waits_for=waits_for,
            retry_after_s=self._patience_s,
        )
        _log.warning("requests wait for storage that does not answer", waits_for=waits_for, requests=len(late))
        for request in late:
            del self._open[request]
            self._stalled.add(request)
            request.is_answered = True
        await asyncio.gather(*(self._tell(request, error) for request in late))

    async def _tell(self, request: OpenRequest, error: StorageStalled) -> None:
        answer = error_answer(error)
        self._told(request.operation, answer.status_code)
        await answer(request.scope, _hung_up, request.send)

    def _waited_s(self, request: OpenRequest) -> float:
        return 0.0 if request.since is None else asyncio.get_running_loop().time() - request.since


async def _hung_up() -> Message:
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    del message


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


class _Stream(LongRead, Protocol):
    """An answer that goes on until somebody ends it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


RunTokens = Callable[[str, str], Caller | HostError]
"""Who holds this token for this run, or what to tell whoever does not."""


class Endpoint(msgspec.Struct, frozen=True):
    """An operation with the methods of its resource bound."""

    operation: Operation
    handler: Callable[[Request], Awaitable[ASGIApp]]
    socket: Callable[[WebSocket], Awaitable[None]] | None = None


async def nothing_is_silent() -> tuple[str, ...]:
    return ()


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of requests, and what watches them."""

    event_bytes: int = EVENT_BYTES
    """Bytes that the body of an event may have."""
    rates: Rates = Unlimited()
    """Of known callers."""
    strangers: Rates = Unlimited()
    """Of addresses that have no valid token."""
    at_once: ConcurrencyLimit = msgspec.field(default_factory=lambda: ConcurrencyLimit(REQUESTS_AT_ONCE))
    watch: RequestWatch | None = None
    hidden: Scrubber | None = None
    """Removes secrets from refusals."""
    silent: Callable[[], Awaitable[tuple[str, ...]]] = nothing_is_silent
    """Names which of the journal and the store do not answer now."""


class Guard:
    """One for all operations."""

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
        """One HTTP request."""
        watch, operation = self._watch, endpoint.operation
        waiting = self._stalls.enter(operation.name, scope, receive, send)
        request = Request(scope, waiting.receive, send)
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
            self._stalls.leave(waiting)
            status = getattr(answer, "status_code", 200)
            if waiting.is_answered:
                await waiting.discard(answer)
                return
            if watch is not None:
                watch.answered(operation.name, status)
            if caller is not None and hasattr(answer, "end"):
                await self._kept_open(cast("_Stream", answer), caller, scope, receive, send)
            else:
                await answer(scope, receive, send)
        finally:
            self._stalls.leave(waiting)
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
            try:
                return await self._repeats.answer(operation, endpoint.handler, request, caller)
            except InFlight:
                if (stall := self._stalls.stall) is not None:
                    raise stall from None  # to the client the first request is over
                raise
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
