"""F01 for agents that call agents: the host is killed while whole families of runs are active.

Each run has one end, no run continues for a missing parent, and no run is executed twice.
"""

import asyncio
import contextlib
import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.simulation.ledger import all_records, run_problems

from bollard.host.grants.grant import Grant
from bollard.host.log.records import data_of

DEEPEST = 3
AGENT = "nest"
INSTANT = "some instant"
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)
UNFINISHED = ("queued", "dispatching", "running", "waiting")


def kills(seed, rounds):
    """One of each kind, at an occurrence that the seed chooses; more of them in the long form."""
    dice = random.Random(seed)
    return [
        f"{name}:{dice.randint(1, most)}" if most else INSTANT
        for _ in range(max(1, rounds // 4))
        for name, most in (
            ("child.after_accept", 12),
            (INSTANT, 0),
            ("child.after_end", 12),
            ("dispatcher.after_accept", 20),
            ("journal.before_commit", 80),
            ("journal.after_commit", 80),
        )
    ]


class Families:
    """A host whose agent calls itself, clients that start families of runs, and one that stops some of them."""

    def __init__(self, make_host, make_chaos, plugin, folder):
        self.host = make_host(plugin)
        self.effects = folder / "effects"
        self.effects.touch()
        self.chaos = make_chaos(self.host, agent=AGENT, plan=self.plan)

    def plan(self, dice, event_id):
        """A family: who calls whom, at least two generations of it."""
        del event_id
        return self._member(dice, 0)

    def _member(self, dice, depth):
        children = dice.choice([1, 2]) if depth == 0 else dice.choice([0, 1, 2]) if depth < DEEPEST else 0
        return {
            "effects": str(self.effects),
            "deltas": dice.choice([0, 2, 10]),
            "pause_ms": dice.choice([0, 2, 10]),
            "at_once": dice.random() < 0.5,
            "raises": dice.random() < 0.05,
            "calls": [self._member(dice, depth + 1) for _ in range(children)],
        }

    async def begin(self):
        """The agent may call itself; that is saved once, and stays."""
        access = {"permissions": {"agents": ["call"]}, "resources": {"agents": {"add": [AGENT]}}}
        body = {"runner_id": "plugin:local/caller/default", "config": {}, "policy": {"access": access}}
        await self.host.start()
        await self.host.ready("caller")
        async with self.host.client.request("PUT", f"/api/v1/agents/{AGENT}", body) as answer:
            assert answer.status in (200, 201), await answer.json()
        await self.host.kill()

    async def storm(self, clients):
        """Until the host dies."""
        stopping = asyncio.create_task(self._stop_some())
        try:
            await self.chaos.storm(clients)
        finally:
            stopping.cancel()
        (outcome,) = await asyncio.gather(stopping, return_exceptions=True)
        assert isinstance(outcome, (asyncio.CancelledError, *BROKEN)), repr(outcome)

    async def _stop_some(self):
        while True:
            await asyncio.sleep(0.05)
            if runs := list(self.chaos.history.accepted.values()):
                path = f"/api/v1/runs/{self.chaos.random.choice(runs[-8:])}/cancel"
                async with self.host.client.request("POST", path, {}) as answer:
                    await answer.json()  # it is stopped, or it has ended

    async def recovered(self):
        """No run of the host that was killed is without an end."""
        async with self.host.awaiting("the end of every run of the host that was killed"):
            while await self._unfinished():  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)

    async def _unfinished(self):
        pages = [await self.host.client.get(f"/api/v1/runs?status={status}&limit=1") for status in UNFINISHED]
        return any(page["items"] for page in pages)

    async def settle(self):
        await self.host.start()
        await self.recovered()
        await self.host.ready(AGENT)
        await self.chaos.settle()
        await self.host.kill()

    def problems(self):
        return self.chaos.inspect(run_problems, self._family_problems)

    def _family_problems(self, store):
        runs, grants, ends, told = read(store)
        executed = Counter(self.effects.read_text().split())
        yield from (f"{run_id} was executed {times} times" for run_id, times in executed.items() if times > 1)
        yield from (f"{run_id} was executed and is not on disk" for run_id in executed if run_id not in runs)
        for run_id, run in runs.items():
            if run.parent_run_id is None:
                continue
            parent = runs.get(run.parent_run_id)
            if parent is None or run.depth != parent.depth + 1:
                yield f"{run_id} is a child of {run.parent_run_id}, which is {parent}"
                continue
            if run.status == "completed" and ends[run_id] > ends[parent.run_id]:
                yield f"{run_id} completed after {parent.run_id} had ended"
            yield from (f"{run_id}: {problem}" for problem in wider(grants[run_id], grants[parent.run_id]))
            if run.grant_sha256 != grants[run_id].sha256:
                yield f"{run_id} does not quote the grant that it was issued"
        for run_id, outcomes in told.items():
            children = {child.run_id: child.status for child in store.children(run_id)}
            if outcomes != children:
                yield f"{run_id} was told {outcomes} of its children, which are {children}"


def read(store):
    """All runs, their grants, the position of each end in the log, and the reports of completed runs about their
    children."""
    runs, grants, ends, told = {}, {}, {}, {}
    for record in all_records(store):
        match record.type:
            case "run.created":
                runs[record.run_id] = store.run(record.run_id)
            case "grant.issued":
                grants[record.run_id] = Grant.from_json(record.data)
            case "run.ended":
                ends[record.run_id] = record.id
            case "message.completed" if runs[record.run_id].status == "completed":
                told[record.run_id] = json.loads(data_of(record)["message"]["content"])
    return runs, grants, ends, told


def wider(child, parent):
    """The rights of a child's grant that its parent's grant lacks."""
    if child.parent is None or (child.parent.run_id, child.parent.grant_sha256) != (parent.run_id, parent.sha256):
        yield f"its grant names {child.parent} as its parent"
    mine, above = child.access.rights, parent.access.rights
    for family, names in mine.operations.items():
        if not names <= above.operations.get(family, frozenset()):
            yield f"it may {sorted(names)} {family}"
    for kind, things in mine.resources.items():
        for name, held in things.items():
            over = above.resources.get(kind, {}).get(name)
            if over is None or not held.operations <= over.operations:
                yield f"it holds {name} of {kind}"
    if not mine.state_scopes <= above.state_scopes or not mine.conversations <= above.conversations:
        yield "it reaches state or conversations that its parent does not"
    for limit in ("deadline_s", "idle_s", "calls_per_s", "calls_in_flight", "payload_bytes"):
        if getattr(child.limits, limit) > getattr(parent.limits, limit):
            yield f"its {limit} is larger"


@pytest.fixture
async def families(make_host, make_chaos, plugin_path, tmp_path):
    made = Families(make_host, make_chaos, plugin_path("caller"), Path(tmp_path))
    await made.begin()
    return made


@pytest.mark.requirement("P05-27", "P05-29", "P06-16")
async def test_each_run_of_a_family_has_one_end_whenever_the_host_dies(families, seed, rounds):
    host = families.host
    for kill in kills(seed, rounds):
        await host.start("" if kill == INSTANT else kill)
        with contextlib.suppress(*BROKEN):  # it may die before it is ready: recovery commits too
            await families.recovered()
            await host.ready(AGENT)
            nemesis = asyncio.create_task(kill_later(families, kill))
            async with families.host.awaiting("the host to die in the storm"):
                await families.storm(clients=4)
            await nemesis
        assert await host.died() == -signal.SIGKILL, kill
    await families.settle()
    assert not (found := families.problems()), "\n".join(found[:10])
    assert depths(host) >= {0, 1, 2}


async def kill_later(families, kill):
    if kill == INSTANT:
        await asyncio.sleep(families.chaos.random.uniform(0.05, 0.8))  # the fault itself, when the seed says
        await families.host.kill()


def depths(host):
    store = host.open_store()
    try:
        return {run.depth for run in read(store)[0].values()}
    finally:
        store.close()
