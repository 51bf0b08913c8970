"""F01: the host is killed with SIGKILL at any instant. Acknowledged and shown records stay true."""

import asyncio
import contextlib

import pytest
from tests.simulation.ledger import run_problems

KILL_POINTS = [
    "journal.before_commit:3",
    "journal.before_commit:20",
    "journal.after_commit:2",
    "journal.after_commit:25",
    "journal.after_blobs:2",
    "run.after_publish:1",
    "run.after_publish:7",
    "dispatcher.after_accept:1",
    "dispatcher.after_accept:9",
]


@pytest.mark.requirement("P05-27", "P05-29")
@pytest.mark.smoke
async def test_a_host_killed_at_any_instant_loses_no_acknowledged_record(make_host, make_chaos, scripted, rounds):
    chaos = make_chaos(make_host(scripted, confined=True))
    for _ in range(rounds):
        await chaos.host.start()
        await chaos.host.ready("scripted")
        nemesis = asyncio.create_task(_kill_later(chaos.host, chaos.random.uniform(0.02, 0.8)))
        await chaos.storm(clients=6)
        await nemesis
    await chaos.host.start()
    await chaos.host.ready("scripted")
    await chaos.settle()
    await chaos.host.kill()
    assert not (found := chaos.inspect(run_problems, _unsigned_ends)), "\n".join(found[:10])
    assert len(chaos.history.accepted) >= rounds


def _unsigned_ends(store):
    """Each start signs the unsigned ends of the previous one; the last has none after it."""
    last = store.records(store.last_record() - 1, 1)[0].chain
    heads = [head for workspace in {row.workspace for row in store.records(0, 1000)} for head in store.heads(workspace)]
    lagging = [row for key in {head.key_id for head in heads} for row in store.lagging_heads(key, 1000)]
    return [f"the end of {row.chain} is not signed" for row in lagging if row.chain != last]


async def _kill_later(host, seconds):
    await asyncio.sleep(seconds)  # the fault itself: an instant that the seed chose
    await host.kill()


@pytest.mark.requirement("P05-27", "P05-29")
async def test_a_host_killed_between_two_steps_loses_no_acknowledged_record(make_host, make_chaos, scripted):
    chaos = make_chaos(make_host(scripted, confined=True))
    for point in KILL_POINTS:
        await chaos.host.start(point)
        with contextlib.suppress(OSError, EOFError):  # it may die before it is ready: recovery commits too
            await chaos.host.ready("scripted")
            async with chaos.host.awaiting("the host to die in the storm"):
                await chaos.storm(clients=4)
        assert await chaos.host.died() == -9, point
    await chaos.host.start()
    await chaos.host.ready("scripted")
    await chaos.settle()
    await chaos.host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])


async def test_a_host_that_dies_during_recovery_is_recovered_by_the_next(make_host, make_chaos, scripted):
    chaos = make_chaos(make_host(scripted, confined=True))
    await chaos.host.start()
    await chaos.host.ready("scripted")
    views = []
    for number in range(3):
        chaos.events[f"slow{number}"] = {"deltas": 100_000, "pause_ms": 5}
        views.append(chaos.history.view(await chaos.deliver(f"slow{number}")))
    readers = [asyncio.create_task(chaos.host.client.watch(view)) for view in views]
    async with chaos.host.awaiting("records of every run"):
        while not all(len(view.records) > 400 for view in views):  # noqa: ASYNC110 -- some are on disk by then
            await asyncio.sleep(0.01)
    await chaos.host.kill()
    await asyncio.gather(*readers, return_exceptions=True)
    for point in ("journal.before_commit:1", "journal.after_commit:1"):
        await chaos.host.start(point)
        assert await chaos.host.died() == -9
    await chaos.host.start()
    await chaos.host.ready("scripted")
    await chaos.settle()
    await chaos.host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])
    for view in views:
        assert b'"host.lost"' in view.records[-1].json
        assert view.records[-2].type == "message.completed", "what its deltas said is kept"
