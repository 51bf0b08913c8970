"""F01 for retention: the host is killed while it drops old data and runs stream.

Younger data is complete, dropped data is gone everywhere, and the log has its amount.
"""

import asyncio
import contextlib
import json
import random
import signal
from collections import Counter
from functools import partial

import pytest
from tests.simulation.history import History, View
from tests.simulation.ledger import all_records, run_problems

from bollard.host.log.records import data_of

KEPT_S = 0.5
KINDS = ("event.received", "message.completed", "api.called", "message.delta")
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)
INSTANT = "some instant"


def kills(seed, rounds):
    """One of each kind, at an occurrence that the seed chooses; more of them in the long form."""
    dice = random.Random(seed)
    return [
        f"{name}:{dice.randint(first, last)}" if last else INSTANT
        for _ in range(max(1, rounds // 4))
        for name, first, last in (
            ("retention.after_drop", 1, 6),
            (INSTANT, 0, 0),
            ("retention.after_step", 1, 6),
            ("journal.after_commit", 60, 120),
        )
    ]


def plan(dice, event_id):
    """A run in which each kind of record has a unique word."""
    return {
        "text": f"asked-{event_id}.",
        "word": f"part-{event_id}.",
        "answer": f"answer-{event_id}.",
        "deltas": dice.choice([3, 40, 200]),
        "pause_ms": dice.choice([0, 5, 20]),
        "raises": dice.random() < 0.1,
    }


def words(event_id):
    return [f"{kind}-{event_id}.".encode() for kind in ("asked", "part", "answer")]


def purged(store):
    """The recorded amount of dropped data of each kind, and its time limit."""
    dropped, before_ms = Counter(), Counter()
    for record in all_records(store):
        if record.type == "retention.purged":
            data = data_of(record)
            assert data["before_ms"] <= record.created_ms - KEPT_S * 1000
            dropped.update(data["dropped"])
            for kind in data["dropped"]:
                before_ms[kind] = max(before_ms[kind], data["before_ms"])
    return dropped, before_ms


def account_problems(history, store):
    """All missing data has a record, and no young data is missing."""
    dropped, before_ms = purged(store)
    gone = [record for record in all_records(store) if record.data is None]
    counts = Counter(record.type for record in gone)
    for kind in {*counts, *dropped} - {"message.delta", "expired"}:
        if counts[kind] != dropped[kind]:
            yield f"the data of {counts[kind]} {kind} is gone, and the log says {dropped[kind]}"
    for record in gone:
        if record.created_ms >= before_ms[record.type]:
            yield f"{record.type} {record.id} is gone and was not old"
    lost = [record for view in history.views for record in missing_deltas(store, view)]
    for record in lost:
        if round(json.loads(record.json)["created_at"] * 1000) >= before_ms["message.delta"]:
            yield f"{record.json!r} is gone and was not old"
    if lost and not dropped["message.delta"]:
        yield f"{len(lost)} deltas are gone, and the log says of none that it was dropped"


def missing_deltas(store, view):
    """Deltas that a reader saw and that are not there any more."""
    kept = [(row.first_seq, row.last_seq) for row in store.deltas_of_run(view.run_id, 0)]
    return [record for record in deltas_of(view) if not any(first <= record.seq <= last for first, last in kept)]


def remains(store, words):
    """Remains of these words anywhere."""
    places = {f"record {record.id}": record.data for record in all_records(store) if record.data is not None}
    for table, rows in store.dump_projections().items():
        places |= {f"{table} {number}": repr(row).encode() for number, row in enumerate(rows)}
    for run in {record.run_id for record in all_records(store) if record.run_id is not None}:
        places |= {f"deltas of {run}": b"".join(row.body for row in store.deltas_of_run(run, 0))}
    return [f"{word!r} is in {place}" for place, held in places.items() for word in words if word in held]


async def look_at_all(chaos):
    """A new reader for every run that was acknowledged, and those that were cut off."""
    async with chaos.host.awaiting("the end of every run"):
        await asyncio.gather(*(chaos.host.client.watch(view) for view in chaos.history.views if not view.ended))
        for run_id in chaos.history.accepted.values():
            await chaos.host.client.watch(chaos.history.view(run_id))


async def storm(chaos, kill):
    """Clients until the host dies in this way."""
    await chaos.host.start("" if kill == INSTANT else kill)
    with contextlib.suppress(*BROKEN):  # it may die before it is ready: recovery commits too
        await chaos.host.ready("scripted")
        nemesis = asyncio.create_task(kill_later(chaos, kill))
        async with chaos.host.awaiting("the host to die in the storm"):
            await chaos.storm(clients=4)
        await nemesis
    assert await chaos.host.died() == -signal.SIGKILL, kill


async def kill_later(chaos, kill):
    if kill == INSTANT:
        await asyncio.sleep(chaos.random.uniform(KEPT_S, 3 * KEPT_S))  # the fault itself, when a purge has begun
        await chaos.host.kill()


@pytest.mark.requirement("P05-27", "P05-29")
async def test_dropped_data_is_removed_and_recorded_whenever_the_host_dies(
    make_host, make_chaos, scripted, seed, rounds
):
    retention_s = dict.fromkeys(KINDS, KEPT_S)
    forgetful = make_host(scripted, retention_s=retention_s, housekeeping_s=0.1)
    # A dropped event is a new one when it is sent again, so no client repeats one.
    chaos = make_chaos(forgetful, plan=plan, again=0, history=History(ages=True))
    for kill in kills(seed, rounds):
        await storm(chaos, kill)

    # A host that forgets nothing: what the other one left can be looked at.
    chaos.host = make_host(scripted, data=forgetful.data)
    await chaos.host.start()
    await chaos.host.ready("scripted")
    await look_at_all(chaos)
    await chaos.host.kill()
    account = partial(account_problems, chaos.history)
    found = chaos.inspect(partial(run_problems, ages=True), account)
    assert not found, "\n".join(found[:10])
    assert set(KINDS) - {"api.called"} <= set(totals(chaos.host)), totals(chaos.host)

    # The next purge goes on where the last one died, until nothing is left that is old.
    chaos.host = forgetful
    await chaos.host.start()
    await chaos.host.ready("scripted")
    async with chaos.host.awaiting("the last purge"):
        while left(chaos):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.1)
    await resume_in_what_is_gone(chaos)
    await look_at_all(chaos)
    await chaos.host.kill()
    found = chaos.inspect(partial(run_problems, ages=True), account)
    assert not found, "\n".join(found[:10])
    assert not left(chaos)


def totals(host):
    store = host.open_store()
    try:
        return purged(store)[0]
    finally:
        store.close()


def left(chaos):
    """Remains of all words that were ever sent."""
    store = chaos.host.open_store()
    try:
        return remains(store, [word for event_id in chaos.events for word in words(event_id)])
    finally:
        store.close()


def deltas_of(view):
    return [record for record in view.records if record.type == "message.delta"]


async def resume_in_what_is_gone(chaos):
    """Readers that stopped among deltas which are gone since, of a run that went well and of one that was lost."""
    lost = [view for view in chaos.history.views if b'"host.lost"' in view.records[-1].json]
    for views in (chaos.history.views, lost):
        await resume_in(chaos, max(views, key=lambda view: len(deltas_of(view))))


async def resume_in(chaos, seen):
    """One gap that names the rest of the deltas, then the end."""
    deltas = deltas_of(seen)
    assert len(deltas) > 2
    behind = [record for record in seen.records if record.seq > deltas[-1].seq]
    reader = View(seen.run_id, ages=True)
    reader.records = [record for record in seen.records if record.seq <= deltas[1].seq]
    begun = len(reader.records)
    await chaos.host.client.watch(reader)
    assert (reader.gaps, reader.passed, reader.problems) == (1, deltas[-1].seq, [])
    assert [record.seq for record in reader.records[begun:]] == [record.seq for record in behind]


@pytest.mark.full
async def test_a_host_that_restarts_often_still_drops_old_data(make_host, scripted):
    host = make_host(scripted, retention_s=dict.fromkeys(KINDS, 0.01))  # with the usual time between two sweeps
    await host.start()
    await host.ready("scripted")
    records = await host.client.run("scripted", {"deltas": 1, "word": "old"})
    store = host.open_store()
    try:
        async with host.awaiting("the first sweep"):
            while any(row.data for row in store.records_of_run(records[0]["run_id"], 0, 100) if row.type in KINDS):  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.5)
    finally:
        store.close()
