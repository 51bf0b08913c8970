"""API calls and streams of a run: answers, refusals, credit, cancellation, and the end of the run."""

import asyncio
import base64
from typing import Any

import pytest
from tests.tables import for_each

from bollard.protocol import RANGED_READS, AgentAPIError, limits
from bollard.wire import ChannelClosed, PayloadTooLarge, RemoteError, RunCall, WorkerRun

CHUNKS = limits.STREAM_WINDOW_CHUNKS


async def next_turn() -> None:
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


async def started(open_channel: Any, sink: Any) -> tuple[Any, WorkerRun]:
    channel = await open_channel()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    return channel, channel.handler.runs[0]


async def read_all(run: WorkerRun, into: list[Any]) -> None:
    async for chunk in run.stream("models.stream", {"q": 1}):
        into += [chunk]  # one by one: results before an error count


# --- calls ---


async def test_a_call_reaches_the_owner_of_the_run_and_its_answer_the_runner(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(on_call=lambda call: call.answer({"got": call.params}))
    _, run = await started(open_channel, sink)
    assert await run.call("state.get", {"key": "k"}) == {"got": {"key": "k"}}
    call = sink.calls[0]
    assert (call.run_id, call.action, call.streamed, call.given_up) == ("r", "state.get", False, False)


@pytest.mark.requirement("P07-09")
async def test_a_refused_call_arrives_as_the_api_error(open_raw_worker: Any, make_sink: Any, open_channel: Any) -> None:
    error = AgentAPIError(code="capability_denied", message="no", retryable=True, details={"a": 1})
    _, run = await started(open_channel, make_sink(on_call=lambda call: call.refuse(error)))
    with pytest.raises(RemoteError) as caught:
        await run.call("state.get", {})
    assert caught.value.code == -32000
    assert caught.value.api_error == error
    raw = await open_raw_worker()
    raw.start_run("r", make_sink(on_call=lambda call: call.refuse(error)))
    await raw.called("run/start")
    raw.call(1, "api/call", run_id="r", action="x")
    answer = await raw.answered(1)
    assert answer["error"] == {"code": -32000, "message": "no", "data": error.to_wire()}


@for_each("data", [None, 5, {}, {"code": 5}, {"code": "x", "retryable": "maybe"}])
def test_an_error_without_a_valid_api_error_is_a_runtime_error(data: Any) -> None:
    assert RemoteError(-32603, "broken", data).api_error.code == "runtime_error"
    assert RemoteError(-32603, "broken", data).api_error.message == "broken"


async def test_an_oversized_answer_is_refused(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(on_call=lambda call: call.answer("x" * (limits.CALL_BYTES - 2 + call.params["over"])))
    _, run = await started(open_channel, sink)
    assert len(str(await run.call("a", {"over": 0}))) == limits.CALL_BYTES - 2
    with pytest.raises(RemoteError) as caught:
        await run.call("a", {"over": 1})
    assert caught.value.api_error.code == "payload_too_large"


@pytest.mark.parametrize("action", sorted(RANGED_READS))
async def test_a_ranged_read_answers_with_a_mebibyte_before_it_is_encoded(
    open_channel: Any, make_sink: Any, action: str
) -> None:
    whole = base64.b64encode(bytes(limits.READ_BYTES)).decode()
    sink = make_sink(on_call=lambda call: call.answer({"content_base64": whole * call.params["times"]}))
    _, run = await started(open_channel, sink)
    assert await run.call(action, {"times": 1}) == {"content_base64": whole}
    with pytest.raises(RemoteError) as caught:
        await run.call(action, {"times": 2})
    assert caught.value.api_error.code == "payload_too_large", "the frame is its limit"
    with pytest.raises(RemoteError):
        await run.call("history.page", {"times": 1})


async def test_an_answer_with_invalid_json_is_an_error(open_channel: Any, make_sink: Any) -> None:
    sink = make_sink(on_call=lambda call: call.answer({"id": 2**60}))
    channel, run = await started(open_channel, sink)
    with pytest.raises(RemoteError) as caught:
        await run.call("a", {})
    assert caught.value.api_error.code == "runtime_error"
    await channel.host.ping()


async def test_a_run_has_32_calls_in_flight_and_the_next_is_rate_limited(open_channel: Any, make_sink: Any) -> None:
    sink, other_sink = make_sink(), make_sink(on_call=lambda call: call.answer(1))
    channel, run = await started(open_channel, sink)
    channel.start_run("other", other_sink)
    calls = [asyncio.create_task(run.call("a", {"n": number})) for number in range(limits.CALLS_IN_FLIGHT)]
    await sink.until(lambda: len(sink.calls) == limits.CALLS_IN_FLIGHT)
    with pytest.raises(RemoteError) as caught:
        await run.call("b", {})
    assert caught.value.api_error.code == "rate_limited"
    assert caught.value.api_error.retryable
    assert (sink.crowd, len(sink.calls)) == (["b"], limits.CALLS_IN_FLIGHT), "the owner only counts it"
    await channel.handler.until(lambda: len(channel.handler.runs) == 2)
    assert await channel.handler.runs[1].call("a", {}) == 1
    sink.calls[0].answer("first")
    assert await calls[0] == "first"
    calls.append(asyncio.create_task(run.call("a", {"n": 32})))
    await sink.until(lambda: len(sink.calls) == limits.CALLS_IN_FLIGHT + 1)
    for call in sink.calls[1:]:
        call.answer(call.params["n"])
    assert await asyncio.gather(*calls[1:]) == list(range(1, 33))


async def test_a_cancelled_call_notifies_its_handler(open_channel: Any, make_sink: Any) -> None:
    told: list[str] = []

    def take(call: RunCall) -> None:
        call.on_given_up = lambda: told.append(call.action)

    sink = make_sink(on_call=take)
    channel, run = await started(open_channel, sink)
    call = asyncio.create_task(run.call("slow", {}))
    await sink.until(lambda: sink.calls)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await channel.host.ping()
    assert told == ["slow"]
    assert sink.calls[0].given_up
    sink.calls[0].answer("nobody waits")
    sink.calls[0].refuse(AgentAPIError(code="not_found", message="nobody waits"))
    sink.calls[0].give_up()
    await channel.host.ping()
    assert told == ["slow"]
    assert not channel.observer.strikes


async def test_an_old_call_never_settles_a_new_one_of_the_same_id(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    start = await raw.called("run/start")
    told: list[str] = []
    for number in (1, 2):
        raw.call("same", "api/stream", run_id="r", stream_id="s", action=str(number))
        await sink.until(lambda number=number: len(sink.calls) == number)
        sink.calls[-1].on_given_up = lambda number=number: told.append(str(number))
        if number == 1:
            raw.note("api/cancel", run_id="r", id="same")
            await raw.answered("same")
    old, new = sink.calls
    old.answer("an answer that nobody waits for")
    old.refuse(AgentAPIError(code="not_found", message="x"))
    old.give_up()
    raw.note("api/credit", stream_id="s", index=5)
    raw.note("api/cancel", run_id="r", id="same")
    await raw.until(lambda: len(raw.answers("same")) == 2)
    assert told == ["1", "2"]
    assert new.given_up
    assert [strike.fault for strike in sink.strikes] == ["credit"]
    raw.answer(start["id"], {"last_sequence": 0})
    await sink.until(lambda: sink.ends)


async def test_the_end_of_a_run_cancels_its_open_calls_and_streams(open_channel: Any, make_sink: Any) -> None:
    told: list[str] = []

    def take(call: RunCall) -> None:
        call.on_given_up = lambda: told.append(call.action)

    sink = make_sink(on_call=take)
    channel, run = await started(open_channel, sink)
    call = asyncio.create_task(run.call("slow", {}))
    stream = asyncio.create_task(read_all(run, []))
    await sink.until(lambda: len(sink.calls) == 2)
    producer = asyncio.create_task(fill(sink.calls[1]))
    await next_turn()
    channel.worker.finish_run(run)
    await sink.run.ended
    assert sorted(told) == ["models.stream", "slow"]
    for task in (call, stream):
        with pytest.raises(RemoteError) as caught:
            await task
        assert caught.value.api_error.code == "cancelled"
    with pytest.raises(ChannelClosed):
        await producer
    assert not channel.observer.strikes


async def fill(call: RunCall) -> None:
    while True:
        await call.chunk("x")


async def test_many_large_concurrent_calls_wait_for_the_socket(open_channel: Any, make_sink: Any) -> None:
    sinks = [make_sink(on_call=lambda call: call.answer(len(call.params["text"]))) for _ in range(2)]
    channel = await open_channel()
    for number, sink in enumerate(sinks):
        channel.start_run(f"r{number}", sink)
    await channel.handler.until(lambda: len(channel.handler.runs) == 2)
    size = limits.CALL_BYTES - 100
    calls = [run.call("artifacts.append", {"text": "x" * size}) for run in channel.handler.runs for _ in range(20)]
    assert await asyncio.gather(*calls) == [size] * 40  # 40 MiB in one turn
    assert not channel.observer.reasons


async def test_many_large_concurrent_starts_wait_for_the_socket(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    for number in range(20):
        run_id = f"r{number}"
        context = {"run_id": run_id, "text": "x" * (limits.FRAME_BYTES - 1000)}
        channel.host.start_run_raw(run_id, {"context": context}, make_sink()).cancel("cancelled")
    await channel.handler.until(lambda: len(channel.handler.cancels) == 20)
    assert sorted(run_id for run_id, _ in channel.handler.cancels) == sorted(run.run_id for run in channel.handler.runs)
    assert not channel.observer.reasons


# --- streams ---


async def test_a_stream_delivers_its_chunks_in_order_and_then_ends(open_channel: Any, make_sink: Any) -> None:
    produced: list[asyncio.Task[None]] = []

    async def produce(call: RunCall) -> None:
        for number in range(1000):
            await call.chunk({"n": number})
        call.answer({"done": True})

    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    channel, run = await started(open_channel, sink)
    read: list[Any] = []
    await read_all(run, read)
    assert read == [{"n": number} for number in range(1000)]
    await asyncio.gather(*produced)
    assert sink.calls[0].streamed
    assert not channel.observer.strikes
    assert not sink.strikes


async def test_a_failing_stream_delivers_its_chunks_and_then_raises(open_channel: Any, make_sink: Any) -> None:
    async def produce(call: RunCall) -> None:
        await call.chunk(1)
        await call.chunk(2)
        call.refuse(AgentAPIError(code="budget_exceeded", message="enough"))

    produced: list[asyncio.Task[None]] = []
    _, run = await started(
        open_channel, make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    )
    read: list[Any] = []
    with pytest.raises(RemoteError) as caught:
        await read_all(run, read)
    assert read == [1, 2]
    assert caught.value.api_error.code == "budget_exceeded"


@pytest.mark.requirement("P11-46", "P11-64")
async def test_an_unread_stream_stops_at_256_chunks_and_continues_when_read(open_channel: Any, make_sink: Any) -> None:
    sent = 0

    async def produce(call: RunCall) -> None:
        nonlocal sent
        for number in range(3 * CHUNKS):
            await call.chunk(number)
            sent += 1
        call.answer({})

    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    channel, run = await started(open_channel, sink)
    stream = run.stream("models.stream", {})
    assert await anext(stream) == 0
    for _ in range(3):
        await channel.host.ping()
    assert sent == CHUNKS
    rest = [chunk async for chunk in stream]
    assert rest == list(range(1, 3 * CHUNKS))
    assert not sink.strikes


@pytest.mark.requirement("P11-64")
async def test_an_unread_stream_stops_at_four_mebibytes(open_channel: Any, make_sink: Any) -> None:
    sent = 0

    async def produce(call: RunCall) -> None:
        nonlocal sent
        for _ in range(20):
            await call.chunk("x" * (limits.STREAM_WINDOW_BYTES // 8))
            sent += 1
            sink.notify()
        call.answer({})

    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    channel, run = await started(open_channel, sink)
    stream = run.stream("models.stream", {})
    await anext(stream)
    await sink.until(lambda: sent == 7)
    await channel.host.ping()
    assert sent == 7  # eight of them and their envelopes are more than the window
    assert len([chunk async for chunk in stream]) == 19


async def test_an_abandoned_stream_is_cancelled_and_its_producer_is_notified(open_channel: Any, make_sink: Any) -> None:
    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(fill(call))))
    _, run = await started(open_channel, sink)
    stream = run.stream("models.stream", {})
    async for _ in stream:
        break
    await stream.aclose()
    with pytest.raises(ChannelClosed):
        await produced[0]
    assert sink.calls[0].given_up
    assert not sink.strikes
    read: list[Any] = []
    sink.on_call = lambda call: call.answer({})
    await read_all(run, read)
    assert read == []


async def test_a_producer_that_waits_for_credit_is_notified_of_the_end_of_its_stream(
    open_channel: Any, make_sink: Any
) -> None:
    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(fill(call))))
    channel, run = await started(open_channel, sink)
    stream = run.stream("models.stream", {})
    await anext(stream)
    for _ in range(3):
        await channel.host.ping()
    sink.calls[0].refuse(AgentAPIError(code="revoked", message="taken away"))
    with pytest.raises(ChannelClosed):
        await produced[0]
    with pytest.raises(RemoteError) as caught:
        async for _ in stream:
            pass
    assert caught.value.api_error.code == "revoked"


async def test_a_chunk_larger_than_a_frame_is_refused_and_the_stream_continues(
    open_channel: Any, make_sink: Any
) -> None:
    async def produce(call: RunCall) -> None:
        with pytest.raises(PayloadTooLarge):
            await call.chunk("x" * limits.FRAME_BYTES)
        await call.chunk("small")
        call.answer({})

    produced: list[asyncio.Task[None]] = []
    _, run = await started(
        open_channel, make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    )
    read: list[Any] = []
    await read_all(run, read)
    assert read == ["small"]
    await asyncio.gather(*produced)


async def test_chunks_have_an_index_and_wait_for_the_credit_of_the_worker(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(fill(call))))
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.call(1, "api/stream", run_id="r", stream_id="s", action="models.stream")
    await raw.called("api/chunk", CHUNKS)
    await raw.barrier()
    assert [note["params"]["index"] for note in raw.heard("api/chunk")] == list(range(1, CHUNKS + 1))
    raw.note("api/credit", stream_id="s", index=3)
    await raw.called("api/chunk", CHUNKS + 3)
    raw.note("api/credit", stream_id="unknown", index=9)
    raw.note("api/credit", stream_id="s", index=3)
    raw.note("api/credit", stream_id="s", index=CHUNKS + 4)
    raw.note("api/credit", stream_id="s", index=1)
    await sink.until(lambda: len(sink.strikes) == 2)
    assert [strike.fault for strike in sink.strikes] == ["credit", "credit"]
    assert len(raw.heard("api/chunk")) == CHUNKS + 3
    raw.note("api/cancel", run_id="r", id=1)
    assert (await raw.answered(1))["error"]["data"]["code"] == "cancelled"
    with pytest.raises(ChannelClosed):
        await produced[0]


async def test_the_id_of_an_open_stream_cannot_be_reused(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    first, second = make_sink(), make_sink()
    raw.start_run("a", first)
    raw.start_run("b", second)
    await raw.called("run/start", 2)
    raw.call(1, "api/stream", run_id="a", stream_id="s", action="x")
    raw.call(2, "api/stream", run_id="b", stream_id="s", action="x")
    assert (await raw.answered(2))["error"]["data"]["code"] == "invalid_argument"
    assert (len(first.calls), len(second.calls)) == (1, 0)
    assert (len(first.strikes), len(second.strikes)) == (0, 1)
    first.calls[0].answer({})
    raw.call(3, "api/stream", run_id="b", stream_id="s", action="x")
    await second.until(lambda: second.calls)


async def test_a_run_cannot_cancel_the_call_of_another(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    first, second = make_sink(), make_sink()
    raw.start_run("a", first)
    raw.start_run("b", second)
    await raw.called("run/start", 2)
    raw.call(1, "api/call", run_id="a", action="x")
    await first.until(lambda: first.calls)
    raw.note("api/cancel", run_id="b", id=1)
    raw.note("api/cancel", run_id="gone", id=1)
    await raw.barrier()
    assert not first.calls[0].given_up
