"""F01 for steering messages: the host is killed while two terminals talk into the same runs. No message is lost."""

import asyncio
import contextlib
import json
import random
import signal

import pytest
from tests.simulation.history import History
from tests.simulation.invariants import conversation_problems, message_problems
from tests.simulation.ledger import all_records, chain_problems, ledger_of, run_problems

from bollard.host.log.rebuild import rebuild
from bollard.trust.keys import load_or_make_signing_key

BROKEN = (ConnectionError, EOFError, asyncio.IncompleteReadError)
CONVERSATIONS = ("room", "hall")


def kill_points(seed, rounds):
    """One of each kind, at an occurrence that the seed chooses; more of them in the long form."""
    dice = random.Random(seed)
    return [
        f"{name}:{dice.randint(1, most)}"
        for _ in range(max(1, rounds // 4))
        for name, most in (
            ("intake.after_event", 6),
            ("intake.after_claim", 6),
            ("journal.before_commit", 60),
            ("journal.after_commit", 60),
            ("dispatcher.after_accept", 6),
        )
    ]


_LOOKS = 10
"""Looks in a row at a host without runs after which nothing more is on its way."""


class Talk:
    """Users who talk to one agent, some of them from two terminals, and the answers that they got."""

    def __init__(self, host, seed):
        self.host = host
        self.dice = random.Random(seed)
        self.history = History()
        self.sent = {}

    def new_message(self, actor):
        text = f"message-{len(self.sent)}."
        self.sent[text] = {
            "source": "talk",
            "id": text,
            "type": "message.received",
            "agent": "listener",
            "text": text,
            "conversation": self.dice.choice(CONVERSATIONS),
            "actor": {"id": actor},
            "data": {"steps": self.dice.choice([2, 6, 12]), "pause_ms": self.dice.choice([1, 10, 30])},
        }
        return text

    async def send(self, text):
        found = await self.host.client.post("/api/v1/events", self.sent[text])
        self.history.took("talk", text, event_id=found["event_id"], run_id=found["run_id"], steered="steering" in found)
        return found

    async def terminal(self, actor):
        """New messages, sometimes an old one again, until the host dies."""
        while True:
            again = bool(self.sent) and self.dice.random() < 0.15
            found = await self.send(self.dice.choice(list(self.sent)) if again else self.new_message(actor))
            if found["run_id"] is not None and self.dice.random() < 0.5:
                await self.host.client.watch(self.history.view(found["run_id"]))  # until it is answered

    async def storm(self):
        """Ann at two terminals and Bob at one."""
        terminals = [asyncio.create_task(self.terminal(actor)) for actor in ("ann", "ann", "bob")]
        for outcome in await asyncio.gather(*terminals, return_exceptions=True):
            assert isinstance(outcome, BROKEN), repr(outcome)

    async def settle(self):
        """Everything is sent again, and every run ends."""
        async with self.host.awaiting("everything to come to its end"):
            await asyncio.gather(*(self.host.client.watch(view) for view in self.history.views if not view.ended))
            for text in self.sent:
                await self.send(text)
            quiet = 0
            while quiet < _LOOKS:  # a returned message has no run between its two runs
                quiet = 0 if any((await self.host.health())["runs"].values()) else quiet + 1
                await asyncio.sleep(0.05)

    def problems(self):
        """Problems of the data that the host left on disk."""
        store = self.host.open_store()
        try:
            key = load_or_make_signing_key(self.host.data / "keys" / "heads.ed25519").verify_key
            found = [*run_problems(store), *chain_problems(store, key), *message_problems(store)]
            found += [*conversation_problems(store, {"listener": "steer"}), *self.history.disagreements(store)]
            found += self._unanswered(store)
            before = store.dump_projections()
            rebuild(store)
            after = store.dump_projections()
            return [*found, *(f"a rebuild changes {table}" for table in before if before[table] != after[table])]
        finally:
            store.close()

    def _unanswered(self, store):
        """A completed run confirmed each message that it took; a lost run has a record."""
        for (_, text), event_id in self.history.known.items():
            event = store.event("default", event_id)
            if event is None or event.run_id is None:
                yield f"{text} is in no run"
                continue
            run = store.run(event.run_id)
            said = [record.json for record in ledger_of(store, event.run_id) if record.type == "message.completed"]
            if run.status == "completed" and not any(text.encode() in each for each in said):
                yield f"{text} was taken by {run.run_id}, which completed and did not hear it"
            if run.status != "completed" and run.reason != "host.lost":
                yield f"{text} was taken by {run.run_id}, which ended with {run.reason}"


@pytest.mark.requirement("P05-27", "P05-29", "P09-04")
async def test_no_message_is_lost_or_answered_twice_whenever_the_host_dies(make_host, plugin_path, seed, rounds):
    host = make_host(plugin_path("listener"))
    talk = Talk(host, seed)
    for point in kill_points(seed, rounds):
        await host.start(point)
        with contextlib.suppress(*BROKEN):  # it may die before it is ready: recovery commits too
            await host.ready("listener")
            async with host.awaiting("the host to die in the storm"):
                await talk.storm()
        assert await host.died() == -signal.SIGKILL, point
    await host.start()
    await host.ready("listener")
    await talk.settle()
    await host.kill()
    assert not (found := talk.problems()), "\n".join(found[:10])
    kinds = _kinds(host)
    assert {"steering.queued", "steering.injected", "steering.acknowledged", "steering.dropped"} <= kinds, kinds


def _kinds(host):
    store = host.open_store()
    try:
        return {record.type for record in all_records(store)}
    finally:
        store.close()


@pytest.mark.parametrize(
    ("point", "steered"), [("intake.after_event:1", False), ("intake.after_claim:1", True)], ids=["event", "claim"]
)
async def test_a_message_in_flight_to_a_run_gets_its_own_run_after_the_restart(make_host, plugin_path, point, steered):
    host = make_host(plugin_path("listener"))
    talk = Talk(host, 1)
    await host.start(point)
    await host.ready("listener")
    first, second = talk.new_message("ann"), talk.new_message("ann")
    for text in (first, second):
        talk.sent[text] |= {"conversation": "room", "data": {"steps": 1000, "pause_ms": 5}}
    running = (await talk.send(first))["run_id"]
    with pytest.raises(BROKEN):
        await talk.send(second)
    assert await host.died() == -signal.SIGKILL
    await host.start()
    await host.ready("listener")
    again = await talk.send(second)
    assert again["first"] is False, "it was on disk before the host died"
    async with host.awaiting("the message's own run"):
        while (again := await talk.send(second))["run_id"] is None:  # noqa: ASYNC110 -- recovery gives it its run
            await asyncio.sleep(0.02)
    assert again["run_id"] != running
    lost = await host.client.get(f"/api/v1/runs/{running}")
    assert lost["status_reason"] == "host.lost"
    await host.client.post(f"/api/v1/runs/{again['run_id']}/cancel", {})
    async with host.awaiting("the end of every run"):
        while any((await host.health())["runs"].values()):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    await host.kill()
    store = host.open_store()
    try:
        assert message_problems(store) == []
        moves = [json.loads(record.json) for record in ledger_of(store, running) if "steering" in record.type]
        # The worker may get the message before the host dies; it is not acknowledged, so it still gets its own run.
        kinds = [record["type"] for record in moves if record["type"] != "steering.injected"]
        assert kinds == (["steering.queued", "steering.dropped"] if steered else [])
    finally:
        store.close()
