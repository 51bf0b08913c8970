"""A live run over an in-memory wire: its published records, its written records, and its end."""

import asyncio
import base64
import gc
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.policies import AccessPolicy, AgentPolicy, BudgetPolicy, ConcurrencyPolicy
from bollard.host.errors import Conflict, StorageUnavailable
from bollard.host.limits import DELTA_ROW_BYTES, DRAFT_CHARACTERS, DRAFTS_CHARACTERS, MIB
from bollard.host.log.entries import Entry
from bollard.host.log.records import RunFacts, scope_key
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.stream import StreamPosition
from bollard.host.store.queries import Lease, TranscriptQuery
from bollard.host.store.transaction import WriteTransaction
from bollard.protocol import AgentAPIError, limits
from bollard.wire import RemoteError, WorkerRun, encode

Stages = Callable[..., Awaitable[Any]]
ROOM = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=100, forward=True)


def delta(text: str, message_id: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"chunk": {"role": "assistant", "content": text}}
    return body if message_id is None else {**body, "message_id": message_id}


def said(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def raw(worker: Any, run: WorkerRun, kind: str, data: dict[str, Any], sequence: int) -> None:
    """A result past the worker's own checks."""
    params = {"run_id": run.run_id, "type": kind, "data": data, "sequence": sequence}
    worker.transport.send(encode({"jsonrpc": "2.0", "method": "run/result", "params": params}))


async def some_turns() -> None:
    """Let everything that is ready in the loop happen."""
    for _ in range(30):
        await asyncio.sleep(0)


def texts(records: list[StreamRecord]) -> str:
    return "".join(
        json.loads(record.json)["data"]["chunk"]["content"] for record in records if record.type == "message.delta"
    )


async def started(stage: Any) -> tuple[Any, WorkerRun, str]:
    """A run that its worker has begun and that does nothing by itself."""
    worker = stage.pool.slots[0].worker
    run_id = await stage.say()
    await worker.until(lambda: any(run.run_id == run_id for run in worker.runs))
    reader = stage.reader.read(run_id, None)
    _ = [record async for record in _until(reader, "run.started")]
    await reader.aclose()
    return worker, worker.runs[-1], run_id


async def parrot(worker: Any, run: WorkerRun) -> None:
    text = run.request["context"]["input"]["text"]
    for letter in text:
        await run.emit("message.delta", delta(letter))
    await run.emit("message.completed", said(text))
    await worker.complete(run)


# --- what readers see ---


@pytest.mark.requirement("P05-27", "P05-26")
async def test_every_reader_sees_every_record_in_order(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, parrot)
    run_id = await stage.say("hello")
    one, two = await asyncio.gather(stage.read(run_id), stage.read(run_id))
    assert [record.seq for record in one] == list(range(1, len(one) + 1))
    assert (one[-1].type, texts(one)) == ("run.ended", "hello")
    assert one == two
    assert one == await stage.read(run_id)
    observed = {json.loads(record.json)["type"]: json.loads(record.json)["observed"] for record in one}
    assert observed == {
        "run.created": True,
        "grant.issued": True,
        "run.started": True,
        "message.delta": False,
        "message.completed": False,
        "run.completed": False,
        "run.ended": True,
    }


async def test_deltas_are_shown_before_their_commit_and_later_records_are_not(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store)
    worker, run, run_id = await started(stage)
    reader = stage.reader.read(run_id, None)
    seen: list[StreamRecord] = []
    while "run.started" not in [record.type for record in seen]:
        seen.extend(await anext(reader))
    gate.shut()
    await run.emit("message.delta", delta("a"))
    seen.extend(await anext(reader))
    assert texts(seen) == "a"
    await gate.arrival()
    await run.emit("tool.call.started", {"tool_call_id": "1", "tool_name": "t"})
    seen.extend(await anext(reader))
    assert seen[-1].type == "tool.call.started"
    await run.emit("message.completed", said("a"))
    await run.emit("message.delta", delta("b"))
    await some_turns()
    # The message must be on disk first, and the delta behind it must not overtake it.
    live = stage.dispatcher.live[run_id]
    assert live.state.completed == 1
    assert [record.type for record in live.uncommitted()][-1] == "tool.call.started"
    assert gate.store.deltas_of_run(run_id, 0) == []
    late_reader = stage.reader.read(run_id, None)
    late = [record async for record in _until(late_reader, "tool.call.started")]
    assert late == seen
    gate.lift()
    await worker.complete(run)
    rest = [record async for batch in reader for record in batch]
    late_rest = [record async for batch in late_reader for record in batch]
    assert rest == late_rest
    assert [record.seq for record in [*seen, *rest]] == list(range(1, rest[-1].seq + 1))
    assert [record.type for record in rest if record.type.startswith("message")] == [
        "message.completed",
        "message.delta",
        "message.completed",
    ]


async def _until(reader: Any, kind: str) -> Any:
    async for batch in reader:
        for record in batch:
            yield record
        if batch and batch[-1].type == kind:
            return


async def test_the_end_of_a_run_is_published_only_after_its_commit(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store)
    worker, run, run_id = await started(stage)
    await run.emit("message.completed", said("a"))
    subscription = stage.hub.subscribe(run_id)
    gate.shut()
    await worker.complete(run)
    await gate.arrival()
    await some_turns()
    assert run_id in stage.dispatcher.live
    gate.lift()
    await stage.ended(run_id)
    assert subscription.ended
    assert stage.row(run_id).status == "completed"


async def test_credit_returns_with_the_commit(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store)
    worker, run, run_id = await started(stage)
    gate.shut()
    sent = 0
    while run.offer_text("x"):
        sent += 1
    assert sent == limits.WINDOW_RESULTS
    await gate.arrival()
    await some_turns()
    assert not run.offer_text("x")
    gate.lift()
    await asyncio.wait_for(run.emit("message.delta", delta("y")), 20)
    await worker.complete(run)
    await stage.ended(run_id)
    assert [data["message"]["content"] for data in stage.data(run_id, "message.completed")] == ["x" * sent + "y"]


async def test_a_run_that_sends_far_more_than_its_window_keeps_every_delta(
    memory_store: MemoryStore, stages: Stages
) -> None:
    async def chatter(worker: Any, run: WorkerRun) -> None:
        for number in range(3000):
            if not run.offer_text(f"{number} "):
                await run.emit("message.delta", delta(f"{number} "))
        await worker.complete(run)

    stage = await stages(memory_store, chatter)
    run_id = await stage.say()
    stream = await stage.read(run_id)
    whole = "".join(f"{number} " for number in range(3000))
    assert texts(stream) == whole
    assert [record.seq for record in stream] == list(range(1, len(stream) + 1))
    assert stage.data(run_id, "message.completed")[0]["message"]["content"] == whole
    sizes = [len(row.spans) + len(row.body) for row in memory_store.deltas_of_run(run_id, 0)]
    assert all(DELTA_ROW_BYTES <= size < 2 * DELTA_ROW_BYTES for size in sizes[:-1])
    assert len(sizes) == sum(sizes) // DELTA_ROW_BYTES + 1
    place = StreamPosition(1, stream[1500].seq)
    assert await stage.read(run_id, place) == stream[1501:]


async def test_delta_rows_are_folded_during_the_run_and_its_end_folds_at_most_one(
    memory_store: MemoryStore, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[int] = []
    whole = WriteTransaction.merge_deltas

    def measured(self: WriteTransaction, run_id: str, first_seq: int, last_seq: int) -> None:
        whole(self, run_id, first_seq, last_seq)
        found = memory_store.deltas_of_run(run_id, first_seq - 1)
        merged.append(len(found[0].spans) + len(found[0].body))

    monkeypatch.setattr(WriteTransaction, "merge_deltas", measured)
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    for _ in range(60):  # each has a row of its own
        await run.emit("message.delta", delta("x" * 5000))
        await some_turns()
        await stage.dispatcher.live[run_id].written()
    assert len(memory_store.deltas_of_run(run_id, 0)) < 20
    assert len(merged) > 1, "some were folded before its end"
    await worker.complete(run)
    assert len(texts(await stage.read(run_id))) == 60 * 5000
    assert max(merged) < 2 * DELTA_ROW_BYTES
    assert len(memory_store.deltas_of_run(run_id, 0)) == len(merged)


# --- effects of results ---


@pytest.mark.requirement("P05-24", "P05-25")
async def test_messages_sent_as_deltas_are_complete_before_the_end(memory_store: MemoryStore, stages: Stages) -> None:
    async def two(worker: Any, run: WorkerRun) -> None:
        for text, message_id in (("he", "a"), ("wo", "b"), ("llo", "a"), ("rld", "b")):
            await run.emit("message.delta", delta(text, message_id))
        await run.emit("message.completed", {**said("HELLO"), "message_id": "a"})
        await worker.complete(run, message={"role": "assistant", "content": "not this one"})

    stage = await stages(memory_store, two)
    run_id = await stage.say()
    await stage.read(run_id)
    assert stage.types(run_id)[-2:] == ["message.completed", "run.ended"]
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "HELLO", "world"]


@pytest.mark.requirement("P05-25")
async def test_the_message_of_the_terminal_result_enters_the_transcript_if_it_is_the_only_one(
    memory_store: MemoryStore, stages: Stages
) -> None:
    async def last_word(worker: Any, run: WorkerRun) -> None:
        await worker.complete(run, message={"role": "assistant", "content": "bye"})

    stage = await stages(memory_store, last_word)
    run_id = await stage.say()
    await stage.read(run_id)
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "bye"]
    assert stage.row(run_id).status == "completed"


@pytest.mark.requirement("P05-28")
@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [("message.received", "failed", "runner.no_output"), ("schedule.triggered", "completed", None)],
)
async def test_silence_is_a_failure_only_as_an_answer_to_a_message(
    memory_store: MemoryStore, stages: Stages, kind: str, status: str, reason: str | None
) -> None:
    async def silent(worker: Any, run: WorkerRun) -> None:
        await worker.complete(run)

    stage = await stages(memory_store, silent)
    run_id = await stage.say(event_type=kind)
    await stage.read(run_id)
    assert (stage.row(run_id).status, stage.row(run_id).reason) == (status, reason)


@pytest.mark.requirement("P01-07", "P01-15", "P05-30", "P05-34", "P05-35")
async def test_invalid_results_leave_records_and_change_nothing(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    raw(worker, run, "message.future", {"x": 1}, 1)
    raw(worker, run, "message.completed", {"message": "text"}, 2)
    raw(worker, run, "state.updated", {"scope": "actor", "key": "k", "value": 1}, 3)  # this run has no actor
    raw(worker, run, "message.delta", delta("a"), 3)  # a duplicate
    raw(worker, run, "message.delta", delta("b"), 7)  # behind a hole
    raw(worker, run, "message.completed", {**said("x" * limits.RESULT_BYTES)}, 8)
    raw(worker, run, "run.completed", {"finish_reason": "end"}, 9)
    raw(worker, run, "message.completed", said("too late"), 10)
    await some_turns()
    run.finish()
    await stage.ended(run_id)
    assert stage.types(run_id) == [
        "run.created",
        "grant.issued",
        "run.started",
        "result.unknown",
        "result.rejected",
        "result.rejected",
        "result.gap",
        "result.rejected",
        "run.completed",
        "result.rejected",
        "message.completed",
        "run.ended",
    ]
    assert [(data.get("sequence"), data["reason"]) for data in stage.data(run_id, "result.rejected")] == [
        (2, "invalid"),
        (3, "invalid"),
        (8, "too_large"),
        (10, "late"),
    ]
    assert stage.data(run_id, "result.gap") == [{"first": 4, "last": 6}]
    assert stage.row(run_id).status == "completed"
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "b"]
    assert memory_store.dump_projections()["state"] == []


async def test_an_oversized_result_returns_its_credit(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    large = said("x" * limits.RESULT_BYTES)
    for sequence in range(1, 9):  # twice the window in bytes, each alone under way
        raw(worker, run, "message.completed", large, sequence)
        await _committed(stage, run_id, sequence)
    raw(worker, run, "run.completed", {"finish_reason": "end", **said("done")}, 9)
    await some_turns()
    run.finish()
    await stage.ended(run_id)
    assert [data["reason"] for data in stage.data(run_id, "result.rejected")] == ["too_large"] * 8
    assert stage.row(run_id).status == "completed"


async def _committed(stage: Any, run_id: str, count: int) -> None:
    subscription = stage.hub.subscribe(run_id)
    async with asyncio.timeout(120):
        while len(stage.data(run_id, "result.rejected")) < count:
            await subscription.take(20)
    subscription.close()
    await some_turns()


async def test_state_and_artifacts_are_stored_when_the_run_ends(
    memory_store: MemoryStore, stages: Stages, blobs: Any
) -> None:
    async def maker(worker: Any, run: WorkerRun) -> None:
        content = base64.b64encode(b"a file").decode()
        await run.emit("artifact.created", {"artifact_type": "file", "name": "f", "content_base64": content})
        await run.emit("state.updated", {"scope": "conversation", "key": "k", "value": [1]})
        await worker.complete(run, message={"role": "assistant", "content": "done"})

    stage = await stages(memory_store, maker)
    run_id = await stage.say()
    await stage.read(run_id)
    (data,) = stage.data(run_id, "artifact.created")
    assert blobs.contents[data["sha256"]] == b"a file"
    artifact = memory_store.artifact("default", data["artifact_id"])
    assert artifact is not None
    assert (artifact.name, artifact.size_bytes) == ("f", 6)
    (row,) = memory_store.states(_key(stage, run_id), "", 10)
    assert (row.key, row.value) == ("k", b"[1]")


def _key(stage: Any, run_id: str) -> str:
    return scope_key(msgspec.json.decode(stage.row(run_id).facts, type=RunFacts), "conversation")


@pytest.mark.requirement("P02-18")
async def test_an_ungranted_call_is_refused_and_the_run_continues(memory_store: MemoryStore, stages: Stages) -> None:
    answers: list[Any] = []

    async def caller(worker: Any, run: WorkerRun) -> None:
        answers.append(await run.call("host.info", {}))
        try:
            await run.call("models.invoke", {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]})
        except RemoteError as error:
            answers.append(AgentAPIError.from_wire(error.data).code)
        await worker.complete(run, message={"role": "assistant", "content": "done"})

    stage = await stages(memory_store, caller)
    run_id = await stage.say()
    await stage.read(run_id)
    assert answers[0]["host_version"] == "test"
    assert answers[1] == "unauthorized"
    assert stage.row(run_id).status == "completed"


# --- how it ends ---


async def end_of(stage: Any, run_id: str) -> tuple[str, str | None]:
    await stage.ended(run_id)
    assert stage.types(run_id)[-1] == "run.ended"
    assert stage.types(run_id).count("run.ended") == 1
    (ended,) = stage.data(run_id, "run.ended")
    row = stage.row(run_id)
    assert (row.status, row.reason) == (ended["status"], ended.get("code"))
    return row.status, row.reason


@pytest.mark.requirement("P08-15")
@pytest.mark.parametrize("reason", ["cancelled", "revoked", "runner.timeout", "budget_exceeded", "host.lost"])
async def test_a_stopped_run_ends_with_the_stop_reason_despite_its_results(
    memory_store: MemoryStore, stages: Stages, reason: str
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    assert await stage.dispatcher.cancel(run_id, reason)
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, reason)]
    await run.emit("message.delta", delta("last words"))
    await worker.complete(run)
    status = {"cancelled": "cancelled", "revoked": "cancelled", "runner.timeout": "timeout"}.get(reason, "failed")
    assert await end_of(stage, run_id) == (status, reason)
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "last words"]
    assert stage.row(run_id).cancel_requested_ms is not None


async def test_a_second_cancel_changes_nothing(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await stage.dispatcher.cancel(run_id, "cancelled")
    await stage.dispatcher.cancel(run_id, "revoked")
    await worker.until(lambda: worker.cancels)
    await worker.complete(run)
    assert await end_of(stage, run_id) == ("cancelled", "cancelled")
    assert stage.types(run_id).count("run.cancelled") == 1


@pytest.mark.requirement("P08-13")
async def test_the_deadline_stops_a_run(memory_store: MemoryStore, stages: Stages, loop_time: Any) -> None:
    stage = await stages(memory_store)
    stage.agent(deadline_s=300)
    worker, run, run_id = await started(stage)
    await some_turns()
    loop_time.advance(200)
    await run.emit("message.delta", delta("in time"))
    await some_turns()
    assert worker.cancels == []
    loop_time.advance(100.1)
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "runner.timeout")]
    await run.emit("run.failed", {"code": "runner.timeout", "error": "stopped"})
    worker.end.finish_run(run)
    assert await end_of(stage, run_id) == ("timeout", "runner.timeout")


@pytest.mark.requirement("P08-13")
async def test_a_run_without_results_for_too_long_is_stopped(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    stage.agent(idle_s=10)
    worker, run, run_id = await started(stage)
    stage.clock.advance(9)
    stage.dispatcher.check_idle()
    await run.emit("message.delta", delta("still here"))
    await some_turns()
    stage.clock.advance(9)
    stage.dispatcher.check_idle()
    assert stage.dispatcher.live[run_id].state.cancel is None
    stage.clock.advance(1.1)
    stage.dispatcher.check_idle()
    await worker.until(lambda: worker.cancels)
    await worker.complete(run)
    assert await end_of(stage, run_id) == ("timeout", "runner.timeout")


@pytest.mark.requirement("P08-14")
async def test_a_run_of_a_silent_worker_is_ended_by_the_host_after_the_grace(
    memory_store: MemoryStore, stages: Stages, loop_time: Any
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await run.emit("message.delta", delta("half"))
    await stage.dispatcher.cancel(run_id, "cancelled")
    await worker.until(lambda: worker.cancels)
    loop_time.advance(limits.CANCEL_GRACE_S / 5)
    await some_turns()
    assert run_id in stage.dispatcher.live
    loop_time.advance(limits.CANCEL_GRACE_S)
    assert await end_of(stage, run_id) == ("cancelled", "cancelled")
    assert stage.pool.drained == [stage.pool.slots[0]]
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "half"]
    # Later results of the abandoned runner reach no reader.
    raw(worker, run, "message.delta", delta("more"), 2)
    await some_turns()
    assert stage.types(run_id)[-1] == "run.ended"


@pytest.mark.requirement("P08-14", "P11-55")
async def test_a_worker_that_answers_for_an_abandoned_run_is_drained(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await stage.dispatcher.cancel(run_id, "cancelled")
    await worker.until(lambda: worker.cancels)
    worker.end.finish_run(run, "the run was abandoned")
    assert await end_of(stage, run_id) == ("cancelled", "cancelled")
    assert stage.pool.drained == [stage.pool.slots[0]]


async def test_a_run_with_a_terminal_result_ends_even_if_its_worker_does_not_answer(
    memory_store: MemoryStore, stages: Stages, loop_time: Any
) -> None:
    stage = await stages(memory_store)
    _, run, run_id = await started(stage)
    await run.emit("run.completed", {"finish_reason": "end", **said("done")})
    await some_turns()
    loop_time.advance(1.1)
    assert await end_of(stage, run_id) == ("completed", None)


@pytest.mark.requirement("P11-55")
@pytest.mark.parametrize("obeys", [True, False])
async def test_code_that_continues_after_its_terminal_result_is_cancelled_or_costs_its_worker(
    memory_store: MemoryStore, stages: Stages, loop_time: Any, obeys: bool
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await run.emit("run.completed", {"finish_reason": "end", **said("done")})
    await some_turns()
    assert worker.cancels == [], "it has a moment to answer by itself"
    loop_time.advance(1.1)
    assert await end_of(stage, run_id) == ("completed", None)
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "runner.timeout")]
    if obeys:
        worker.end.finish_run(run)
        await some_turns()
    assert stage.pool.drained == []
    loop_time.advance(limits.CANCEL_GRACE_S + 0.1)
    await some_turns()
    assert stage.pool.drained == ([] if obeys else [stage.pool.slots[0]])
    assert stage.types(run_id)[-1] == "run.ended"


@pytest.mark.requirement("P11-55")
async def test_code_of_a_run_with_another_owner_costs_its_worker_unless_it_stops(
    memory_store: MemoryStore, stages: Stages, loop_time: Any
) -> None:
    stage = await stages(memory_store)
    worker, _, run_id = await started(stage)
    live = stage.dispatcher.live[run_id]
    await live.written()
    live.note("api.called", {"action": "history.page", "outcome": "ok"}, pressing=False)
    live.fenced()
    assert not live.note("api.called", {"action": "history.page", "outcome": "ok"}, pressing=False)
    assert live.environment.counts.records_lost == 2, "one that was not written yet, and one that came too late"
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "host.lost")]
    loop_time.advance(limits.CANCEL_GRACE_S + 0.1)
    await some_turns()
    assert stage.pool.drained == [stage.pool.slots[0]]


@pytest.mark.requirement("P05-18")
async def test_an_answer_without_a_terminal_result_is_a_protocol_error(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await run.emit("message.delta", delta("half"))
    worker.end.finish_run(run)
    assert await end_of(stage, run_id) == ("failed", "runner.protocol")
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "half"]


async def test_a_run_refused_by_the_worker_fails(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    worker.end.refuse_run(run, "run/start: runner_id: this plugin has no such runner", "runner_id")
    assert await end_of(stage, run_id) == ("failed", "runner.protocol")
    assert "no such runner" in stage.data(run_id, "run.ended")[0]["error"]


async def test_a_run_of_a_lost_worker_keeps_its_partial_message(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await run.emit("message.delta", delta("half"))
    worker.end.close("a crash")
    assert await end_of(stage, run_id) == ("failed", "runner.crashed")
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello", "half"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"code": "budget_exceeded", "error": "no money"}, "budget_exceeded"),
        ({"code": "made.up", "error": "x"}, "runner.error"),
        ({}, "runner.error"),
    ],
)
async def test_an_invalid_failure_is_a_failure(
    memory_store: MemoryStore, stages: Stages, data: dict[str, Any], code: str
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    raw(worker, run, "run.failed", data, 1)
    await some_turns()
    run.finish()
    assert await end_of(stage, run_id) == ("failed", code)


async def test_three_strikes_end_only_their_run(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, neighbour, neighbour_id = await started(stage)
    _, _, run_id = await started(stage)
    for _ in range(3):
        wrong = {"run_id": run_id, "type": 3, "data": {}, "sequence": 1}
        worker.transport.send(encode({"jsonrpc": "2.0", "method": "run/result", "params": wrong}))
    assert await end_of(stage, run_id) == ("failed", "runner.protocol")
    assert [data["strike"] for data in stage.data(run_id, "result.rejected")] == [1, 2, 3]
    await neighbour.emit("message.delta", delta("fine"))
    await worker.complete(neighbour)
    assert await end_of(stage, neighbour_id) == ("completed", None)


# --- the store is away ---


async def test_a_run_with_unwritten_records_is_stopped_and_written_later(
    gate: Any, stages: Stages, loop_time: Any
) -> None:
    stage = await stages(gate.store)
    worker, run, run_id = await started(stage)
    await some_turns()
    gate.broken = StorageUnavailable("the disk is away", reason="test", hint="wait")
    await run.emit("message.completed", said("precious"))
    await worker.until(lambda: worker.cancels)  # the journal gave up; the run is stopped
    assert worker.cancels == [(run_id, "host.lost")]
    await run.emit("run.failed", {"code": "host.lost", "error": "stopped"})
    worker.end.finish_run(run)
    await some_turns()
    assert run_id in stage.dispatcher.live
    gate.broken = None
    loop_time.advance(1.1)
    assert await end_of(stage, run_id) == ("failed", "host.lost")
    stream = await stage.read(run_id)
    assert [record.seq for record in stream] == list(range(1, len(stream) + 1))
    assert [row.content for row in gate.store.transcript(ROOM)] == ["hello", "precious"]


async def test_a_run_whose_records_are_permanently_refused_ends_with_its_committed_part(
    gate: Any, stages: Stages
) -> None:
    stage = await stages(gate.store)
    policy = AgentPolicy(concurrency=ConcurrencyPolicy(mode="steer", steer_from="conversation"))
    stage.agent(capabilities=frozenset({"steering"}), policy=policy)
    worker, run, run_id = await started(stage)
    await stage.intake.accept(stage.event("and this?"), "parrot")
    assert len(stage.dispatcher.live[run_id].state.claims) == 1
    await run.emit("message.delta", delta("kept"))
    reader = stage.reader.read(run_id, None)
    _ = [record async for record in _until(reader, "message.delta")]
    await reader.aclose()
    assert await stage.dispatcher.live[run_id].written()
    gate.plan.calls.clear()
    gate.plan.only, gate.plan.fail_at, gate.plan.error = "write.begin", 1, _taken
    await run.emit("message.completed", said("never written"))
    assert await end_of(stage, run_id) == ("failed", "host.lost")
    assert worker.cancels == [(run_id, "host.lost")]
    assert [data["message"]["content"] for data in stage.data(run_id, "message.completed")] == ["kept"]
    assert run_id not in stage.dispatcher.live
    seqs = [record.seq for record in await stage.read(run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    # Its unread messages get their own run now, and not at the next start.
    await worker.until(lambda: worker.runs[-1].run_id != run_id)
    assert worker.runs[-1].request["context"]["input"]["text"] == "and this?"


def _taken(call: str) -> Conflict:
    return Conflict(f"a row is there already at {call}", reason="test", hint="read it")


@pytest.mark.parametrize("error", [_taken("write"), ValueError("a bug")])
async def test_a_run_whose_end_cannot_be_written_is_released_and_left_to_the_next_start(
    gate: Any, stages: Stages, loop_time: Any, error: Exception
) -> None:
    stage = await stages(gate.store)
    _, run, run_id = await started(stage)
    live = stage.dispatcher.live[run_id]
    assert await live.written()
    gate.broken = error
    await run.emit("message.completed", said("never written"))
    await loop_time.until(live.done.done, 0.2)
    assert run_id not in stage.dispatcher.live
    gate.broken = None
    assert stage.row(run_id).status == "running"
    assert [row.run_id for row in stage.store.unfinished_runs("", 10)] == [run_id]


# --- too much that is never whole ---


async def test_a_run_with_too_many_incomplete_messages_ends_and_keeps_the_recorded_part(
    memory_store: MemoryStore, stages: Stages
) -> None:
    async def many(worker: Any, run: WorkerRun) -> None:
        for number in range(70):
            for _ in range(2):
                await run.emit("message.delta", delta("x" * (DRAFT_CHARACTERS // 2), f"m{number}"))
        await worker.complete(run)

    stage = await stages(memory_store, many)
    worker = stage.pool.slots[0].worker
    run_id = await stage.say()
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "runner.protocol")]
    (run,) = worker.runs
    await run.emit("run.failed", {"code": "cancelled", "error": "stopped"})
    worker.end.finish_run(run)
    await stage.ended(run_id)
    assert (stage.row(run_id).status, stage.row(run_id).reason) == ("failed", "runner.protocol")
    *_, last = rows = memory_store.records_of_run(run_id, 0, 100, 1 << 30)
    assert last.type == "run.ended"
    assert b"message.completed" in (last.data or b"")
    kept = [msgspec.json.decode(row.data or b"") for row in rows if row.type == "message.completed"]
    assert DRAFTS_CHARACTERS - 1000 < sum(len(data["message"]["content"]) for data in kept) <= DRAFTS_CHARACTERS
    lost = stage.recovery.replay(stage.row(run_id))
    assert lost.crowded
    assert lost.drafted <= DRAFTS_CHARACTERS


# --- another owner ---


async def test_an_owner_that_lost_its_run_writes_no_record_and_stops_its_worker(
    memory_store: MemoryStore, stages: Stages, scribe: Any, open_journal: Any
) -> None:
    stage = await stages(memory_store)
    worker, run, run_id = await started(stage)
    await some_turns()
    other = open_journal(memory_store, "i2")
    facts = scribe.facts(run_id)
    end = scribe.record(facts, "run.ended", {"status": "failed", "code": "host.lost"}, 50, epoch=2)
    await other.commit(Entry(records=[end], lease=(run_id, Lease(owner="i2", epoch=2, until_ms=2_000_000_000_000))))
    before = stage.records(run_id)
    await run.emit("message.completed", said("from the grave"))
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "host.lost")]
    assert run_id not in stage.dispatcher.live
    await run.emit("message.completed", said("again"))
    await some_turns()
    await stage.journal.commit(Entry())
    assert stage.records(run_id) == before
    assert [row.content for row in memory_store.transcript(ROOM)] == ["hello"]


async def test_a_renewal_notices_a_lost_lease(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker, _, run_id = await started(stage)
    await stage.dispatcher.renew()
    assert run_id in stage.dispatcher.live
    with memory_store.write() as transaction:
        assert transaction.take_lease(run_id, Lease(owner="i2", epoch=2, until_ms=2_000_000_000_000))
    await stage.dispatcher.renew()
    await worker.until(lambda: worker.cancels)
    assert run_id not in stage.dispatcher.live
    assert stage.types(run_id)[-1] != "run.ended"


# --- a run without end ---


async def flood(worker: Any, run: WorkerRun) -> None:
    """A runner that yields for ever, and obeys its cancellation."""
    pouring = asyncio.create_task(pour(run))
    await worker.until(lambda: worker.cancels)
    pouring.cancel()
    await run.emit("run.failed", {"code": worker.cancels[0][1], "error": "stopped", "retryable": False})
    worker.end.finish_run(run)


async def pour(run: WorkerRun) -> None:
    """Every kind of result that is recorded, without end."""
    while True:
        await run.emit("message.delta", delta("x" * 9000))
        await run.emit("tool.call.started", {"tool_call_id": "1", "tool_name": "t", "parameters": {"n": "y" * 9000}})
        content = base64.b64encode(b"z" * 9000).decode()
        await run.emit("artifact.created", {"artifact_type": "file", "content_base64": content})


async def test_a_run_that_exceeds_its_record_limit_is_stopped_and_fails(
    memory_store: MemoryStore, stages: Stages, blobs: Any
) -> None:
    own = AgentPolicy(access=AccessPolicy(permissions={"artifacts": ("write",)}), budget=BudgetPolicy(run_output_mib=1))
    for settings, policy, allowed in ((2, None, 2), (2, own, 1), (1, replace(own, budget=BudgetPolicy()), 1)):
        stage = await stages(memory_store, flood, run_output_mib=settings)
        if policy is not None:
            stage.agent(policy=policy)
        run_id = await stage.say(source_id=f"{settings} {policy is own}")
        stream = await stage.read(run_id)
        assert stage.data(run_id, "run.ended") == [
            {
                "status": "failed",
                "code": "runner.output_too_large",
                "error": stage.data(run_id, "run.ended")[0]["error"],
            }
        ]
        assert "run_output_mib" in stage.data(run_id, "run.ended")[0]["error"]
        assert stage.data(run_id, "run.cancelled") == [{"reason": "runner.output_too_large"}]
        recorded = sum(len(json.loads(record.json)["data"]["chunk"]["content"]) for record in deltas_of(stream))
        recorded += sum(len(row.data or b"") for row in stage.records(run_id) if row.type != "message.completed")
        recorded += sum(data.get("size_bytes", 0) for data in stage.data(run_id, "artifact.created"))
        assert recorded <= allowed * MIB + limits.WINDOW_BYTES
        assert recorded > allowed * MIB * 0.9
        kinds = [record.type for record in stream]
        assert set(kinds[kinds.index("run.cancelled") + 1 :]) <= {"run.failed", "message.completed", "run.ended"}
        await stage.close()


def deltas_of(stream: list[StreamRecord]) -> list[StreamRecord]:
    return [record for record in stream if record.type == "message.delta"]


# --- memory ---


async def test_a_run_that_is_over_needs_no_garbage_collector(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    gc.collect()
    gc.disable()
    try:
        worker, run, over = await started(stage)
        _, _, active = await started(stage)
        await parrot(worker, run)
        await stage.read(over)
        await some_turns()
        left = {each.facts.run_id for each in gc.get_objects() if isinstance(each, LiveRun)}
    finally:
        gc.enable()
    assert left & {over, active} == {active}
