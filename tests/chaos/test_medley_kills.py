"""F01 for everything together: a host as an operator starts it, its journal or a worker is killed while runs of every
kind are active. Every answer to a client stays true."""

import asyncio
import json
import random
import signal

import pytest
from tests.chaos.medley_crowd import CHAT, MODES, Crowd
from tests.chaos.medley_judges import deeds, letters, parcels, promises
from tests.simulation.invariants import conversation_problems, message_problems
from tests.simulation.ledger import run_problems

FAULTS = ("host", "journal", "worker", "start")
OWNED_S = 5.0
"""Time by which no run of a host that is gone is open, unless it waits for its turn."""


@pytest.fixture(params=["sqlite", "postgres"])
async def up(request, up_class, plugin_path, tmp_path):
    url = "" if request.param == "sqlite" else request.getfixturevalue("database")[1]
    up = up_class(tmp_path / "data", plugin_path("medley"), database=url, egress_allow="127.0.0.1")
    yield up
    await up.clear()


def faults(dice, rounds, store):
    """Two of the faults in the short form, and the other two on the other store."""
    first = 0 if store == "" else 2
    return [FAULTS[first], FAULTS[first + 1], *dice.choices(FAULTS, k=rounds)][: max(2, rounds // 2)]


async def strike(up, fault, dice, told):
    """The fault itself, at an instant that the seed chooses, once a run has acted. The host is gone after it."""
    while not told.stat().st_size:  # noqa: ASYNC110 -- another process
        await asyncio.sleep(0.01)
    await asyncio.sleep(dice.uniform(0.2, 1.2))
    match fault:
        case "journal":
            up.journal().kill()
            return
        case "worker":
            up.worker(up.plugin_path).kill()
            await asyncio.sleep(dice.uniform(0.2, 1.0))
        case "start":
            await up.kill()
            starting = asyncio.create_task(up.start("never"))
            await asyncio.sleep(dice.uniform(0.3, 2.0))
            await up.kill()
            await starting
    await up.kill()


async def owned(up):
    async with asyncio.timeout(OWNED_S):
        while await asyncio.to_thread(ownerless, up):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)


def ownerless(up):
    store = up.open_store()
    try:
        owner = store.records(store.last_record() - 1, 1)[0].chain
        return [run for run in store.unfinished_runs("", 1000) if run.status != "queued" and run.owner != owner]
    finally:
        store.close()


@pytest.mark.requirement("P05-27", "P05-29")
@pytest.mark.smoke
async def test_acknowledged_answers_stay_true_after_any_kill_among_runs_of_every_kind(
    up, make_chaos, receiver, tmp_path, seed, rounds
):
    dice, told = random.Random(seed), tmp_path / "told"
    told.touch()
    crowd = Crowd(up, dice, told, receiver)
    await up.start()
    await crowd.settle_in()
    for fault in faults(dice, rounds, up.database):
        nemesis = asyncio.create_task(strike(up, fault, dice, told))
        async with up.awaiting(f"the crowd to notice that the host is gone ({fault})"):
            await asyncio.gather(crowd.storm(), nemesis)
        code = await up.died()
        assert code > 0 if fault == "journal" else code == -signal.SIGKILL, (fault, code)
        await up.start()
        await owned(up)
        await crowd.try_the_dead()
    await crowd.settle()
    await up.kill()
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    found = make_chaos(up, history=crowd.history).inspect(
        run_problems,
        message_problems,
        lambda store: conversation_problems(store, {mode: mode for mode in MODES} | {CHAT: "queue"}),
        lambda store: deeds(store, lines, up.data / "blobs"),
        lambda store: parcels(store, lines, crowd),
        lambda store: promises(store, crowd),
        lambda store: letters(store, crowd, receiver),
    )
    assert not found, "\n".join(found[:10])
    assert await up.tell("audit", "verify") == 0
    assert lines
    assert crowd.history.known
    assert receiver.arrived
