"""A host in virtual time that is killed, starved and restarted by a seed, with clients that check its answers.

Only the store survives a crash. Journal, intake, dispatcher, runs, run API, readers, recovery and the connection are
the product's own; time, threads, disk and workers are simulated. The same seed gives the same history.
"""

import asyncio
import hashlib
from collections import Counter
from random import Random
from typing import Final

import msgspec
from tests.simulation.clients import Clients
from tests.simulation.incarnation import Incarnation
from tests.simulation.invariants import conversation_problems, message_problems, pull_problems
from tests.simulation.ledger import all_records, chain_problems, ledger_of, run_problems
from tests.simulation.simulated_agents import AGENTS, OPEN_AGENTS
from tests.simulation.virtual_time import Standstill, Trap, VirtualLoop
from tests.simulation.world import KEY, World

from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import data_of

_SETTLED_S: Final = 300.0
"""Time in which the last incarnation must bring every run, every message and every reader to its end."""
_CROWDED: Final = 0.3
"""How many lives have a client that sends more into a run than it may hold."""
_STOPPED: Final = 0.3
"""How many lives have a client that cancels runs which an earlier life left in the queue."""
_OWNED_S: Final = 5.0
"""Time after a restart in which every run and every message has an owner or an end."""
_TRAPS: Final = [
    "event.received",
    "run.created",
    "run.claimed",
    "run.started",
    "run.ended",
    "run.cancelled",
    "steering.queued",
    "steering.injected",
    "steering.dropped",
    "grant.revoked",
]


class Verdict(msgspec.Struct, frozen=True):
    """A history, and its problems."""

    seed: int
    problems: tuple[str, ...]
    digest: str
    runs: int
    kinds: Counter[str] = msgspec.field(default_factory=Counter[str])
    """How often each kind of thing happened."""


def simulate(seed: int, *, crashes: int = 2) -> Verdict:
    """The history of one seed: so many crashes, then a life in which everything must come to its end."""
    world = World(Random(seed))
    for number in range(crashes):
        _live(world, f"i{number}", last=False)
    _live(world, f"i{crashes}", last=True)
    store = world.store
    problems = [*world.problems, *world.witness.problems, *run_problems(store), *chain_problems(store, KEY.verify_key)]
    problems += [*message_problems(store), *conversation_problems(store, AGENTS)]
    problems += [*pull_problems(store, world.witness.pulled, OPEN_AGENTS), *_forgotten(world)]
    for history in world.histories.values():
        problems += history.disagreements(store)
    kinds, digest = _kinds(world), _digest(world)
    before = store.dump_projections()
    rebuild(store)
    after = store.dump_projections()
    problems += [f"a rebuild changes {table}" for table in before if before[table] != after[table]]
    runs = sum(len(history.accepted) for history in world.histories.values())
    return Verdict(seed, tuple(problems), digest, runs, kinds)


def _forgotten(world: World) -> list[str]:
    """A run that waited when its host died gets its turn, unless a client stops it first."""
    went_on = {record.run_id for record in all_records(world.store) if record.type in ("run.claimed", "run.cancelled")}
    return [f"{run_id} waited when its host died, and never began" for run_id in sorted(world.queued - went_on)]


def _live(world: World, name: str, *, last: bool) -> None:
    """One life: it ends in a crash, at a time or in a trap, or in peace, when everything must settle."""
    dice = Random(world.dice.getrandbits(64))  # so that nothing of a crashed life decides about the next
    life_s = dice.uniform(0.1, 2.0)
    trap = Trap(dice.choice(_TRAPS), dice.randint(1, 4), after=dice.random() < 0.5) if dice.random() < 0.6 else None
    loop = VirtualLoop(world.now, dice)
    loop.set_exception_handler(lambda _, context: world.problems.append(f"nobody handled {context!r}"))
    asyncio.set_event_loop(loop)
    host = Incarnation(world, name, loop, dice, None if last else trap)
    clients = Clients(host)

    async def live() -> None:
        await host.start()
        for history in world.histories.values():
            for view in history.views:
                if not view.ended:
                    clients.begin(clients.follow(view))
        faults = [clients.fill_disk()] if dice.random() < 0.5 else []
        nemesis = [loop.create_task(work) for work in (clients.busy(), clients.busy(), clients.keep_house(), *faults)]
        if dice.random() < _STOPPED:
            clients.begin(clients.stop_left())
        if dice.random() < _CROWDED:
            clients.begin(clients.crowd())
        await asyncio.wait([host.died], timeout=life_s)
        if not last:
            return
        for task in nemesis:
            task.cancel()
        world.plan.fail_at = None
        await _settle(world, host, clients)

    try:
        loop.run_until_complete(live())
    except Standstill as error:
        world.problems.append(f"standstill: {error}")
    broken = [task.exception() for task in host.background if task.done()]
    world.problems += [f"the host lost a task of its own: {error!r}" for error in broken if error is not None]
    world.witness.counts["crash in a trap" if host.died.done() else "crash at a time"] += not last
    host.crash()
    world.queued |= {row.run_id for row in world.store.unfinished_runs("", 1000) if row.status == "queued"}
    world.now = loop.time() + dice.uniform(0.0, 1.0)
    _bury(loop)


async def _settle(world: World, host: Incarnation, clients: Clients) -> None:
    """The disk has space and no client sends anything new: every run ends, and every client gets its end."""
    await asyncio.sleep(_OWNED_S)
    for row in world.store.unfinished_runs("", 1000):
        if row.status != "queued" and row.owner != host.name:
            world.problems.append(f"{row.run_id} is {row.status} and nobody owns it {_OWNED_S} s after the start")
    for event in list(world.events.values()):
        clients.begin(clients.deliver_again(event))
    try:
        async with asyncio.timeout(_SETTLED_S):
            await clients.settled()
            while world.store.unfinished_runs("", 1) or world.store.pending_events(0, 1):  # noqa: ASYNC110
                await asyncio.sleep(1.0)
    except TimeoutError:
        open_runs = [row.run_id for row in world.store.unfinished_runs("", 10)]
        waiting = [row.event_id for row in world.store.pending_events(0, 10)]
        world.problems.append(f"not everything came to its end within {_SETTLED_S} s: {open_runs} {waiting}")


def _bury(loop: VirtualLoop) -> None:
    """Nothing of a crashed host may run on or complain."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    asyncio.set_event_loop(None)
    loop.close()


def _digest(world: World) -> str:
    """A history as a number: everything on disk that runs wrote, and everything that clients saw."""
    found = hashlib.sha256()
    for record in all_records(world.store):
        if record.run_id is not None:
            found.update(f"{record.run_id}.{record.seq} {record.epoch} {record.data_sha256}".encode())
    for history in world.histories.values():
        for (_, event_id), run_id in history.accepted.items():
            found.update(f"{event_id}={run_id}:{len(ledger_of(world.store, run_id))}".encode())
        for view in history.views:
            found.update(f"{view.run_id}:{view.gaps}:{len(view.records)}".encode())
    found.update(repr(world.witness.pulled).encode())
    return found.hexdigest()


def _kinds(world: World) -> Counter[str]:
    """The facts by kind: records, fates of steering messages, depths, ends, and actions of clients."""
    kinds = Counter(world.witness.counts)
    for record in all_records(world.store):
        kinds[record.type] += 1
        match record.type:
            case "steering.dropped":
                kinds["steering.dropped, " + ("redispatched" if data_of(record)["redispatch"] else "for good")] += 1
            case "run.created":
                data = data_of(record)
                kinds["run of a message that waited"] += data.get("adopts") is True
                kinds[f"run at depth {data.get('depth', 0)}"] += 1
            case "run.ended":
                kinds[f"run.ended {data_of(record).get('code', 'completed')}"] += 1
            case _:
                pass
    kinds["gap"] = sum(view.gaps for history in world.histories.values() for view in history.views)
    return kinds
