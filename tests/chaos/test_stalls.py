"""The journal or PostgreSQL freezes: it neither answers nor fails. Requests get an error within seconds, and the same
request after the thaw returns the first outcome. Open streams stay open."""

import asyncio
import signal
import time
from collections import Counter
from urllib.parse import urlsplit, urlunsplit

import pytest

from bollard.host.limits import STALL_S

REQUESTS = 12
LONG = {"deltas": 400, "pause_ms": 20}
"""A run of about a second."""


class FrozenProxy:
    """Forwards connections to PostgreSQL, or holds every byte back."""

    def __init__(self, address):
        self._address = address
        self._moving = asyncio.Event()
        self._moving.set()
        self._tasks = set()

    async def serve(self):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    def freeze(self):
        self._moving.clear()

    def thaw(self):
        self._moving.set()

    async def _connected(self, reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection(*self._address)
        except BaseException:
            writer.close()  # otherwise the garbage collector finds it, in the middle of another test
            raise
        for source, target in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source, target):
        try:
            while piece := await source.read(65536):
                await self._moving.wait()
                target.write(piece)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    def close(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()


def _event(number):
    body = {"source": "stall", "id": f"e{number}", "type": "message.received", "agent": "scripted", "text": "go"}
    return "/api/v1/events", {**body, "data": {"deltas": 1}}, {}


def _key(number):
    """An operation whose answer is shown once, and is kept for its Idempotency-Key."""
    return "/api/v1/keys", {"name": f"key {number}", "rights": ["runs.create"]}, {"idempotency-key": f"k{number}"}


async def _ask(host, method, path, body=None, headers=None):
    began = time.monotonic()
    async with host.client.request(method, path, body, headers) as answer:
        return answer.status, answer.headers, await answer.json(), time.monotonic() - began


def _is_told_of_the_stall(told, *, reads):
    status, headers, body, took_s = told
    assert status == 503, body
    assert body["error"]["retryable"]
    assert took_s < 3 * STALL_S
    if reads and body["error"]["code"] == "storage_unavailable":
        return  # no connection could be had to read with, which is certain: nothing was written
    assert body["error"]["code"] == "storage_stalled"
    assert body["error"]["details"]["outcome"] == "unknown"
    assert "Idempotency-Key" in body["error"]["hint"]
    assert int(headers["retry-after"]) >= 1


async def _first_outcome(host, path, body, headers):
    """Repeat as `Retry-After` allows, until it is answered."""
    async with host.awaiting(f"the outcome of {path}"):
        while True:
            status, answered, said, _ = await _ask(host, "POST", path, body, headers)
            if status < 300:
                return said
            assert said["error"]["retryable"], said
            await asyncio.sleep(float(answered["retry-after"]))


async def _survives_a_freeze(host, freeze, thaw, *, reads):
    """`reads`: the store cannot be read either."""
    reading = asyncio.create_task(host.client.run("scripted", LONG))
    async with host.awaiting("a live run"):
        while not (await host.health())["runs"]["live"]:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    freeze()
    asked = [maker(number) for number in range(REQUESTS) for maker in (_event, _key)]
    async with host.awaiting("an answer to every request"):
        told = await asyncio.gather(*(_ask(host, "POST", *each) for each in asked))
        if reads:
            told += await asyncio.gather(*(_ask(host, "GET", "/api/v1/runs") for _ in range(REQUESTS)))
        # A repeat before the thaw gets the same error, also while the first request is in progress.
        told += await asyncio.gather(*(_ask(host, "POST", *each) for each in asked[:4]))
    for each in told:
        _is_told_of_the_stall(each, reads=reads)
    assert not reading.done(), "an open stream waits"
    thaw()
    outcomes = [await _first_outcome(host, *each) for each in asked]
    records = await reading
    assert records[-1]["data"]["status"] == "completed"
    assert sum(record["type"] == "message.delta" for record in records) == LONG["deltas"]
    again = [await _first_outcome(host, *each) for each in asked]
    for first, second in zip(outcomes, again, strict=True):
        assert {**second, "duplicate": None} == {**first, "duplicate": None}
    await _each_happened_once(host)
    assert (await host.health())["ready"]


async def _each_happened_once(host):
    events = (await host.client.get("/api/v1/events?limit=100"))["items"]
    assert Counter(event["id"] for event in events if event["source"] == "stall") == {
        f"e{number}": 1 for number in range(REQUESTS)
    }
    runs = (await host.client.get("/api/v1/runs?limit=100"))["items"]
    assert len(runs) == REQUESTS + 1
    keys = (await host.client.get("/api/v1/keys?limit=100"))["items"]
    assert Counter(key["name"] for key in keys) == {f"key {number}": 1 for number in range(REQUESTS)}


@pytest.mark.smoke
async def test_requests_to_a_frozen_journal_get_storage_stalled_and_repeats_return_the_first_outcome(
    up_class, scripted, tmp_path
):
    host = up_class(tmp_path / "data", scripted, journal="process")
    await host.start()
    try:
        await host.ready("scripted")
        journal = host.journal()
        await _survives_a_freeze(host, journal.suspend, journal.resume, reads=False)
    finally:
        journal.resume()
        await host.end(signal.SIGTERM)


@pytest.mark.full
@pytest.mark.parametrize("journal", ["process", "thread"])
async def test_requests_to_a_frozen_postgresql_are_stalled_and_repeats_return_the_first_outcome(
    up_class, scripted, tmp_path, database, journal
):
    parts = urlsplit(database[1])
    proxy = FrozenProxy((parts.hostname, parts.port))
    port = await proxy.serve()
    through = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
    host = up_class(tmp_path / "data", scripted, database=through, journal=journal)
    await host.start()
    try:
        await host.ready("scripted")
        await _survives_a_freeze(host, proxy.freeze, proxy.thaw, reads=True)
    finally:
        proxy.thaw()
        await host.end(signal.SIGTERM)
        proxy.close()
