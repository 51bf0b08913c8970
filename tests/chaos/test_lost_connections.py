"""PostgreSQL ends every connection of the host repeatedly during its work, as a restart of the server or an
administrator does. No acknowledged record is lost, no call is made twice, every run ends, and the host continues."""

import asyncio
import random
import signal
from collections import Counter

import pytest
from tests.simulation.ledger import chain_problems, run_problems

from bollard.host.store.rows import ENDED
from bollard.trust.keys import load_or_make_signing_key

CLIENTS = 6
PAUSE_S = 0.05
"""Between two tries of an unanswered request."""
CUTS_IN_ROUND = 12
ENDED_BY_SERVER = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s AND application_name = 'bollard'"
)
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


class Load:
    """Clients that do not give up: the answers that they got, and every permanent refusal."""

    def __init__(self, host, dice):
        self._host = host
        self._dice = dice
        self._more = asyncio.Event()
        self.stopping = False
        self.told = {}
        self.refused = []
        self.codes = Counter()

    async def work(self):
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def acknowledged(self, count):
        """Until so many more events were taken."""
        wanted = len(self.told) + count
        while len(self.told) < wanted and not self.refused:
            self._more.clear()
            await self._more.wait()

    async def _client(self, number):
        count = 0
        while not self.stopping and not self.refused:
            await self.deliver(f"c{number}-{count}")
            if self.told and self._dice.random() < 0.2:
                await self.deliver(self._dice.choice(list(self.told)))
            count += 1

    async def deliver(self, event_id):
        """Until it is taken: the run that it became, which is the one that it became before."""
        body = {"source": "load", "id": event_id, "type": "message.received", "agent": "scripted", "text": "go"}
        size = sum(map(ord, event_id))
        body |= {"conversation": f"room-{size % 7}", "data": {"deltas": size % 40, "state": size % 5 == 0}}
        while True:
            try:
                async with self._host.client.request("POST", "/api/v1/events", body) as answer:
                    said = await answer.json()
                    if answer.status < 300:
                        break
                    self.codes[said["error"]["code"]] += 1
                    if answer.status < 500 and answer.status != 429:  # to ask again would not help
                        self.refused.append(said)
                        self._more.set()
                        return
            except BROKEN:
                self.codes["connection"] += 1
            await asyncio.sleep(PAUSE_S)
        if self.told.setdefault(event_id, said["run_id"]) != said["run_id"]:
            self.refused.append((event_id, self.told[event_id], said))
        self._more.set()


@pytest.mark.smoke
async def test_a_host_with_repeatedly_ended_connections_loses_nothing_and_never_hangs(
    server, database, make_host, scripted, seed, rounds
):
    (name, url), (_, connection), dice = database, server, random.Random(seed)
    host = make_host(scripted, database=url)
    await host.start()
    await host.ready("scripted")
    load, cut = Load(host, dice), 0
    working = asyncio.create_task(load.work())
    async with host.awaiting("events to be taken while connections are lost"):
        for _ in range(rounds * CUTS_IN_ROUND):
            await load.acknowledged(dice.choice([1, 1, 2, 3, 5, 8, 20]))
            ((ended,),) = connection.execute(ENDED_BY_SERVER, (name,)).fetchall()
            cut += ended
        load.stopping = True
        await working
    assert load.refused == []
    assert cut > rounds * CUTS_IN_ROUND, "connections were made again"
    async with host.awaiting("the end of every run"):
        for run_id in load.told.values():
            while (await host.client.get(f"/api/v1/runs/{run_id}"))["status"] not in ENDED:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(PAUSE_S)
    await host.end(signal.SIGTERM)
    _nothing_is_lost_or_doubled(host, load.told)
    print(f"{cut} connections were ended, {len(load.told)} events taken, told meanwhile: {dict(load.codes)}")


def _nothing_is_lost_or_doubled(host, told):
    store = host.open_store()
    try:
        key = load_or_make_signing_key(host.data / "keys" / "heads.ed25519").verify_key
        assert [*chain_problems(store, key), *run_problems(store)] == []
        events, before = {}, None
        while page := store.events("default", before, 500):
            before = page[-1].record_id
            for event in page:
                assert event.source_id not in events, f"{event.source_id} was taken twice"
                events[event.source_id] = event.run_id
        assert {event_id: events.get(event_id) for event_id in told} == told
        assert all(count == 1 for count in Counter(events.values()).values()), "one run for two events"
    finally:
        store.close()
