"""Projections follow from the log alone: every record type, any history, each store, and again by a rebuild."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.log.entries import Entry, Renewed
from bollard.host.log.journal import Journal
from bollard.host.log.projection import Projector
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import DeliverTo, NewRecord, scope_key
from bollard.host.log.retention import Retention, purge
from bollard.host.store.keys import area_key
from bollard.host.store.queries import Lease, TranscriptQuery
from bollard.host.store.rows import POLICY_KINDS, RecordRow
from bollard.host.store.store import Store
from bollard.segments import clauses

Open = Callable[..., Journal]
T0 = 1_700_000_000_000
ROOM = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=100, forward=True)


async def write(journal: Journal, scribe: Any, facts: Any, kind: str, data: dict[str, Any], seq: int) -> None:
    await journal.commit(Entry(records=[scribe.record(facts, kind, data, seq)], fence=(facts.run_id, 1)))


def waiting(scribe: Any, facts: Any, dispatch: str | None = "pending") -> NewRecord:
    """The event of a run that is not there yet."""
    received: NewRecord = scribe.first(facts).records[0]
    data = {**msgspec.json.decode(received.data), "run_id": None}
    if dispatch is not None:
        data["dispatch"] = dispatch
    return msgspec.structs.replace(received, data=msgspec.json.encode(data))


def policy_changed(**data: Any) -> NewRecord:
    return NewRecord(workspace="default", type="policy.changed", data=msgspec.json.encode(data), created_ms=T0)


async def test_every_record_type_updates_its_projection(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    facts = scribe.facts(actor_type="user", actor_id="u1", subject_type="ticket", subject_id="7")
    await journal.commit(scribe.first(facts, actor_type="user", actor_id="u1", actor_name="Ada"))
    row = store.run("run_1")
    assert row is not None
    assert (row.status, row.epoch, row.owner) == ("dispatching", 1, "i1")
    event = store.event("default", "evt_run_1")
    assert event is not None
    assert (event.run_id, event.actor_name, event.summary) == ("run_1", "Ada", "hello")
    steps: list[tuple[str, dict[str, Any]]] = [
        ("run.started", {}),
        ("message.completed", {"message": {"role": "assistant", "content": "hi there"}}),
        (
            "message.completed",
            {"message": {"role": "assistant", "content": [{"type": "text", "text": "part"}, {"type": "x"}]}},
        ),
        ("state.updated", {"scope": "conversation", "key": "k", "value": {"n": 1}}),
        ("state.updated", {"scope": "conversation", "key": "k", "value": {"n": 2}}),
        ("state.updated", {"scope": "actor", "key": "k", "value": 3}),
        ("artifact.created", {"artifact_type": "file", "artifact_id": "a1", "size_bytes": 3, "sha256": "0" * 64}),
        ("result.rejected", {"reason": "invalid"}),
        ("result.unknown", {"type": "x"}),
        ("run.cancelled", {"reason": "cancelled"}),
        ("run.ended", {"status": "cancelled", "code": "cancelled"}),
    ]
    for seq, (kind, data) in enumerate(steps, start=3):
        await write(journal, scribe, facts, kind, data, seq)
    row = store.run("run_1")
    assert row is not None
    assert (row.status, row.reason, row.last_seq) == ("cancelled", "cancelled", 13)
    assert (row.started_ms, row.cancel_requested_ms, row.finished_ms) == tuple(
        1_700_000_000_000 + seq for seq in (3, 12, 13)
    )
    assert [(said.role, said.content) for said in store.transcript(ROOM)] == [
        ("user", "hello"),
        ("assistant", "hi there"),
        ("assistant", "part"),
    ]
    state = store.state(scope_key(facts, "conversation"), "k")
    assert state is not None
    assert (state.value, state.version) == (b'{"n":2}', 2)
    other = store.state(scope_key(facts, "actor"), "k")
    assert other is not None
    assert (other.value, other.version) == (b"3", 1)
    artifact = store.artifact("default", "a1")
    assert artifact is not None
    assert (artifact.run_id, artifact.size_bytes) == ("run_1", 3)


async def test_state_expires_and_is_deleted_by_its_records(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts))
    key, until = scope_key(facts, "runner"), T0 + 100
    scoped = {"scope": "runner", "key": "k"}
    await write(journal, scribe, facts, "state.updated", {**scoped, "value": 1, "expires_ms": until}, 3)
    await write(journal, scribe, facts, "state.updated", {"scope": "runner", "key": "other", "value": 2}, 4)
    row = store.state(key, "k", until - 1)
    assert row is not None
    assert (row.expires_ms, row.version) == (until, 1)
    assert store.state(key, "k", until) is None
    await write(journal, scribe, facts, "state.deleted", scoped, 5)
    assert [row.key for row in store.states(key, "", 10, 0)] == ["other"]


async def test_storage_is_separated_by_area_and_plugin(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    mine = scribe.facts("run_1")
    sibling = scribe.facts("run_2", runner_id="plugin:acme/parrot/other")
    stranger = scribe.facts("run_3", runner_id="plugin:acme/cat/default")
    for facts in (mine, sibling, stranger):
        await journal.commit(scribe.first(facts))
    for facts, area, digit in ((mine, "plugin", "1"), (stranger, "plugin", "2"), (mine, "workspace", "3")):
        stored = {"area": area, "key": "k", "sha256": digit * 64, "size": 5}
        await write(journal, scribe, facts, "storage.updated", stored, int(digit) + 2)
    plugin, shared = area_key("default", "plugin", sibling.runner_id), area_key("default", "workspace", "any")
    row = store.storage(plugin, "k")
    assert row is not None
    assert (row.sha256, row.size_bytes, row.updated_ms) == ("1" * 64, 5, T0 + 3)
    assert store.artifact_digests("", 10) == ["1" * 64, "2" * 64, "3" * 64]
    await write(journal, scribe, stranger, "storage.deleted", {"area": "workspace", "key": "k"}, 9)
    await write(journal, scribe, sibling, "storage.deleted", {"area": "plugin", "key": "k"}, 9)
    assert store.storage(plugin, "k") is None
    assert store.storages(shared, "", 10) == []
    assert store.artifact_digests("", 10) == ["2" * 64]


async def test_a_saved_resource_stays_until_it_is_deleted(store: Store, open_journal: Open) -> None:
    journal = open_journal(store)

    async def change(**data: Any) -> None:
        await journal.commit(Entry(records=[policy_changed(**data)]))

    await change(kind="agent", id="a", action="saved", body={"label": "A"}, revision=1)
    await change(kind="agent", id="a", action="saved", body={"label": "B"}, revision=2)
    await change(kind="binding", id="a", action="saved", body={}, revision=1)
    (row,) = store.policies("agent", "default")
    assert (row.id, row.revision, row.body, row.updated_ms) == ("a", 2, b'{"label":"B"}', T0)
    await change(kind="agent", id="a", action="deleted", revision=3)
    assert store.policies("agent", "default") == []
    assert [row.id for row in store.policies("binding", "default")] == ["a"]


async def test_a_waiting_event_gets_the_run_that_adopts_it(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    facts = scribe.facts("run_2", adopts=True, depth=2, parent_run_id="run_1")
    await journal.commit(Entry(records=[waiting(scribe, facts)]))
    (event,) = store.pending_events(0, 10)
    assert (event.event_id, event.run_id, event.bot, event.dispatch) == ("evt_run_2", None, None, "pending")
    await journal.commit(Entry(records=scribe.first(facts).records[1:], adopt=("default", "evt_run_2")))
    assert store.pending_events(0, 10) == []
    adopted = store.event("default", "evt_run_2")
    assert adopted is not None
    assert (adopted.run_id, adopted.dispatch, adopted.steering) == ("run_2", "run", None)
    (run,) = store.children("run_1")
    assert (run.run_id, run.depth) == ("run_2", 2)
    assert store.count_runs("default", "parrot", T0) == 1


async def test_an_event_without_a_dispatch_is_dropped_at_once(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    await journal.commit(Entry(records=[waiting(scribe, scribe.facts(bot="b"), dispatch=None)]))
    event = store.event("default", "evt_run_1")
    assert event is not None
    assert (event.dispatch, event.run_id, event.bot) == ("dropped", None, "b")


@pytest.mark.parametrize(
    ("ends", "dispatch", "run_id", "steering"),
    [
        ([], "steering", "run_1", "queued"),
        ([("steering.injected", {})], "steering", "run_1", "injected"),
        ([("steering.injected", {}), ("steering.acknowledged", {})], "steering", "run_1", "acknowledged"),
        ([("steering.dropped", {"reason": "failed", "redispatch": True})], "pending", None, "dropped"),
        ([("steering.dropped", {"reason": "cancelled", "redispatch": False})], "dropped", "run_1", "dropped"),
        (
            [("steering.injected", {}), ("steering.dropped", {"reason": "failed", "redispatch": True})],
            "pending",
            None,
            "dropped",
        ),
    ],
)
async def test_an_event_claimed_by_a_run_follows_the_run(
    store: Store,
    open_journal: Open,
    scribe: Any,
    ends: list[tuple[str, dict[str, Any]]],
    dispatch: str,
    run_id: str | None,
    steering: str,
) -> None:
    journal = open_journal(store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts))
    await journal.commit(Entry(records=[waiting(scribe, scribe.facts("run_2"))]))
    steps = [("steering.queued", {}), *ends]
    for seq, (kind, data) in enumerate(steps, start=3):
        await write(journal, scribe, facts, kind, {"event_id": "evt_run_2", **data}, seq)
    event = store.event("default", "evt_run_2")
    assert event is not None
    assert (event.dispatch, event.run_id, event.steering) == (dispatch, run_id, steering)
    assert event.steering_ms == T0 + 2 + len(steps)
    first = store.event("default", "evt_run_1")
    assert first is not None
    assert (first.dispatch, first.steering) == ("run", None)


def test_a_record_without_data_or_without_a_known_run_changes_nothing(scribe: Any) -> None:
    projector = Projector()
    record = scribe.record(scribe.facts(), "message.completed", {"message": {"role": "assistant", "content": "x"}}, 3)
    row = msgspec.structs.asdict(record)
    stored = RecordRow(**row, id=1, chain="c", position=1, data_sha256="", hash="")
    assert projector.feed(stored) == []
    projector.remember(scribe.facts())
    assert len(projector.feed(stored)) == 1
    assert projector.feed(msgspec.structs.replace(stored, data=None)) == []
    projector.forget("run_1")
    assert projector.feed(stored) == []


# --- a random history, and its rebuild ---


def chance_step(chance: random.Random, waits: str, now_ms: int) -> tuple[str, dict[str, Any]]:
    """Something that may happen to a run that lives."""
    area = {"area": chance.choice(["plugin", "workspace"]), "key": chance.choice("kl")}
    scoped = {"scope": chance.choice(["actor", "runner"]), "key": "k"}
    expiry = chance.choice([{}, {"expires_ms": now_ms + chance.randrange(6)}, {"expires_ms": 2**45}])
    steered = {"event_id": waits, "reason": "failed", "redispatch": chance.random() < 0.5}
    return chance.choice(
        [
            ("run.started", {}),
            ("message.completed", {"message": {"role": "assistant", "content": chance.choice(["one", "二三"])}}),
            ("state.updated", {**scoped, "value": chance.random(), **expiry}),
            ("state.updated", {**scoped, "value": chance.random(), **expiry}),
            ("state.deleted", scoped),
            ("storage.updated", {**area, "sha256": chance.choice("ab") * 64, "size": chance.randrange(9)}),
            ("storage.deleted", area),
            ("artifact.created", {"artifact_type": "file", "artifact_id": f"a{chance.randrange(4)}"}),
            (f"steering.{chance.choice(['queued', 'injected', 'acknowledged', 'dropped'])}", steered),
            ("run.cancelled", {"reason": "cancelled"}),
            ("result.gap", {"first": 1, "last": 2}),
            ("deltas", {}),
            ("run.ended", {"status": chance.choice(["completed", "failed"])}),
        ]
    )


async def be_born(journal: Journal, scribe: Any, chance: random.Random, number: int) -> tuple[Any, int]:
    """A run at once, or claimed later, or for an event that waited; its facts and its newest seq."""
    adopts, queued = chance.random() < 0.3, chance.random() < 0.3
    facts = scribe.facts(
        f"run_{number}",
        conversation=chance.choice(["room", "hall", None]),
        thread=chance.choice([None, "t"]),
        bot=chance.choice([None, "b"]),
        actor_type="user",
        actor_id=chance.choice(["u1", "u2"]),
        adopts=adopts,
        parent_run_id=chance.choice([None, "run_0"]),
        deliver_to=chance.choice([None, DeliverTo(channel="chat", target="room-1")]),
    )
    first = scribe.first(facts, epoch=0 if queued else 1, text=chance.choice(["hello", "你好世界"]))
    if adopts:
        await journal.commit(Entry(records=[waiting(scribe, facts)]))
        first = Entry(records=first.records[1:], adopt=("default", facts.event_id))
    await journal.commit(first)
    if not queued:
        return facts, 2
    lease = Lease(owner="i1", epoch=1, until_ms=1_800_000_000_000)
    await journal.commit(Entry(records=[scribe.record(facts, "run.claimed", {}, 3)], lease=(facts.run_id, lease)))
    return facts, 3


async def test_a_rebuild_keeps_only_the_leases_of_active_runs(store: Store, open_journal: Any, scribe: Any) -> None:
    journal = open_journal(store)
    waits, going, over = (scribe.facts(name) for name in ("waits", "going", "over"))
    await journal.commit(scribe.first(waits, epoch=0))
    for facts in (going, over):
        await journal.commit(scribe.first(facts, epoch=1))
    renewal = Entry(renew=("i1", (going.run_id, over.run_id), 1_800_000_000_000))
    assert await journal.commit(renewal) == Renewed(frozenset({going.run_id, over.run_id}))
    await journal.commit(Entry(records=[scribe.record(over, "run.ended", {"status": "completed"}, 3)]))
    before = store.dump_projections()
    leases = {facts.run_id: store.run(facts.run_id).lease_until_ms for facts in (waits, going, over)}  # type: ignore[union-attr]
    assert leases == {waits.run_id: None, going.run_id: 1_800_000_000_000, over.run_id: None}
    rebuild(store)
    assert store.dump_projections() == before


async def live_through(
    journal: Journal, store: Store, scribe: Any, chance: random.Random, runs: int, steps: int
) -> None:
    """Some runs side by side, each with a valid history, while resources are saved and expired data is swept."""
    lives = {f"run_{number}": await be_born(journal, scribe, chance, number) for number in range(runs)}
    await journal.commit(Entry(records=[waiting(scribe, scribe.facts("nobody"))]))
    for now_ms in range(T0 + 100, T0 + 100 + steps):
        if not lives:
            break
        run_id = chance.choice(sorted(lives))
        facts, seq = lives[run_id]
        kind, data = chance_step(chance, chance.choice(["evt_nobody", "evt_run_0"]), now_ms)
        if kind == "deltas":
            entry = Entry(deltas=[scribe.deltas(facts, seq + 1, ["a", "b"])], fence=(run_id, 1))
            seq += 2
        else:
            seq += 1
            record = scribe.record(facts, kind, data, seq, created_ms=now_ms)
            entry = Entry(records=[record], fence=(run_id, 1), merge=[(run_id, 0, seq)] if kind == "run.ended" else [])
        await journal.commit(entry)
        lives[run_id] = (facts, seq)
        if kind == "run.ended":
            del lives[run_id]
        await meanwhile(journal, store, chance, now_ms)


async def meanwhile(journal: Journal, store: Store, chance: random.Random, now_ms: int) -> None:
    for _ in range(chance.randrange(3)):
        saved = {"action": "saved", "body": {"n": now_ms}} if chance.random() < 0.7 else {"action": "deleted"}
        policy = {"kind": chance.choice(POLICY_KINDS), "id": chance.choice("ab"), "revision": now_ms - T0}
        await journal.commit(Entry(records=[policy_changed(**policy, **saved)]))
    waiting_out = store.outbox_open(0, 10)
    if waiting_out and chance.random() < 0.5:
        await journal.commit(Entry(records=[delivered(chance, chance.choice(waiting_out).delivery_id, now_ms)]))
    if chance.random() < 0.1:
        sweep(store, now_ms)


def delivered(chance: random.Random, delivery_id: str, now_ms: int) -> NewRecord:
    """Something that may become of a message on its way to a channel."""
    preview = {"channel": "chat", "target": "t", "run_id": "run_0", "event_id": "e", "message_key": "m"}
    kind, data = chance.choice(
        [
            ("started", {"part": 0}),
            ("started", {"delivery_id": f"p{now_ms}", "preview": preview}),
            ("shown", {"messages": ["m1"]}),
            ("shown", {"messages": ["m1"], "preview": True}),
            ("deferred", {"attempts": 2, "due_ms": now_ms + 5, "reason": "503"}),
            ("sent", {"messages": ["m1", "m2"], "preview": "p1"}),
            ("failed", {"reason": "404"}),
            ("unknown", {"reason": "no answer"}),
        ]
    )
    body = {"delivery_id": delivery_id, **data}
    return NewRecord(workspace="default", type=f"delivery.{kind}", data=msgspec.json.encode(body), created_ms=now_ms)


ARGUED = {"arguments_sha256": "a" * 64}
ASKED = {"agent_id": "a1", "digest": "d" * 64, "expires_ms": T0 + 900_000}


async def furnish(journal: Journal, scribe: Any) -> None:
    """One of each kind, so that chance leaves no table empty."""
    goes_to = DeliverTo(channel="chat", target="room-1")
    facts = scribe.facts("run_last", conversation="room", actor_type="user", actor_id="u1", deliver_to=goes_to)
    await journal.commit(scribe.first(facts))
    steps: list[tuple[str, dict[str, Any]]] = [
        ("message.completed", {"message": {"role": "assistant", "content": "last"}}),
        ("state.updated", {"scope": "runner", "key": "last", "value": 1}),
        ("storage.updated", {"area": "workspace", "key": "last", "sha256": "a" * 64, "size": 1}),
        ("artifact.created", {"artifact_type": "file", "artifact_id": "last", "flow": 3}),
        ("action.started", {"call_id": "c1", "capability": "tool:builtin/now", "name": "now", **ARGUED}),
        ("action.completed", {"call_id": "c1", "capability": "tool:builtin/now", "flow": 1, "result": {"content": []}}),
        ("action.rejected", {"call_id": "c2", "capability": "x", "name": "x", "code": "not_found", **ARGUED}),
        ("approval.requested", {"approval_id": "last", "call_id": "c3", **ASKED}),
        ("approval.granted", {"approval_id": "last", "by": "ada"}),
        ("approval.used", {"approval_id": "last"}),
    ]
    records = [scribe.record(facts, kind, data, seq) for seq, (kind, data) in enumerate(steps, start=3)]
    await journal.commit(Entry(records=records, fence=("run_last", 1)))
    for kind in POLICY_KINDS:
        await journal.commit(
            Entry(records=[policy_changed(kind=kind, id="last", revision=1, action="saved", body={"n": 1})])
        )


def sweep(store: Store, now_ms: int) -> None:
    with store.write() as transaction:
        transaction.drop_expired(now_ms, 1000)


@pytest.mark.parametrize("seed", range(3))
async def test_a_rebuild_gives_the_same_projections(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock, seed: int
) -> None:
    clock.advance(1)
    journal = open_journal(store)
    await live_through(journal, store, scribe, random.Random(seed), runs=8, steps=150)
    await furnish(journal, scribe)
    await journal.close()
    sweep(store, store.now_ms())
    before = store.dump_projections()
    assert all(before.values()), [table for table, rows in before.items() if not rows]
    count = rebuild(store).records
    assert count == len(store.records(0, 10_000))
    assert store.dump_projections() == before
    rebuild(store)
    assert store.dump_projections() == before


async def test_expired_rows_do_not_return_in_a_rebuild(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock
) -> None:
    journal = open_journal(store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts))
    soon = {"expires_ms": T0 + 500}
    await write(journal, scribe, facts, "state.updated", {"scope": "runner", "key": "k", "value": 1, **soon}, 3)
    await write(journal, scribe, facts, "artifact.created", {"artifact_type": "file", "artifact_id": "a", **soon}, 4)
    await journal.close()
    clock.advance(1)
    sweep(store, store.now_ms())
    before = store.dump_projections()
    assert (before["state"], before["artifacts"]) == ([], [])
    rebuild(store)
    assert store.dump_projections() == before


@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
async def test_any_history_is_rebuilt_to_the_same_projections(open_journal: Open, scribe: Any, seed: int) -> None:
    store = MemoryStore(ManualClock(T0 + 1000))
    journal = open_journal(store)
    await live_through(journal, store, scribe, random.Random(seed), runs=4, steps=60)
    sweep(store, store.now_ms())
    before = store.dump_projections()
    rebuild(store)
    assert store.dump_projections() == before


async def test_a_rebuild_after_retention_keeps_the_retained_data(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock, verified: Any
) -> None:
    journal = open_journal(store)
    await live_through(journal, store, scribe, random.Random(7), runs=5, steps=90)
    clock.advance(10 * 24 * 3600)
    dropped = await purge(
        journal, clock, Retention(days=(("message.completed", 1.0), ("result.gap", 100.0)), deltas_days=1.0), "default"
    )
    assert dropped["message.completed"] > 0
    assert dropped["message.delta"] > 0
    assert "result.gap" not in dropped
    await journal.close()
    assert store.records(0, 10_000)[-1].type == "retention.purged"
    verified(store, "i1", len(store.records(0, 10_000)))
    before = store.dump_projections()
    rebuild(store)
    after = store.dump_projections()
    for table in before.keys() - {"transcript"}:
        assert after[table] == before[table]
    assert all(row in before["transcript"] for row in after["transcript"])
    assert [said for said in store.transcript(ROOM) if said.role != "user"] == []


async def test_words_of_two_chinese_characters_are_found_in_their_messages(
    store: Store, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, text="明天天气怎么样"))
    said = {"message": {"role": "assistant", "content": "The weather 会很好，记得带雨伞"}}
    await write(journal, scribe, facts, "message.completed", said, 3)
    for word, role in (("天气", "user"), ("雨伞", "assistant"), ("weather", "assistant")):
        assert [found.role for found in store.search(ROOM, clauses(word))] == [role]
    assert store.search(ROOM, clauses("伞雨")) == []
