"""Projections follow from the log alone: every record type, any history, each store, and again by a rebuild."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bollard.host.clock import ManualClock
from bollard.host.log.entries import Entry
from bollard.host.log.facts import scope_key
from bollard.host.log.journal import Journal
from bollard.host.log.projection import Projector
from bollard.host.log.rebuild import rebuild
from bollard.host.log.retention import Retention, purge
from bollard.host.store.boundary import Lease, Store, TranscriptQuery
from bollard.host.store.memory import MemoryStore
from bollard.host.store.rows import RecordRow
from bollard.host.store.search_text import terms

Open = Callable[..., Journal]
ROOM = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=100, forward=True)


async def write(journal: Journal, scribe: Any, facts: Any, kind: str, data: dict[str, Any], seq: int) -> None:
    await journal.commit(Entry(records=[scribe.record(facts, kind, data, seq)], fence=(facts.run_id, 1)))


async def test_every_record_type_does_what_it_means(store: Store, open_journal: Open, scribe: Any) -> None:
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


def test_a_record_whose_data_was_dropped_or_whose_run_is_unknown_changes_nothing(scribe: Any) -> None:
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


async def live_through(journal: Journal, scribe: Any, chance: random.Random, runs: int, steps: int) -> None:
    """Some runs side by side, each with a lawful life."""
    lives: dict[str, tuple[Any, int]] = {}
    for number in range(runs):
        queued = chance.random() < 0.3
        facts = scribe.facts(
            f"run_{number}",
            conversation=chance.choice(["room", "hall", None]),
            thread=chance.choice([None, "t"]),
            bot=chance.choice([None, "b"]),
            actor_type="user",
            actor_id=chance.choice(["u1", "u2"]),
        )
        await journal.commit(scribe.first(facts, epoch=0 if queued else 1, text=chance.choice(["hello", "你好世界"])))
        seq = 2
        if queued:
            seq = 3
            claimed = scribe.record(facts, "run.claimed", {}, 3)
            await journal.commit(
                Entry(records=[claimed], lease=(facts.run_id, Lease(owner="i1", epoch=1, until_ms=1_800_000_000_000)))
            )
        lives[facts.run_id] = (facts, seq)
    for _ in range(steps):
        if not lives:
            return
        run_id = chance.choice(sorted(lives))
        facts, seq = lives[run_id]
        kind, data = chance.choice(
            [
                ("run.started", {}),
                ("message.completed", {"message": {"role": "assistant", "content": chance.choice(["one", "二三"])}}),
                ("state.updated", {"scope": chance.choice(["actor", "runner"]), "key": "k", "value": chance.random()}),
                ("artifact.created", {"artifact_type": "file", "artifact_id": f"a{chance.randrange(4)}"}),
                ("run.cancelled", {"reason": "cancelled"}),
                ("result.gap", {"first": 1, "last": 2}),
                ("deltas", {}),
                ("run.ended", {"status": chance.choice(["completed", "failed"])}),
            ]
        )
        if kind == "deltas":
            entry = Entry(deltas=[scribe.deltas(facts, seq + 1, ["a", "b"])], fence=(run_id, 1))
            seq += 2
        else:
            seq += 1
            ended = kind == "run.ended"
            entry = Entry(
                records=[scribe.record(facts, kind, data, seq)], fence=(run_id, 1), merge=run_id if ended else None
            )
            if ended:
                del lives[run_id]
        await journal.commit(entry)
        if run_id in lives:
            lives[run_id] = (facts, seq)


@pytest.mark.parametrize("seed", range(3))
async def test_a_rebuild_gives_the_same_projections(store: Store, open_journal: Open, scribe: Any, seed: int) -> None:
    journal = open_journal(store)
    await live_through(journal, scribe, random.Random(seed), runs=6, steps=40)
    await journal.close()
    before = store.dump_projections()
    assert all(before[table] for table in ("events", "runs", "transcript", "state"))
    count = rebuild(store)
    assert count == len(store.records(0, 10_000))
    assert store.dump_projections() == before
    rebuild(store)
    assert store.dump_projections() == before


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_is_rebuilt_as_it_was(open_journal: Open, scribe: Any, seed: int) -> None:
    store = MemoryStore(ManualClock())
    journal = open_journal(store)
    await live_through(journal, scribe, random.Random(seed), runs=4, steps=30)
    before = store.dump_projections()
    rebuild(store)
    assert store.dump_projections() == before


async def test_a_rebuild_after_retention_keeps_what_is_retained(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock, verified: Any
) -> None:
    journal = open_journal(store)
    await live_through(journal, scribe, random.Random(7), runs=5, steps=60)
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
    for table in ("events", "runs", "state", "artifacts"):
        assert after[table] == before[table]
    assert all(row in before["transcript"] for row in after["transcript"])
    assert [said for said in store.transcript(ROOM) if said.role != "user"] == []


async def test_words_of_two_chinese_characters_are_found_where_they_were_said(
    store: Store, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, text="明天天气怎么样"))
    said = {"message": {"role": "assistant", "content": "The weather 会很好，记得带雨伞"}}
    await write(journal, scribe, facts, "message.completed", said, 3)
    for word, role in (("天气", "user"), ("雨伞", "assistant"), ("weather", "assistant")):
        assert [found.role for found in store.search(ROOM, terms(word))] == [role]
    assert store.search(ROOM, terms("伞雨")) == []
