"""Saved responses for `Idempotency-Key`: while the first request is in progress, after it failed, after it was
interrupted."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message
from tests.doubles.manual_clock import ManualClock
from tests.replacement import replace

from bollard.host.errors import Conflict, InvalidRequest, StorageFull
from bollard.host.http import idempotency as repeats_module
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.errors import InFlight, RepeatMismatch
from bollard.host.http.idempotency import Repeats
from bollard.host.http.operations import Operation
from bollard.host.identity.caller import Caller, installation
from bollard.host.limits import KEPT_ANSWER_S
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store

ANN = Caller(workspace="one", kind="session", name="user:ann", user_id="ann")
BOB = Caller(workspace="one", kind="session", name="user:bob", user_id="bob")
Handler = Callable[[Request], Awaitable[Any]]


async def never(self: Any, request: Request) -> Response:
    raise AssertionError("the list of operations is not asked")


OPERATION = Operation(method="POST", path="/x", handler=never, name="x", tag="x", summary="x.")
BY_HEAD = replace(OPERATION, repeat="head")


def request_of(body: bytes = b'{"a":1}', *, key: str = "k", path: str = "/x", query: bytes = b"") -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"idempotency-key", key.encode()), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": query, "headers": headers}
    return Request(scope, receive)


@dataclass
class Desk:
    """Answers requests, and counts how often something was done."""

    repeats: Repeats
    journal: Journal
    clock: ManualClock
    done: int = 0

    async def do(self, request: Request) -> Response:
        body = await read_body(request)
        self.done += 1
        return JsonAnswer({"number": self.done, "body": body}, status_code=201, headers={"etag": '"1"', "x-own": "1"})

    async def ask(
        self, handler: Handler | None = None, caller: Caller | None = ANN, operation: Operation = OPERATION, **more: Any
    ) -> Any:
        return await self.repeats.answer(operation, handler or self.do, request_of(**more), caller)


@pytest.fixture
async def desk(open_journal: Callable[..., Journal], memory_store: Store, clock: ManualClock) -> Desk:
    journal = open_journal(memory_store)
    return Desk(Repeats(journal=journal, store=memory_store, clock=clock, secret=b"s" * 32), journal, clock)


async def test_a_repeat_gets_the_bytes_of_the_first_answer(desk: Desk) -> None:
    first, again = await desk.ask(), await desk.ask()
    assert (again.status_code, again.body, desk.done) == (201, first.body, 1)
    assert (again.headers["etag"], again.headers["content-type"]) == ('"1"', "application/json")
    assert (again.headers["idempotency-replayed"], "x-own" in again.headers) == ("true", False)


async def test_a_repeat_during_the_first_request_is_refused_as_in_flight(desk: Desk) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await go_on.wait()
        return await desk.do(request)

    first = asyncio.create_task(desk.ask(slow))
    await begun.wait()
    with pytest.raises(InFlight) as refused:
        await desk.ask()
    assert (refused.value.code, refused.value.retryable) == ("conflict", True)
    with pytest.raises(RepeatMismatch):
        await desk.ask(body=b'{"a":2}')
    go_on.set()
    await first
    assert ((await desk.ask()).body, desk.done) == ((await first).body, 1)


@pytest.mark.parametrize("other", [{"body": b'{"a":2}'}, {"path": "/y"}, {"query": b"a=1"}, {"body": b""}])
async def test_a_key_belongs_to_one_request(desk: Desk, other: Any) -> None:
    await desk.ask()
    with pytest.raises(RepeatMismatch):
        await desk.ask(**other)
    assert desk.done == 1


async def test_keys_of_two_callers_are_separate(desk: Desk) -> None:
    answers = [await desk.ask(), await desk.ask(caller=BOB), await desk.ask(caller=installation("two"))]
    assert (len({answer.body for answer in answers}), desk.done) == (3, 3)


async def test_without_a_caller_no_answer_is_saved(desk: Desk) -> None:
    await desk.ask(caller=None)
    await desk.ask(caller=None)
    assert desk.done == 2


async def test_a_refused_request_may_be_retried(desk: Desk) -> None:
    async def refuse(request: Request) -> Response:
        del request
        raise InvalidRequest("no", reason="test", hint="yes")

    async def fail(request: Request) -> Response:
        del request
        raise RuntimeError("a mistake of ours")

    async def refuse_politely(request: Request) -> Response:
        del request
        return JsonAnswer({}, status_code=409)

    for _ in range(2):
        with pytest.raises(InvalidRequest):
            await desk.ask(refuse)
    with pytest.raises(RuntimeError):
        await desk.ask(fail)
    assert (await desk.ask(refuse_politely)).status_code == 409
    assert (await desk.ask(body=b'{"a":2}')).status_code == 201


async def test_an_interrupted_request_is_refused_as_unknown(desk: Desk) -> None:
    begun = asyncio.Event()

    async def slow(request: Request) -> Response:
        del request
        begun.set()
        return await asyncio.get_running_loop().create_future()

    first = asyncio.create_task(desk.ask(slow))
    await begun.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    with pytest.raises(Conflict, match="unknown") as refused:
        await desk.ask()
    assert (refused.value.retryable, desk.done) == (False, 0)


async def test_an_answer_expires_after_a_day(desk: Desk) -> None:
    await desk.ask()
    desk.clock.advance(KEPT_ANSWER_S - 1)
    await desk.ask()
    assert desk.done == 1
    desk.clock.advance(1)
    await desk.ask()
    assert desk.done == 2


async def test_an_oversized_answer_is_not_repeated(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats_module, "KEPT_ANSWER_BYTES", 10)
    assert (await desk.ask()).status_code == 201
    with pytest.raises(Conflict, match="too large"):
        await desk.ask()
    assert desk.done == 1


async def test_a_request_is_not_started_if_its_answer_cannot_be_saved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "full", True)
    with pytest.raises(StorageFull) as refused:
        await desk.ask()
    assert "without Idempotency-Key" in refused.value.hint
    assert desk.done == 0


async def test_a_streamed_body_is_identified_by_its_length(desk: Desk) -> None:
    """It is not held in memory to be compared."""
    first = await desk.ask(operation=BY_HEAD, body=b'{"a":1}')
    again = await desk.ask(operation=BY_HEAD, body=b'{"a":2}')
    assert (again.body, desk.done) == (first.body, 1)
    with pytest.raises(RepeatMismatch):
        await desk.ask(operation=BY_HEAD, body=b'{"a":22}')
