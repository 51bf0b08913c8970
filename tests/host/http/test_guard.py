"""The guard and the router, without a socket: admission and errors."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message
from starlette.websockets import WebSocket
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import Conflict, HostError, Overloaded, Unauthenticated
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.guard import Guard, Traffic
from bollard.host.http.idempotency import Repeats
from bollard.host.http.operations import Operation, QueryField
from bollard.host.http.rates import ConcurrencyLimit
from bollard.host.http.router import Router
from bollard.host.identity.caller import Caller
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store

ANN = Caller(workspace="one", kind="session", name="user:ann", rights=frozenset({"runs.read"}))
Handler = Callable[[Request], Awaitable[ASGIApp]]
_DENIAL: dict[str, Any] = {"websocket.http.response": {}}


class Tokens:
    """`Bearer ann` is Ann."""

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        return ANN if connection.headers.get("authorization") == "Bearer ann" else Unauthenticated()


@dataclass
class Turns:
    """As many as there are."""

    left: int = 1000
    asked: list[str] = field(default_factory=list[str])

    def take(self, name: str) -> HostError | None:
        self.asked.append(name)
        self.left -= 1
        return Overloaded("too often", reason="test", hint="wait") if self.left < 0 else None


class Things:
    """One operation of each kind; the test chooses its behaviour."""

    def __init__(self) -> None:
        self.act: Handler | None = None
        self.callers: list[Caller] = []
        self.wrong: Exception = Overloaded("too much", reason="test", hint="wait")

    @staticmethod
    def operations() -> list[Operation]:
        def operation(method: str, path: str, **more: Any) -> Operation:
            return Operation(
                method=method, path=path, handler=Things.do, name=f"{method}{path}", tag="t", summary="s.", **more
            )

        return [
            operation("GET", "/things", right="runs.read", query=(QueryField(name="size", summary=""),)),
            operation("POST", "/things", right="runs.create"),
            operation("GET", "/open", open=True),
            operation("GET", "/stream", right="runs.read", ticket=True),
            operation("GET", "/socket", right="runs.read", socket=Things.talk),
        ]

    async def talk(self, socket: WebSocket) -> None:
        await socket.accept()
        raise self.wrong

    async def do(self, request: Request) -> ASGIApp:
        if request.scope["path"] != "/open":
            self.callers.append(caller_of(request))
        return await self.act(request) if self.act is not None else JsonAnswer({"done": True})


@dataclass
class Door:
    """A router to ask."""

    router: Router
    things: Things
    tickets: TicketRegistry
    rates: Turns
    strangers: Turns
    at_once: ConcurrencyLimit

    async def ask(
        self, method: str = "GET", path: str = "/things", token: str | None = "ann", query: str = ""
    ) -> tuple[int, Any, dict[str, str]]:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "client": ("192.0.2.7", 1),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.router(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], json.loads(sent[1]["body"]), found

    async def connect(self, path: str = "/socket", token: str = "ann") -> list[Message]:
        """The messages sent to a WebSocket."""
        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers, "extensions": _DENIAL}
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.router(scope, receive, send)
        return sent


@pytest.fixture
async def door(open_journal: Callable[..., Journal], memory_store: Store, clock: ManualClock) -> Door:
    things, tickets, rates, strangers, at_once = Things(), TicketRegistry(clock), Turns(), Turns(), ConcurrencyLimit(2)
    guard = Guard(
        authenticator=Tokens(),
        tickets=tickets,
        repeats=Repeats(journal=open_journal(memory_store), store=memory_store, clock=clock, secret=b"s"),
        run_tokens=lambda token, run_id: Unauthenticated(),
        traffic=Traffic(rates=rates, strangers=strangers, at_once=at_once),
    )
    return Door(Router([things], guard), things, tickets, rates, strangers, at_once)


async def test_a_caller_with_the_right_passes(door: Door) -> None:
    assert (await door.ask())[:2] == (200, {"done": True})
    assert (door.things.callers, door.rates.asked) == ([ANN], ["one/user:ann"])


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"token": None}, 401, "unauthenticated"),
        ({"token": "eve"}, 401, "unauthenticated"),
        ({"method": "POST"}, 403, "unauthorized"),
        ({"query": "sise=1"}, 400, "invalid_argument"),
        ({"query": "token=ann"}, 400, "invalid_argument"),
        ({"path": "/nothing"}, 404, "not_found"),
        ({"method": "PUT"}, 405, "method_not_allowed"),
    ],
)
async def test_every_other_caller_is_refused_with_a_reason(door: Door, asked: Any, status: int, code: str) -> None:
    found, body, _ = await door.ask(**asked)
    assert (found, body["error"]["code"]) == (status, code)
    assert body["error"]["hint"]
    assert door.things.callers == []


async def test_an_open_operation_needs_no_token_and_no_rate(door: Door) -> None:
    assert (await door.ask(path="/open", token=None))[0] == 200
    assert (door.rates.asked, door.strangers.asked) == ([], [])


async def test_a_caller_above_its_rate_gets_429(door: Door) -> None:
    door.rates.left = 1
    assert [(await door.ask())[0] for _ in range(2)] == [200, 429]
    assert len(door.things.callers) == 1


async def test_an_address_with_too_many_wrong_tokens_gets_429(door: Door) -> None:
    door.strangers.left = 2
    statuses = [(await door.ask(token=token))[0] for token in ("a", None, "b")]
    statuses.append((await door.ask(path="/stream", token=None, query="ticket=x"))[0])
    assert statuses == [401, 401, 429, 429]
    assert set(door.strangers.asked) == {"192.0.2.7"}
    assert (await door.ask())[0] == 200  # a valid token is not a guess


async def test_refusals_and_internal_errors_are_typed(door: Door) -> None:
    async def refuse(request: Request) -> ASGIApp:
        raise Conflict("no", reason="test", hint="later")

    async def fail(request: Request) -> ASGIApp:
        raise ZeroDivisionError("the secret of the house")

    door.things.act = refuse
    assert (await door.ask())[0] == 409
    door.things.act = fail
    status, body, _ = await door.ask()
    assert (status, body["error"]["code"]) == (500, "runtime_error")
    assert "secret" not in json.dumps(body)
    assert [door.at_once.enter("one/user:ann") for _ in range(2)] == [None, None]  # nothing is left behind


async def test_concurrent_requests_are_limited(door: Door) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> ASGIApp:
        if len(door.things.callers) == 2:
            begun.set()
        await go_on.wait()
        return JsonAnswer({})

    door.things.act = slow
    asking = [asyncio.create_task(door.ask()) for _ in range(2)]
    await begun.wait()
    assert (await door.ask())[0] == 429
    asking[0].cancel()  # a client that left gives its place back
    await asyncio.gather(asking[0], return_exceptions=True)
    go_on.set()
    assert (await door.ask())[0] == 200
    assert (await asking[1])[0] == 200
    assert [door.at_once.enter("one/user:ann") for _ in range(2)] == [None, None]


async def test_a_ticket_identifies_its_caller(door: Door) -> None:
    ticket = door.tickets.issue(ANN, "/stream")
    assert (await door.ask(path="/stream", token=None, query=f"ticket={ticket}"))[0] == 200
    assert door.things.callers == [ANN]
    assert (await door.ask(path="/stream", token=None, query=f"ticket={ticket}"))[0] == 401


async def test_a_wrong_method_gets_the_list_of_allowed_methods(door: Door) -> None:
    _, _, headers = await door.ask(method="PATCH")
    assert headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    ("wrong", "code", "reason"),
    [
        (Overloaded("too much", reason="test", hint="wait"), 1013, "rate_limited"),
        (Conflict("no", reason="test", hint="later"), 1011, "conflict"),
        (ValueError("a mistake of ours"), 1011, "the host failed because of a bug"),
    ],
)
async def test_an_accepted_socket_that_fails_is_closed_with_the_reason(
    door: Door, wrong: Exception, code: int, reason: str
) -> None:
    door.things.wrong = wrong
    accepted, closed = await door.connect()
    assert accepted["type"] == "websocket.accept"
    assert (closed["type"], closed["code"], closed["reason"]) == ("websocket.close", code, reason)
    assert door.at_once.names == 0


async def test_a_refused_socket_gets_an_http_response(door: Door) -> None:
    start, _ = await door.connect(token="eve")
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert door.at_once.names == 0
