"""F19, R09: a poison event is tried once and ends with a reason. Runs behind it and beside it continue, also when the
host dies with it."""

import asyncio
import json
from collections import Counter

import pytest
from tests.chaos import poison
from tests.simulation.ledger import run_problems

from bollard.host.limits import WORKER_CRASHES

SOFT = [*poison.RAISED, *poison.UNSENDABLE, "no_result", "recursion"]
"""Events that end their run and leave its worker alone."""
SAID = {
    "raises": "RuntimeError: as always",
    "unspeakable": "Unspeakable: ",
    "surrogate_error": "RuntimeError: half a ",
    "long": "RuntimeError: xxx",
    "exits": "SystemExit: 3",
    "interrupts": "KeyboardInterrupt: no",
    "cancels": "CancelledError: myself",
    "closes": "GeneratorExit: gone",
    "group": "BaseExceptionGroup: several",
    "no_result": "BadYield: the runner yielded a int",
    "recursion": "RecursionError: ",
    **dict.fromkeys(poison.UNSENDABLE, "InvalidResult: state.updated: value: is not JSON: "),
}
"""The beginning of the error message of each."""
UNREADABLE = {"nan": float("nan"), "infinite": 1e999, "integer": 10**400, "half": "\ud800"}
"""Events without valid JSON."""


class Lanes:
    """Events of several conversations in sending order, and the outcome of each."""

    def __init__(self, host, folder):
        self.host = host
        self._effects = folder / "effects"
        self._effects.touch()
        self.runs = {}
        """The first run of each event, by its name."""

    async def send(self, lane, *kinds, agent="poison", count=0):
        """One event of each kind into a conversation, without waiting for any; their names."""
        names = [f"{lane}-{count + number}-{kind}" for number, kind in enumerate(kinds)]
        for name, kind in zip(names, kinds, strict=True):
            data = {"kind": kind, "name": name, "effects": str(self._effects)}
            event = {"source": "poison", "id": name, "type": "message.received", "text": "go", "conversation": lane}
            found = await self.host.client.post("/api/v1/events", {**event, "agent": agent, "data": data})
            self.runs[name] = found["run_id"]
        return names

    async def end(self, name):
        """The end of the first run of an event: its reader gets the recorded one."""
        run_id = self.runs[name]
        async with (
            self.host.awaiting(f"the end of {name}"),
            self.host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
        ):
            records = [json.loads(record.json) async for record in answer.events()]
        (end,) = [record["data"] for record in records if record["type"] == "run.ended"]
        row = await self.host.client.get(f"/api/v1/runs/{run_id}")
        assert (row["status"], row.get("status_reason")) == (end["status"], end.get("code")), name
        return end

    async def ended_well(self, names):
        for name in names:
            assert (await self.end(name))["status"] == "completed", name

    def attempts(self):
        """The events in the order in which their runner began with them."""
        return self._effects.read_text().split()

    async def attempted(self, name, times=1):
        """Until a runner has begun with an event so many times."""
        async with self.host.awaiting(f"attempt {times} of {name}"):
            while self.attempts().count(name) < times:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)

    def problems(self):
        store = self.host.open_store()
        try:
            return run_problems(store)
        finally:
            store.close()


@pytest.fixture
async def lanes(make_host, scripted, plugin_path, tmp_path):
    host = make_host(scripted, plugin_path("poison"))
    await host.start()
    await host.ready("scripted", "poison")
    return Lanes(host, tmp_path)


async def _good_run(host):
    """A run of another plugin."""
    records = await host.client.run("scripted", {"deltas": 40})
    assert records[-1]["data"]["status"] == "completed", records[-1]


async def _refused(host, name, value):
    """An unreadable event gets a reason and is not stored."""
    event = {"source": "poison", "id": name, "type": "message.received", "text": "go", "agent": "poison"}
    body = {**event, "conversation": "together", "data": {"value": value}}
    async with host.client.request("POST", "/api/v1/events", body) as answer:
        assert answer.status == 400, name
        error = (await answer.json())["error"]
    assert (error["code"], error["retryable"]) == ("invalid_argument", False), name
    assert "the body is not JSON" in error["message"], name


async def test_a_poison_message_fails_once_and_delays_neither_its_queue_nor_its_worker(lanes, plugin_path):
    worker = lanes.host.worker(plugin_path("poison"))
    alone = {kind: await lanes.send(kind, kind, "good", "good") for kind in SOFT}
    together = await lanes.send("together", *(each for kind in SOFT for each in (kind, "good")))
    for name, value in UNREADABLE.items():
        await _refused(lanes.host, name, value)
    await _good_run(lanes.host)
    bad = [(kind, names[0]) for kind, names in alone.items()] + list(zip(SOFT, together[::2], strict=True))
    for kind, name in bad:
        end = await lanes.end(name)
        assert (end["status"], end["code"]) == ("failed", "runner.error"), name
        assert end["error"].startswith(SAID[kind]), end["error"][:200]
    for names in (*(names[1:] for names in alone.values()), together[1::2]):
        await lanes.ended_well(names)
    assert sorted(lanes.attempts()) == sorted(lanes.runs), "each was tried once"
    assert [name for name in lanes.attempts() if name in together] == together, "in their order"
    assert lanes.host.worker(plugin_path("poison")) == worker, "it is the same one"


async def test_a_message_that_kills_its_worker_is_tried_once_and_the_queue_continues(lanes, repeats):
    host = lanes.host
    assert len(poison.FATAL) == WORKER_CRASHES - 1, "one more within a minute is a plugin's last, as documented"
    for number in range(repeats):
        names = await lanes.send(f"room{number}", *(each for kind in poison.FATAL for each in (kind, "good")))
        for bad, good in zip(names[::2], names[1::2], strict=True):
            await _good_run(host)
            end = await lanes.end(bad)
            assert (end["status"], end["code"]) == ("failed", "runner.crashed"), bad
            assert end["error"].startswith("the worker ended while the run was active: "), bad
            await lanes.ended_well([good])
        assert lanes.attempts() == list(lanes.runs), "each was tried once, in their order"
        assert (await host.until_plugin("poison", "ready"))["problem"] is None
        await host.kill()
        await host.start()  # nothing of it is tried again
        await host.ready("scripted", "poison")
    await lanes.ended_well(await lanes.send("room0", "good", count=100))
    assert lanes.attempts() == list(lanes.runs)
    await host.kill()
    assert not (found := lanes.problems()), "\n".join(found[:10])


async def _save(host, agent, *, repeatable):
    body = {"runner_id": "plugin:local/poison/default", "repeatable": repeatable}
    async with host.client.request("PUT", f"/api/v1/agents/{agent}", body) as answer:
        assert answer.status in (200, 201), await answer.json()


async def test_a_message_that_kills_its_host_is_repeated_only_if_repeatable_and_the_queue_continues(lanes, repeats):
    host = lanes.host
    await _save(host, "once", repeatable=False)
    await _save(host, "twice", repeatable=True)
    for number in range(repeats):
        await host.ready("once", "twice")
        once = await lanes.send(f"once{number}", "hold", "raises", "good", agent="once")
        twice = await lanes.send(f"twice{number}", "hold", "raises", "good", agent="twice")
        await lanes.attempted(once[0])
        await lanes.attempted(twice[0])
        await host.kill()
        await host.start()
        await lanes.attempted(twice[0], times=2)
        await lanes.ended_well([once[2]])
        assert not {twice[1], twice[2]} & set(lanes.attempts()), "the second attempt has the place of the first"
        await host.kill()
        await host.start()
        await lanes.ended_well([twice[2]])
        for names in (once, twice):
            end = await lanes.end(names[0])
            assert (end["status"], end["code"]) == ("failed", "host.lost")
            assert "went away" in end["error"]
            assert (await lanes.end(names[1]))["code"] == "runner.error"
        assert (await lanes.end(twice[0])).get("redispatch") is True
        tried = Counter(lanes.attempts())
        assert [tried[name] for name in (*once, *twice)] == [1, 1, 1, 2, 1, 1]
        await _good_run(host)
        assert (await host.plugin("poison"))["status"] == "ready"
    await host.kill()
    assert not (found := lanes.problems()), "\n".join(found[:10])
