"""Bursts of valid messages wait for the peer to read; the connection stays open."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_transport import MemoryTransport

from bollard.protocol import LogRecord, TextContent, ToolAnswer, ToolCallContext, ToolCallParams, limits
from bollard.wire import ChannelClosed, Peer, RemoteError, RunCall, StreamTransport, WorkerRun
from bollard.wire.limits import CONCURRENT_READS, HELD_RESPONSE_BYTES, SMALL_FRAME_BYTES, WRITE_HARD_LIMIT_BYTES
from bollard.wire.stream import LineCodec

CROWD = 20  # of a mebibyte each: more than the hard limit
LARGE = "x" * (1024 * 1024 - 1000)


async def turns(number: int = 5) -> None:
    for _ in range(number):
        turned = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turned.set_result, None)
        await turned


async def started(channel: Any, sinks: list[Any]) -> list[WorkerRun]:
    for number, sink in enumerate(sinks):
        channel.start_run(f"r{number}", sink)
    await channel.handler.until(lambda: len(channel.handler.runs) == len(sinks))
    return channel.handler.runs


# --- from the host to its worker ---


@pytest.mark.requirement("P11-46")
@pytest.mark.parametrize("action", ["artifacts.read", "history.page"])
async def test_large_answers_to_the_calls_of_a_run_wait_for_the_worker(
    open_channel: Any, make_sink: Any, action: str
) -> None:
    channel = await open_channel()
    sinks = [make_sink(on_call=lambda call: call.answer({"content": LARGE})) for _ in range(2)]
    runs = await started(channel, sinks)
    calls = [run.call(action, {}) for run in runs for _ in range(limits.CALLS_IN_FLIGHT)]
    for answer in await asyncio.gather(*calls):
        assert answer == {"content": LARGE}
    assert not channel.observer.reasons


@pytest.mark.requirement("P11-46")
async def test_a_ranged_read_starts_when_its_answer_has_space(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    sink = make_sink()
    (run,) = await started(channel, [sink])
    reads = [asyncio.create_task(run.call("files.get", {"n": number})) for number in range(CONCURRENT_READS + 3)]
    small = asyncio.create_task(run.call("state.get", {"n": "small"}))
    await sink.until(lambda: len(sink.calls) == CONCURRENT_READS + 1)
    assert sink.calls[-1].action == "state.get", "whatever is no ranged read does not wait for one"
    reads[CONCURRENT_READS].cancel()
    await channel.host.ping()
    await turns()
    assert len(sink.calls) == CONCURRENT_READS + 1
    for call in list(sink.calls):
        call.answer(call.params["n"])
    await sink.until(lambda: len(sink.calls) == CONCURRENT_READS + 3)
    for call in sink.calls[-2:]:
        call.answer(call.params["n"])
    answers = await asyncio.gather(*reads, return_exceptions=True)
    assert isinstance(answers.pop(CONCURRENT_READS), asyncio.CancelledError), "one that was given up never begins"
    assert answers == [number for number in range(CONCURRENT_READS + 3) if number != CONCURRENT_READS]
    assert await small == "small"


async def test_waiting_reads_of_an_ended_run_are_not_started(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    sink = make_sink()
    (run,) = await started(channel, [sink])
    reads = [asyncio.create_task(run.call("files.get", {})) for _ in range(limits.CALLS_IN_FLIGHT)]
    await sink.until(lambda: len(sink.calls) == CONCURRENT_READS)
    channel.worker.finish_run(run)
    await sink.until(lambda: sink.ends)
    assert len(sink.calls) == CONCURRENT_READS
    for answer in await asyncio.gather(*reads, return_exceptions=True):
        assert isinstance(answer, RemoteError)


@pytest.mark.requirement("P11-46")
async def test_unread_answers_beyond_the_limit_are_refused(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink(on_call=lambda call: call.answer({"content": LARGE}))
    raw.start_run("r", sink)
    await raw.called("run/start")
    raw.transport.pause_reading()
    beyond = HELD_RESPONSE_BYTES // len(LARGE) + CROWD
    for number in range(beyond):
        raw.call(number, "api/call", run_id="r", action="history.page", params={})
    await sink.until(lambda: len(sink.calls) == beyond)
    raw.transport.resume_reading()
    await raw.until(lambda: all(raw.answers(number) for number in range(beyond)))
    refused = [number for number in range(beyond) if "error" in raw.answers(number)[0]]
    assert 0 < len(refused) <= CROWD
    assert raw.answers(refused[0])[0]["error"]["data"]["code"] == "rate_limited"
    assert not raw.observer.reasons


class Behind(asyncio.Transport):
    """The asyncio side of a stream whose peer has taken a little more whenever it is looked, if at all."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.taken = 0
        self.takes = 0
        self.aborted = asyncio.Event()

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        self.taken += self.takes
        return sum(map(len, self.writes)) - self.taken

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.aborted.is_set()

    def close(self) -> None:
        self.aborted.set()

    def abort(self) -> None:
        self.aborted.set()


async def test_a_small_answer_does_not_wait_behind_large_ones(make_listener: Any) -> None:
    stream, transport, listener = Behind(), StreamTransport(LineCodec()), make_listener(lambda call: None)
    transport.connection_made(stream)
    Peer(transport, listener).start()
    for number in (1, 2, 3):
        transport.data_received(b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % number)
    transport.pause_writing()
    listener.calls[0].answer("x" * SMALL_FRAME_BYTES)
    listener.calls[1].answer("small")
    listener.calls[2].answer("y" * SMALL_FRAME_BYTES)
    await turns()
    assert b"small" in b"".join(stream.writes)
    assert b"xx" not in b"".join(stream.writes)
    transport.resume_writing()
    await turns()
    written = b"".join(stream.writes)
    assert 0 < written.index(b"xx") < written.index(b"yy"), "they leave in their order"


@pytest.mark.requirement("P11-46")
async def test_a_peer_that_does_not_read_for_some_time_is_cut_and_a_slow_one_is_not() -> None:
    stream, transport = Behind(), StreamTransport(LineCodec(), stall_s=0.0)
    transport.connection_made(stream)
    for _ in range(3):
        transport.send(LARGE.encode())
    stream.takes = 1
    transport.pause_writing()
    while stream.taken < 20 and not stream.aborted.is_set():
        await turns(1)
    assert not stream.aborted.is_set()
    stream.takes = 0
    waiting = asyncio.create_task(transport.drain())
    async with asyncio.timeout(60):
        await stream.aborted.wait()
    with pytest.raises(ChannelClosed, match="does not read"):
        await waiting


async def test_a_peer_in_memory_that_does_not_read_is_cut_as_well(make_raw_side: Any) -> None:
    left, right = MemoryTransport(stall_s=0.0), MemoryTransport()
    left.join(right)
    right.join(left)
    heard = make_raw_side(left)
    heard.start()
    left.send(LARGE.encode())
    await heard.until(lambda: heard.reasons)
    assert heard.reasons == ["the peer does not read"]


# --- from a worker to its host ---


def message(text: str = LARGE) -> Any:
    return {"message": {"role": "assistant", "content": text}}


@pytest.mark.requirement("P11-46")
async def test_large_results_of_many_concurrent_runs_wait_for_the_host(open_channel: Any, make_sink: Any) -> None:
    ready = asyncio.Event()

    async def behave(run: WorkerRun) -> None:
        await ready.wait()
        await run.emit("message.completed", message())
        await run.emit("run.completed", {"finish_reason": "end", **message()})

    channel = await open_channel(behave)
    sinks = [make_sink() for _ in range(CROWD)]
    await started(channel, sinks)
    ready.set()
    for sink in sinks:
        assert (await sink.run.ended).last_sequence == 2
        assert [result.data["message"]["content"] for result in sink.results] == [LARGE, LARGE]
    assert not channel.observer.reasons


@pytest.mark.requirement("P11-46")
async def test_large_terminal_results_of_many_concurrent_runs_wait_for_the_host(
    open_channel: Any, make_sink: Any
) -> None:
    ready = asyncio.Event()

    async def behave(run: WorkerRun) -> None:
        await ready.wait()
        await run.emit("run.completed", {"finish_reason": "end", **message()})

    channel = await open_channel(behave)
    sinks = [make_sink() for _ in range(CROWD)]
    await started(channel, sinks)
    ready.set()
    for sink in sinks:
        assert (await sink.run.ended).last_sequence == 1
    assert not channel.observer.reasons


async def test_a_terminal_result_cancelled_while_it_waits_is_not_sent_and_a_small_one_does_not_wait(
    open_raw_host: Any,
) -> None:
    raw, worker, handler = await open_raw_host()
    raw.call("start", "run/start", context={"run_id": "r"})
    await handler.until(lambda: handler.runs)
    (run,) = handler.runs
    raw.transport.pause_reading()
    await run.emit("message.completed", message())
    last = asyncio.create_task(run.emit("run.completed", {"finish_reason": "end", **message()}))
    await turns()
    assert not last.done(), "the host is behind"
    last.cancel()
    with pytest.raises(asyncio.CancelledError):
        await last
    assert not run.terminal_sent
    await run.emit("run.failed", {"code": "cancelled", "error": "it was cancelled"})
    worker.finish_run(run)
    raw.transport.resume_reading()
    await raw.answered("start")
    types = [note["params"]["type"] for note in raw.heard("run/result")]
    assert types == ["message.completed", "run.failed"]


async def test_large_answers_of_many_concurrent_tools_wait_for_the_host(open_channel: Any) -> None:
    channel = await open_channel()
    context = ToolCallContext(run_id="r", workspace_id="w", agent_id="a")
    asked = [
        ToolCallParams(call_id=f"c{number}", tool="t", arguments={}, timeout_ms=60_000, context=context)
        for number in range(CROWD)
    ]
    calls = [asyncio.create_task(channel.host.call_tool(params)) for params in asked]
    await channel.handler.until(lambda: len(channel.handler.tools_called) == CROWD)
    for request in channel.handler.tools_called:
        request.answer(ToolAnswer(content=(TextContent(text=LARGE),)))
    for answer in await asyncio.gather(*calls):
        assert answer.content == (TextContent(text=LARGE),)
    assert not channel.observer.reasons


async def test_large_concurrent_streamed_calls_wait_for_the_host(open_channel: Any, make_sink: Any) -> None:
    async def produce(call: RunCall) -> None:
        await call.chunk(len(call.params["text"]))
        call.answer({})

    produced: list[asyncio.Task[None]] = []
    sink = make_sink(on_call=lambda call: produced.append(asyncio.create_task(produce(call))))
    channel = await open_channel()
    (run,) = await started(channel, [sink])

    async def read() -> list[Any]:
        return [chunk async for chunk in run.stream("models.stream", {"text": LARGE})]

    assert await asyncio.gather(*(read() for _ in range(CROWD))) == [[len(LARGE)]] * CROWD
    assert not channel.observer.reasons


async def test_a_burst_of_large_log_records_drops_fields_and_cuts_no_connection(open_channel: Any) -> None:
    channel = await open_channel()
    fields = {"text": "x" * 60 * 1024}
    for number in range(limits.LOG_RECORDS_BURST):
        channel.worker.log("info", f"line {number}", fields)
    assert limits.LOG_RECORDS_BURST * len(fields["text"]) > WRITE_HARD_LIMIT_BYTES
    await channel.observer.until(lambda: len(channel.observer.logs) == limits.LOG_RECORDS_BURST)
    logs: list[LogRecord] = channel.observer.logs
    assert logs[0].fields == fields
    assert logs[-1].fields == {"fields_refused": "congested"}
    assert [log.message for log in logs] == [f"line {number}" for number in range(limits.LOG_RECORDS_BURST)]
    assert not channel.observer.reasons
