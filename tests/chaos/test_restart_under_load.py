"""F30 for one host: it is stopped in order and restarted several times under load. Clients retry unanswered requests
under the same id; nothing is lost, nothing is done twice, and hardly any client sees an error."""

import asyncio
import signal
from collections import Counter

import pytest
from tests.chaos.patience import PATIENCE_S

CLIENTS = 8
PAUSE_S = 0.05
"""Between two tries of an unanswered request."""
ERRORS = 0.001
"""The share of requests that may fail after all tries."""
AFTER_S = 1.5
"""Work between two restarts."""
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError, ValueError, IndexError)


@pytest.fixture
async def up(up_class, scripted, tmp_path):
    up = up_class(tmp_path / "data", scripted, grace_s="1")
    yield up
    await up.clear()


@pytest.fixture
def restarts(rounds):
    """Five restarts; two in the short form."""
    return min(5, max(2, rounds // 4))


class Load:
    """Clients that do not give up: their requests, and the answers."""

    def __init__(self, host):
        self._host = host
        self._stopping = False
        self.told = {}
        self.requests = self.failures = self.retries = 0
        self.codes = Counter()

    async def work(self, clients):
        await asyncio.gather(*(self._client(number) for number in range(clients)))

    def stop(self):
        self._stopping = True

    async def _client(self, number):
        count = 0
        while not self._stopping:
            event_id = f"c{number}-{count}"
            body = {"source": "load", "id": event_id, "type": "message.received", "agent": "scripted", "text": "go"}
            body["data"] = {"deltas": count % 4, "state": count % 5 == 0, "artifact": count % 7 == 0}
            found = await self._insist("POST", "/api/v1/events", body)
            if found is not None:
                self.told[event_id] = found["run_id"]
                await self._insist("GET", f"/api/v1/runs/{found['run_id']}", None)
            count += 1

    async def _insist(self, method, path, body):
        """The answer, as soon as there is one; nothing when there was none for a long time."""
        self.requests += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        async with self._host.client.request(method, path, body) as answer:
                            if answer.status < 300:
                                return await answer.json()
                            self.codes[answer.status] += 1
                            if answer.status < 500 and answer.status != 429:  # to ask again would not help
                                break
                    except BROKEN:
                        self.codes["connection"] += 1
                    self.retries += 1
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            pass
        self.failures += 1
        return None


@pytest.mark.requirement("P05-27")
async def test_a_host_restarted_under_load_loses_and_duplicates_nothing_with_few_errors(up, make_chaos, restarts):
    host, load = up, Load(up)
    await host.start()
    working = asyncio.create_task(load.work(CLIENTS))
    try:
        for _ in range(restarts):
            await asyncio.sleep(AFTER_S)  # the fault comes in the middle of work
            before = len(load.told)
            await host.end(signal.SIGTERM)
            await host.start()
            assert before, "there was no load"
        await asyncio.sleep(AFTER_S)
    finally:
        load.stop()
        await working
    assert load.retries, "nobody noticed the restarts: they were not under load"
    assert load.failures <= load.requests * ERRORS, (load.failures, load.requests, load.codes)
    again = {event_id: await _deliver(load, event_id) for event_id in list(load.told)[:: max(1, len(load.told) // 50)]}
    assert again == {event_id: load.told[event_id] for event_id in again}
    await host.end(signal.SIGTERM)
    assert not (found := make_chaos(host).problems()), "\n".join(found[:10])
    _nothing_is_lost_or_doubled(host, load.told)
    print(f"{restarts} restarts, {load.requests} requests, {load.retries} tries again, {load.failures} errors")


async def _deliver(load, event_id):
    body = {"source": "load", "id": event_id, "type": "message.received", "agent": "scripted", "text": "again"}
    return (await load._insist("POST", "/api/v1/events", body))["run_id"]


def _nothing_is_lost_or_doubled(host, told):
    store = host.open_store()
    try:
        events = {}
        before = None
        while page := store.events("default", before, 500):
            before = page[-1].record_id
            for event in page:
                assert event.source_id not in events, f"{event.source_id} was taken twice"
                events[event.source_id] = event.run_id
        assert {event_id: events.get(event_id) for event_id in told} == told
        runs = Counter(run_id for run_id in events.values() if run_id is not None)
        assert all(count == 1 for count in runs.values()), "one run for two events"
        for run_id in told.values():
            assert store.run(run_id).finished_ms is not None
        created = store.count_runs("default", "scripted", 0)
        assert created == len(runs), "a run that no event knows"
    finally:
        store.close()
