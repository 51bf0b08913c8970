"""Windows, numbering and strikes on a connection: the limits of a worker, and the cost of exceeding them."""

import asyncio
from typing import Any

import pytest

from bollard.protocol import ChannelLimits, limits
from bollard.wire import ChannelClosed, WorkerRun, encode

COUNT = limits.WINDOW_RESULTS


def delta(text: str = "x") -> dict[str, Any]:
    return {"chunk": {"role": "assistant", "content": text}}


async def started(open_channel: Any, sink: Any) -> tuple[Any, WorkerRun]:
    channel = await open_channel()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    return channel, channel.handler.runs[0]


# --- a slow consumer slows the producer ---


@pytest.mark.requirement("P11-46", "P11-63")
async def test_a_run_stops_at_256_uncommitted_results_and_finishes_after_the_commit(
    open_channel: Any, make_sink: Any
) -> None:
    async def behave(run: WorkerRun) -> None:
        for number in range(3 * COUNT):
            await run.emit("message.delta", delta(str(number)))
        await run.emit("run.completed", {"finish_reason": "end"})

    channel = await open_channel(behave)
    slow, quick = make_sink(commits=False), make_sink()
    run = channel.start_run("slow", slow)
    other = channel.start_run("quick", quick)
    assert (await other.ended).last_sequence == 3 * COUNT + 1
    await slow.until(lambda: len(slow.taken) == COUNT)
    await channel.host.ping()
    assert len(slow.taken) == COUNT
    run.credit(10)
    await slow.until(lambda: len(slow.taken) == COUNT + 10)
    await channel.host.ping()
    assert len(slow.taken) == COUNT + 10
    slow.commits = True
    run.credit(COUNT + 10)
    assert (await run.ended).last_sequence == 3 * COUNT + 1
    assert slow.texts == [str(number) for number in range(3 * COUNT)]
    assert (slow.strikes, channel.observer.strikes) == ([], [])


@pytest.mark.requirement("P11-46")
async def test_a_run_stops_at_four_uncommitted_mebibytes(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    frame = len(encode({"run_id": "r", "type": "message.delta", "data": delta(""), "sequence": 1}))
    whole = limits.WINDOW_BYTES // 8
    for _ in range(8):
        await run.emit("message.delta", delta("x" * (whole - frame)))
    await sink.until(lambda: len(sink.taken) == 8)
    assert sink.bytes == limits.WINDOW_BYTES
    blocked = asyncio.create_task(run.emit("message.delta", delta("")))
    await channel.host.ping()
    assert not blocked.done()
    assert len(sink.taken) == 8
    sink.run.credit(1)
    await blocked
    await sink.until(lambda: len(sink.taken) == 9)
    assert not sink.strikes


async def test_the_terminal_result_needs_no_credit(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    for _ in range(COUNT):
        await run.emit("message.delta", delta())
    await run.emit("run.failed", {"code": "runner.error", "error": "no"})
    channel.worker.finish_run(run)
    assert (await sink.run.ended).last_sequence == COUNT + 1
    assert sink.results[-1].type == "run.failed"
    assert not sink.strikes


async def test_results_that_wait_for_credit_keep_their_order_and_their_own_numbers(
    open_channel: Any, make_sink: Any
) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    for _ in range(COUNT):
        await run.emit("message.delta", delta("before"))
    waiting = [asyncio.create_task(run.emit("message.delta", delta(f"w{number}"))) for number in range(20)]
    await channel.host.ping()
    assert not any(task.done() for task in waiting)
    waiting[3].cancel()
    sink.run.credit(5)
    await sink.until(lambda: len(sink.taken) == COUNT + 5)
    sink.commits = True
    sink.run.credit(COUNT + 5)
    await asyncio.gather(*waiting, return_exceptions=True)
    await channel.host.ping()
    assert sink.texts[COUNT:] == [f"w{number}" for number in range(20) if number != 3]
    assert sink.taken == list(range(1, COUNT + 20))
    assert (sink.gaps, sink.strikes) == ([], [])


async def test_a_result_that_waits_is_not_sent_after_the_terminal_result(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    for _ in range(COUNT):
        await run.emit("message.delta", delta())
    waiting = [asyncio.create_task(run.emit("message.delta", delta("late"))) for _ in range(2)]
    await channel.host.ping()
    await run.emit("run.failed", {"code": "cancelled", "error": "cancelled"})
    channel.worker.finish_run(run)
    for task in waiting:
        with pytest.raises(ChannelClosed):
            await task
    assert (await sink.run.ended).last_sequence == COUNT + 1
    assert not sink.refusals


async def test_a_result_that_waits_for_credit_is_notified_of_a_lost_connection(
    open_channel: Any, make_sink: Any
) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    for _ in range(COUNT):
        await run.emit("message.delta", delta())
    waiting = [asyncio.create_task(run.emit("message.delta", delta())) for _ in range(3)]
    await channel.host.ping()
    channel.host.close("gone")
    for task in waiting:
        with pytest.raises(ChannelClosed):
            await task


async def test_an_offered_text_is_sent_as_the_same_result_in_the_same_order(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink()
    channel, run = await started(open_channel, sink)
    assert run.offer_text('one "quoted" 好\n')
    await run.emit("message.delta", delta("two"))
    assert run.offer_text("three")
    assert not run.offer_text("half \ud800")
    assert not run.offer_text("x" * limits.RESULT_BYTES)
    await channel.host.ping()
    assert sink.texts == ['one "quoted" 好\n', "two", "three"]
    assert sink.taken == [1, 2, 3]
    assert not sink.strikes


async def test_an_offered_text_obeys_the_window_and_does_not_overtake(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(commits=False)
    channel, run = await started(open_channel, sink)
    for number in range(COUNT):
        assert run.offer_text(str(number))
    assert not run.offer_text("more")
    first = asyncio.create_task(run.emit("message.delta", delta("waits")))
    await channel.host.ping()
    sink.run.credit(1)
    await sink.until(lambda: len(sink.taken) == COUNT + 1)
    await first
    assert sink.texts[-1] == "waits"
    assert not run.offer_text("more")
    channel.worker.finish_run(run)
    assert not run.offer_text("after the end")
    await sink.run.ended
    assert (sink.strikes, channel.observer.strikes) == ([], [])


async def test_an_offered_text_obeys_the_frame_limit_of_the_host(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel(limits=ChannelLimits(frame_bytes=1024))
    channel.start_run("r", make_sink())
    await channel.handler.until(lambda: channel.handler.runs)
    run: WorkerRun = channel.handler.runs[0]
    assert run.offer_text("x" * 800)
    assert not run.offer_text("x" * 1024)
    await channel.host.ping()
    assert not channel.observer.strikes


# --- numbering ---


@pytest.mark.requirement("P05-15", "P05-16")
async def test_duplicates_are_dropped_and_holes_are_named(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    start = await raw.called("run/start")
    for number in (1, 2, 2, 1, 5, 3, 4, 5, 6, 10):
        raw.delta("r", number, str(number))
    raw.result("r", 10, "message.completed")
    raw.result("r", 12, "run.completed", finish_reason="end")
    raw.answer(start["id"], {"last_sequence": 12})
    await sink.until(lambda: sink.ends)
    assert sink.taken == [1, 2, 5, 6, 10, 12]
    assert sink.gaps == [(3, 4), (7, 9), (11, 11)]
    assert (sink.refusals, sink.strikes) == ([], [])


@pytest.mark.requirement("P05-17")
async def test_results_after_the_terminal_result_are_refused_once(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.delta("r", 1)
    raw.result("r", 2, "run.completed", finish_reason="end")
    raw.delta("r", 3)
    raw.result("r", 4, "run.failed", code="runner.error", error="no")
    raw.delta("r", 1)
    raw.result("r", 2, "run.completed", finish_reason="end")
    raw.delta("r", 3)
    raw.delta("r", 9)
    await sink.until(lambda: len(sink.refusals) == 3)
    assert sink.taken == [1, 2]
    assert sink.refusals == [(3, "late"), (4, "late"), (9, "late")]
    assert (sink.strikes, sink.gaps) == ([], [])


@pytest.mark.requirement("P11-46")
async def test_a_flood_of_late_results_is_limited_by_the_window(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.result("r", 1, "run.completed", finish_reason="end")
    for number in range(2, 3000):
        raw.delta("r", number)
    await raw.barrier()
    assert len(sink.refusals) <= COUNT + limits.STRIKES
    assert [strike.ends for strike in sink.strikes] == ["nothing", "nothing", "run"]


@pytest.mark.requirement("P05-19")
async def test_a_result_over_one_mebibyte_is_refused_completely_and_ends_nothing(
    open_raw_worker: Any, make_sink: Any
) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.delta("r", 1, "x" * limits.RESULT_BYTES)
    raw.result("r", 2, "message.completed", text="x" * limits.RESULT_BYTES)
    raw.result("r", 3, "run.completed", finish_reason="x" * limits.RESULT_BYTES)
    await sink.until(lambda: len(sink.refusals) == 3)
    sink.run.credit(3)
    raw.result("r", 4, "run.failed", code="runner.error", error="no")
    await sink.until(lambda: sink.taken)
    assert sink.refusals == [(1, "too_large"), (2, "too_large"), (3, "too_large")]
    assert sink.taken == [4]
    assert not sink.strikes


@pytest.mark.requirement("P05-19")
@pytest.mark.parametrize("plain", [True, False])
async def test_the_limit_of_a_result_is_exact(open_raw_worker: Any, make_sink: Any, plain: bool) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    kind = "message.delta" if plain else "other"
    for sequence, over in ((1, 0), (2, 1)):
        bare = len(encode({"run_id": "r", "type": kind, "data": delta(""), "sequence": sequence}))
        raw.result("r", sequence, kind, **delta("x" * (limits.RESULT_BYTES - bare + over)))
    await sink.until(lambda: sink.refusals)
    assert (sink.taken, sink.refusals) == ([1], [(2, "too_large")])
    assert sink.bytes == limits.RESULT_BYTES


async def test_white_space_in_a_result_does_not_count(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink(commits=False)
    raw.start_run("r", sink)
    await raw.called("run/start")
    params = {"run_id": "r", "type": "x", "data": {"text": "y" * (limits.RESULT_BYTES - 100)}, "sequence": 1}
    frame = encode({"jsonrpc": "2.0", "method": "run/result", "params": params})
    raw.send(frame.replace(b",", b"   ,   ").replace(b":", b" : ") + b" " * 1000)
    await sink.until(lambda: sink.taken)
    assert sink.bytes == len(encode(params))


@pytest.mark.requirement("P01-06", "P05-20", "P05-37")
async def test_unknown_types_and_invalid_payloads_pass_without_a_strike(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.result("r", 1, "weather.changed", sky="blue")
    raw.result("r", 2, "message.delta", chunk=5)
    raw.result("r", 3, "state.updated")
    raw.result("r", 4, "run.failed", code=["not", "a", "code"])
    await sink.until(lambda: len(sink.results) == 4)
    assert [result.type for result in sink.results] == [
        "weather.changed",
        "message.delta",
        "state.updated",
        "run.failed",
    ]
    assert (sink.strikes, raw.observer.strikes) == ([], [])


# --- strikes against a run ---


async def two_runs(open_raw_worker: Any, make_sink: Any) -> tuple[Any, Any, Any]:
    raw = await open_raw_worker()
    bad, good = make_sink(commits=False), make_sink()
    raw.start_run("bad", bad)
    raw.start_run("good", good)
    await raw.called("run/start", 2)
    return raw, bad, good


@pytest.mark.requirement("P11-42", "P11-44", "P11-45")
@pytest.mark.parametrize("plain", [True, False])
async def test_results_beyond_the_window_are_strikes_and_the_third_ends_only_the_run(
    open_raw_worker: Any, make_sink: Any, plain: bool
) -> None:
    raw, bad, good = await two_runs(open_raw_worker, make_sink)
    for number in range(1, COUNT + 1):
        raw.result("bad", number, "message.delta" if plain else "x", **delta())
    await bad.until(lambda: len(bad.taken) == COUNT)
    assert not bad.strikes
    for number in range(COUNT + 1, COUNT + 50):
        raw.result("bad", number, "message.delta" if plain else "x", **delta())
    raw.call("call", "api/call", run_id="bad", action="x")
    assert (await raw.answered("call"))["error"]["data"]["code"] == "cancelled"
    assert [(strike.fault, strike.ends) for strike in bad.strikes] == [
        ("over_credit", "nothing"),
        ("over_credit", "nothing"),
        ("over_credit", "run"),
    ]
    assert len(bad.taken) == COUNT + 3
    assert [note["params"] for note in raw.heard("run/cancel")] == [{"run_id": "bad", "reason": "runner.protocol"}]
    for number in range(1, 2 * COUNT):
        raw.delta("good", number)
        await good.until(lambda number=number: len(good.taken) == number)
    assert (good.strikes, raw.observer.strikes, raw.observer.reasons) == ([], [], [])
    raw.answer(raw.heard("run/start")[0]["id"], {"last_sequence": 0})
    await bad.until(lambda: bad.ends)
    assert len(bad.ends) == 1


@pytest.mark.requirement("P11-44")
async def test_bytes_beyond_the_window_are_a_strike(open_raw_worker: Any, make_sink: Any) -> None:
    raw, bad, _ = await two_runs(open_raw_worker, make_sink)
    bare = len(encode({"run_id": "bad", "type": "message.delta", "data": delta(""), "sequence": 1}))
    for number in range(1, 5):
        raw.delta("bad", number, "x" * (limits.WINDOW_BYTES // 4 - bare))
    await bad.until(lambda: len(bad.taken) == 4)
    assert not bad.strikes
    raw.delta("bad", 5, "")
    await bad.until(lambda: bad.strikes)
    assert bad.strikes[0].fault == "over_credit"


WRONG_NOTES = [
    ("no/such", {}),
    ("run/result", {"type": "x", "data": {}}),
    ("run/result", {"type": "x", "sequence": 1}),
    ("run/result", {"data": {}, "sequence": 1}),
    ("run/result", {"type": 5, "data": {}, "sequence": 1}),
    ("run/result", {"type": "x", "data": [], "sequence": 1}),
    ("run/result", {"type": "x", "data": {}, "sequence": 0}),
    ("run/result", {"type": "x", "data": {}, "sequence": True}),
    ("run/result", {"type": "x", "data": {}, "sequence": 1.0}),
    ("run/result", {"type": "x", "data": {}, "sequence": "1"}),
    ("run/result", {"type": "x", "data": {}, "sequence": 1, "timestamp": "now"}),
    ("run/result", {"type": "x", "data": {}, "sequence": 1, "timestamp": -1}),
    ("run/result", {"type": "x", "data": {}, "sequence": 1, "unknown": 1}),
    ("log", {"level": "loud", "message": "x"}),
    ("log", {"level": "info"}),
    ("api/cancel", {}),
    ("api/cancel", {"id": 1, "unknown": 1}),
    ("api/credit", {"stream_id": "s"}),
]


@pytest.mark.requirement("P11-42")
@pytest.mark.parametrize(("method", "params"), WRONG_NOTES)
async def test_an_invalid_notification_is_a_strike_against_its_run_and_the_third_ends_it(
    open_raw_worker: Any, make_sink: Any, method: str, params: dict[str, Any]
) -> None:
    raw, bad, good = await two_runs(open_raw_worker, make_sink)
    for _ in range(5):
        raw.note(method, run_id="bad", **params)
    await bad.until(lambda: len(bad.strikes) == 3)
    await raw.called("run/cancel")
    assert [strike.ends for strike in bad.strikes] == ["nothing", "nothing", "run"]
    raw.delta("good", 1)
    await good.until(lambda: good.taken)
    assert (raw.observer.strikes, bad.taken, raw.observer.logs) == ([], [], [])


@pytest.mark.requirement("P11-43")
@pytest.mark.parametrize(("method", "params"), WRONG_NOTES)
async def test_an_invalid_notification_without_an_active_run_is_a_strike_against_the_connection(
    open_raw_worker: Any, make_sink: Any, method: str, params: dict[str, Any]
) -> None:
    raw, bad, good = await two_runs(open_raw_worker, make_sink)
    for other in ({"run_id": "gone"}, {"run_id": 5}, {}):
        raw.note(method, **other, **params)
    await raw.observer.until(lambda: raw.observer.reasons)
    assert [strike.ends for strike in raw.observer.strikes] == ["nothing", "nothing", "worker"]
    assert (bad.strikes, good.strikes) == ([], [])
    assert [sink.ends[0].how for sink in (bad, good)] == ["lost", "lost"]
    assert "broke the protocol" in raw.observer.reasons[0]


@pytest.mark.requirement("P11-42", "P11-43")
async def test_unknown_and_wrong_calls_are_answered_and_are_strikes(open_raw_worker: Any, make_sink: Any) -> None:
    raw, bad, _ = await two_runs(open_raw_worker, make_sink)
    raw.call(1, "no/such", run_id="bad")
    raw.call(2, "api/call", run_id="bad")
    raw.call(3, "api/stream", run_id="bad", action="x", stream_id="")
    assert (await raw.answered(1))["error"]["code"] == -32601
    assert (await raw.answered(2))["error"]["data"]["details"] == {"field": "action"}
    assert (await raw.answered(3))["error"]["data"]["details"] == {"field": "stream_id"}
    assert [strike.fault for strike in bad.strikes] == ["unknown_method", "envelope", "envelope"]
    raw.call(4, "initialize")
    assert (await raw.answered(4))["error"]["code"] == -32601
    raw.call(5, "api/call", run_id="gone", action="state.get")
    assert (await raw.answered(5))["error"]["data"]["code"] == "not_found"
    assert [strike.fault for strike in raw.observer.strikes] == ["unknown_method", "foreign_call"]


# --- strikes against the channel ---


@pytest.mark.requirement("P05-21", "P11-43")
@pytest.mark.parametrize("plain", [True, False])
async def test_results_without_an_active_run_are_strikes_and_the_third_ends_the_worker(
    open_raw_worker: Any, make_sink: Any, plain: bool
) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    start = await raw.called("run/start")
    for number in range(1, 20):
        raw.result("gone", number, "message.delta" if plain else "x", **delta())
    await raw.until(lambda: raw.reasons)
    await raw.observer.until(lambda: raw.observer.reasons)
    assert [strike.ends for strike in raw.observer.strikes] == ["nothing", "nothing", "worker"]
    assert sink.ends[0].how == "lost"
    assert start["method"] == "run/start"


async def test_results_of_an_answered_run_are_strikes(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    raw.answer((await raw.called("run/start"))["id"], {"last_sequence": 0})
    await sink.until(lambda: sink.ends)
    raw.delta("r", 1)
    await raw.observer.until(lambda: raw.observer.strikes)
    assert not sink.taken


@pytest.mark.requirement("P11-43", "P11-45")
@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (b"garbage", "syntax"),
        (b"[]", "envelope"),
        (b'"\xff"', "encoding"),
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b"[" * 65 + b"]" * 65, "depth"),
        (b"[" + b"1," * 10_000 + b"1]", "nodes"),
        (b'"' + b"x" * limits.FRAME_BYTES + b'"', "oversized"),
        (b'{"jsonrpc":"2.0","id":12345,"result":{}}', "forged_answer"),
        (b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"r","sequence":99999999999999999999}}', "number"),
    ],
)
async def test_unreadable_frames_are_strikes_and_the_third_ends_the_worker(
    open_raw_worker: Any, make_sink: Any, frame: bytes, fault: str
) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.send(frame, frame)
    raw.delta("r", 1)
    await sink.until(lambda: sink.taken)
    assert [strike.fault for strike in raw.observer.strikes] == [fault, fault]
    raw.send(frame, frame, frame)
    raw.delta("r", 2)
    await raw.observer.until(lambda: raw.observer.reasons)
    assert [strike.ends for strike in raw.observer.strikes] == ["nothing", "nothing", "worker"]
    assert (sink.taken, sink.ends[0].how) == ([1], "lost")


async def test_a_smaller_frame_limit_of_the_host_applies_to_deltas_too(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker(ChannelLimits(frame_bytes=1024))
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.delta("r", 1, "x" * 1024)
    await raw.observer.until(lambda: raw.observer.strikes)
    assert raw.observer.strikes[0].fault == "oversized"
    assert not sink.taken


async def test_strikes_of_an_ended_run_do_not_count_for_a_later_one(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    for number in range(1, 4):
        sink = make_sink()
        raw.start_run("r", sink)
        start = await raw.called("run/start", number)
        raw.note("no/such", run_id="r")
        raw.note("no/such", run_id="r")
        raw.answer(start["id"], {"last_sequence": 0})
        await sink.until(lambda sink=sink: sink.ends)
        assert [strike.ends for strike in sink.strikes] == ["nothing", "nothing"]


@pytest.mark.requirement("P11-63")
async def test_credit_is_returned_only_for_taken_results(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink(commits=False)
    run = raw.start_run("r", sink)
    await raw.called("run/start")
    run.credit(1)
    raw.delta("r", 1)
    raw.delta("r", 2)
    await sink.until(lambda: len(sink.taken) == 2)
    run.credit(3)
    run.credit(2)
    run.credit(1)
    credit = await raw.called("run/credit")
    await raw.barrier()
    assert credit["params"] == {"run_id": "r", "sequence": 2}
    assert len(raw.heard("run/credit")) == 1
