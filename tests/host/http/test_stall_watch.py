"""Requests that wait for storage: which clients get the error, and what happens to the response of the operation."""

import asyncio
import json
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from starlette.types import Message

from bollard.host.http.guard import OpenRequest, StallWatch

PATIENCE_S = 0.02
SCOPE = {"type": "http", "method": "POST", "path": "/x", "headers": [], "asgi": {"spec_version": "2.3"}}


class Client:
    """One client, and its messages."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.answered = asyncio.Event()
        self.body = asyncio.Event()

    async def receive(self) -> Message:
        await self.body.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.answered.set()

    @property
    def error(self) -> dict[str, Any]:
        assert self.sent[0]["status"] == 503
        return json.loads(self.sent[1]["body"])["error"]


class Storage:
    """A journal and a store that answer, or do not."""

    def __init__(self, *silent: str) -> None:
        self.silent = silent
        self.probes = asyncio.Semaphore(0)

    async def probe(self) -> tuple[str, ...]:
        self.probes.release()
        return self.silent


@pytest.fixture
def counted() -> list[tuple[str, int]]:
    return []


def _watch(storage: Storage, counted: list[tuple[str, int]]) -> StallWatch:
    return StallWatch(storage.probe, lambda name, status: counted.append((name, status)), timeout_s=PATIENCE_S)


def _enter(watch: StallWatch, client: Client) -> OpenRequest:
    return watch.enter("createRun", SCOPE, client.receive, client.send)


async def test_a_request_that_waits_for_silent_storage_gets_an_error_and_continues(
    counted: list[tuple[str, int]],
) -> None:
    watch, client = _watch(Storage("journal"), counted), Client()
    request = _enter(watch, client)
    await client.answered.wait()
    assert (client.error["code"], client.error["retryable"]) == ("storage_stalled", True)
    assert client.error["details"] | {"retry_after_s": 0} == {
        "reason": "no_response",
        "outcome": "unknown",
        "waits_for": "journal",
        "retry_after_s": 0,
    }
    assert request.is_answered
    assert counted == [("createRun", 503)]
    assert watch.stall is not None, "its operation has not ended"
    watch.leave(request)
    assert watch.stall is None


async def test_a_request_that_does_not_wait_for_storage_gets_no_error(counted: list[tuple[str, int]]) -> None:
    storage, client = Storage(), Client()
    watch = _watch(storage, counted)
    request = _enter(watch, client)
    for _ in range(2):
        await storage.probes.acquire()
    assert not client.sent
    assert not request.is_answered
    watch.leave(request)
    assert watch.stall is None


async def test_a_request_with_an_incomplete_body_gets_no_stall_error(counted: list[tuple[str, int]]) -> None:
    storage, slow, other = Storage("journal", "store"), Client(), Client()
    watch = _watch(storage, counted)
    uploading, waiting = _enter(watch, slow), _enter(watch, other)
    receiving = asyncio.create_task(uploading.receive())
    await other.answered.wait()
    assert waiting.is_answered
    assert not slow.sent
    slow.body.set()
    await receiving
    await slow.answered.wait()
    assert slow.error["details"]["waits_for"] == "journal and store"
    assert uploading.is_answered


async def test_a_late_stream_ends_as_if_its_reader_had_disconnected(counted: list[tuple[str, int]]) -> None:
    watch, client, given_back = _watch(Storage("store"), counted), Client(), asyncio.Event()
    request = _enter(watch, client)
    await client.answered.wait()

    async def endless() -> Any:
        try:
            while True:
                yield b"."
                await asyncio.sleep(0)
        finally:
            given_back.set()

    async with asyncio.timeout(5):
        await request.discard(StreamingResponse(endless()))
        await given_back.wait()
    assert len(client.sent) == 2, "the client has its one answer"
