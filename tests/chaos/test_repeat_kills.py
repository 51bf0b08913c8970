"""F01 and repeats: a host that is killed while it answers requests with an `Idempotency-Key` does none of it twice."""

import asyncio
import contextlib
from collections import Counter

CLIENTS = 4
RIGHTS = ["runs.read"]


class Maker:
    """Makes API keys under its own ids, and remembers the answers."""

    def __init__(self, host, number):
        self._host = host
        self._number = number
        self._made = 0
        self.told = {}
        self.asked = []

    async def until_the_host_dies(self):
        with contextlib.suppress(OSError, EOFError):
            while True:
                self._made += 1
                name = f"maker-{self._number}-{self._made}"
                self.asked.append(name)
                await self.ask(name)

    async def ask(self, name):
        body, headers = {"name": name, "rights": RIGHTS}, {"idempotency-key": name}
        async with self._host.client.request("POST", "/api/v1/keys", body, headers) as answer:
            status, found = answer.status, await answer.json()
        if status == 201:
            assert self.told.setdefault(name, found) == found, name
        return status, found


async def all_keys(host):
    """Names and ids."""
    keys, cursor = [], ""
    while True:
        page = await host.client.get(f"/api/v1/keys?limit=100{cursor}")
        keys += [(item["name"], item["key_id"]) for item in page["items"]]
        if not page["has_more"]:
            return keys
        cursor = f"&cursor={page['next_cursor']}"


async def clear(host, keys, makers):
    """A workspace has a thousand keys at most: inspected keys are deleted."""
    for _, key_id in keys:
        async with host.client.request("DELETE", f"/api/v1/keys/{key_id}") as answer:
            assert answer.status < 300, key_id
    for maker in makers:
        maker.told.clear()
        maker.asked.clear()


async def test_a_request_repeated_after_a_kill_takes_effect_once_or_is_unknown(make_host, make_chaos, scripted, rounds):
    host, random = make_host(scripted), make_chaos(make_host(scripted)).random
    makers = [Maker(host, number) for number in range(CLIENTS)]
    unknown = 0
    await host.start()
    for _ in range(rounds):
        storm = asyncio.gather(*(maker.until_the_host_dies() for maker in makers))
        await asyncio.sleep(random.uniform(0.1, 0.6))  # the fault itself: an instant that the seed chose
        await host.kill()
        async with host.awaiting("the clients to notice that the host died"):
            await storm
        await host.start()
        for maker in makers:
            for name in maker.asked[-3:]:
                was_told = name in maker.told
                status, found = await maker.ask(name)
                assert status in ((201,) if was_told else (201, 409)), (name, found)
                unknown += status == 409
        keys = await all_keys(host)
        counted = Counter(name for name, _ in keys)
        assert not [name for name, count in counted.items() if count > 1]
        assert counted.keys() >= {name for maker in makers for name in maker.told}
        await clear(host, keys, makers)
    await host.kill()
    assert unknown <= CLIENTS * rounds  # at most what each had under way
