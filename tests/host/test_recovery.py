"""After a crash: queued runs continue, active runs end with their messages, and the former owner writes no more."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bollard.host.limits import DELTA_ROW_BYTES, RECOVERY_FOLD_BYTES
from bollard.host.log.entries import Committed, Entry, FencedOff
from bollard.host.recovery import facts_of
from bollard.host.runs.hub import delta_records_from_row
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.store import Store
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]
ROOM = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=100, forward=True)


async def parrot(worker: Any, run: WorkerRun) -> None:
    await worker.complete(run, message={"role": "assistant", "content": run.request["context"]["input"]["text"]})


async def recover(stage: Any) -> None:
    """As the host does at its start."""
    for row in list(stage.recovery.unfinished()):
        if row.status == "queued" and (queued := stage.recovery.queued(row)) is not None:
            stage.intake.enter_again(queued)
        else:
            stage.journal.remember(facts_of(row))
            for fold in stage.recovery.folds(row):
                assert await stage.journal.commit(fold) == Committed()
            assert await stage.journal.commit(stage.recovery.lost_entry(row, "host.lost")) == Committed()


@pytest.fixture
def dead_life(open_journal: Any, scribe: Any) -> Callable[..., Awaitable[Any]]:
    """The data of a killed host: the journal of its incarnation, which may still wake up."""

    async def live(store: Store) -> Any:
        journal = open_journal(store, "dead")
        running = scribe.facts("run_a", actor_type="user", actor_id="u1")
        await journal.commit(scribe.first(running, text="first"))
        await journal.commit(
            Entry(
                records=[scribe.record(running, "run.started", {}, 3)],
                deltas=[scribe.deltas(running, 4, ["half ", "a "])],
                fence=("run_a", 1),
            )
        )
        await journal.commit(Entry(deltas=[scribe.deltas(running, 6, ["sentence"])], fence=("run_a", 1)))
        await journal.commit(scribe.first(scribe.facts("run_b"), epoch=0, text="second", data={"n": 1}))
        await journal.commit(scribe.first(scribe.facts("run_c", agent_id="gone"), epoch=0, text="third"))
        ended = scribe.facts("run_d")
        await journal.commit(scribe.first(ended, text="fourth"))
        await journal.commit(
            Entry(records=[scribe.record(ended, "run.ended", {"status": "completed"}, 3)], fence=("run_d", 1))
        )
        return journal

    return live


async def test_an_active_run_is_lost_and_keeps_its_records(store: Store, stages: Stages, dead_life: Any) -> None:
    await dead_life(store)
    stage = await stages(store, parrot, incarnation="next")
    await recover(stage)
    row = stage.row("run_a")
    assert (row.status, row.reason, row.epoch) == ("failed", "host.lost", 2)
    stream = await stage.read("run_a")
    assert [(record.epoch, record.seq, record.type) for record in stream[2:]] == [
        (1, 3, "run.started"),
        (1, 4, "message.delta"),
        (1, 5, "message.delta"),
        (1, 6, "message.delta"),
        (2, 7, "message.completed"),
        (2, 8, "run.ended"),
    ]
    assert "half a sentence" in [said.content for said in store.transcript(ROOM)]


async def test_a_waiting_run_continues_after_a_restart(store: Store, stages: Stages, dead_life: Any) -> None:
    await dead_life(store)
    stage = await stages(store, parrot, incarnation="next")
    await recover(stage)
    stream = await stage.read("run_b")
    assert [record.type for record in stream] == [
        "run.created",
        "grant.issued",
        "run.claimed",
        "run.started",
        "run.completed",
        "message.completed",
        "run.ended",
    ]
    assert [record.seq for record in stream] == list(range(1, 8))
    row = stage.row("run_b")
    assert (row.status, row.epoch) == ("completed", 1)
    request = stage.pool.slots[0].worker.runs[0].request["context"]
    assert (request["input"]["text"], request["event"]["data"]) == ("second", {"n": 1})


async def test_a_waiting_run_of_a_missing_agent_fails_with_host_lost(
    store: Store, stages: Stages, dead_life: Any
) -> None:
    await dead_life(store)
    stage = await stages(store, parrot, incarnation="next")
    await recover(stage)
    await stage.read("run_b")
    assert (stage.row("run_c").status, stage.row("run_c").reason) == ("failed", "host.lost")
    assert (stage.row("run_d").status, stage.row("run_d").epoch) == ("completed", 1)
    assert list(stage.recovery.unfinished()) == []


async def test_a_dead_owner_that_wakes_up_is_fenced_off(
    store: Store, stages: Stages, dead_life: Any, scribe: Any
) -> None:
    zombie = await dead_life(store)
    stage = await stages(store, parrot, incarnation="next")
    await recover(stage)
    await stage.read("run_b")
    before = (store.records(0, 1000), store.dump_projections())
    facts = scribe.facts("run_a")
    late = [
        Entry(records=[scribe.record(facts, "message.completed", {"message": {}}, 7)], fence=("run_a", 1)),
        Entry(deltas=[scribe.deltas(facts, 7, ["more"])], fence=("run_a", 1)),
        Entry(records=[scribe.record(facts, "run.ended", {"status": "completed"}, 8)], fence=("run_a", 1)),
    ]
    for entry in late:
        assert await zombie.commit(entry) == FencedOff()
    assert (store.records(0, 1000), store.dump_projections()) == before


async def test_a_second_recovery_changes_nothing(store: Store, stages: Stages, dead_life: Any) -> None:
    await dead_life(store)
    stage = await stages(store, parrot, incarnation="next")
    rows = list(stage.recovery.unfinished())
    lost = [row for row in rows if row.run_id == "run_a"]
    entries = [stage.recovery.lost_entry(row, "host.lost") for row in lost * 2]
    assert [await stage.journal.commit(entry) for entry in entries] == [Committed(), FencedOff()]
    assert stage.types("run_a").count("run.ended") == 1


async def test_a_run_with_a_terminal_result_is_lost_and_keeps_the_result(
    store: Store, stages: Stages, open_journal: Any, scribe: Any
) -> None:
    journal = open_journal(store, "dead")
    facts = scribe.facts()
    await journal.commit(scribe.first(facts))
    last = {"finish_reason": "end", "message": {"role": "assistant", "content": "bye"}}
    await journal.commit(
        Entry(
            records=[scribe.record(facts, "run.started", {}, 3), scribe.record(facts, "run.completed", last, 4)],
            fence=("run_1", 1),
        )
    )
    stage = await stages(store, incarnation="next")
    await recover(stage)
    assert (stage.row("run_1").status, stage.row("run_1").reason) == ("failed", "host.lost")
    assert [said.content for said in store.transcript(ROOM)] == ["hello", "bye"]


async def test_delta_rows_of_a_lost_run_are_folded_in_small_commits_also_after_a_crash(
    store: Store, stages: Stages, open_journal: Any, scribe: Any
) -> None:
    journal = open_journal(store, "dead")
    facts = scribe.facts("run_a")
    await journal.commit(scribe.first(facts))
    await journal.commit(Entry(records=[scribe.record(facts, "run.started", {}, 3)], fence=("run_a", 1)))
    rows = [scribe.deltas(facts, 4 + number, ["x" * 8000]) for number in range(400)]
    for first in range(0, len(rows), 100):
        await journal.commit(Entry(deltas=rows[first : first + 100], fence=("run_a", 1)))
    stage = await stages(store, incarnation="next")
    whole = [record for row in store.deltas_of_run("run_a", 0) for record in delta_records_from_row(row, 0)]
    (row,) = stage.recovery.unfinished()
    folds = stage.recovery.folds(row)
    assert len(folds) > 1, "no single commit folds all of them"
    assert all(len(fold.merge) <= RECOVERY_FOLD_BYTES // DELTA_ROW_BYTES for fold in folds)
    assert await stage.journal.commit(folds[0]) == Committed()
    left = stage.recovery.folds(row)  # the host died here, and another one looks
    assert [fold.merge for fold in left] == [fold.merge for fold in folds[1:]]
    await recover(stage)
    assert stage.recovery.folds(row) == []
    sizes = [len(row.spans) + len(row.body) for row in store.deltas_of_run("run_a", 0)]
    assert all(DELTA_ROW_BYTES <= size < 2 * DELTA_ROW_BYTES for size in sizes[:-1])
    assert [record for record in await stage.read("run_a") if record.type == "message.delta"] == whole
    assert stage.row("run_a").reason == "host.lost"
