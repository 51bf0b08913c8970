"""A connection that is lost at every moment of an exchange: no call hangs, and every run ends once."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.doubles.memory_transport import MemoryTransport

from bollard.protocol import AgentAPIError, PluginIdentity, ToolAnswer, ToolCallContext, ToolCallParams, WorkerIdentity
from bollard.wire import HostEnd, RunCall, StreamTransport, WireError, WorkerEnd, WorkerRun
from bollard.wire.stream import LineCodec

PATIENCE_S = 120.0
PLUGIN = PluginIdentity(author="acme", name="helpdesk", version="1")
WORKER = WorkerIdentity(name="test", version="1", language="python")
MOST_FRAMES = 60


class Cutting(MemoryTransport):
    """One end of a pair that closes after its k-th frame."""

    left = -1

    def send(self, frame: bytes) -> None:
        super().send(frame)
        self.left -= 1
        if self.left == 0:
            self.close("cut")


class CuttingStream(StreamTransport):
    """A socket that is torn down, not closed, after its k-th frame: queued frames are lost."""

    left = -1

    def send(self, frame: bytes) -> None:
        super().send(frame)
        self.left -= 1
        if self.left == 0:
            assert self._stream is not None
            self._stream.abort()


async def cutting_memory(host_after: int, worker_after: int) -> tuple[Any, Any]:
    left, right = Cutting(), Cutting()
    left.join(right)
    right.join(left)
    left.left, right.left = host_after, worker_after
    return left, right


async def cutting_sockets(host_after: int, worker_after: int) -> tuple[Any, Any]:
    made = []
    for sock, after in zip(socket.socketpair(), (host_after, worker_after), strict=True):
        sock.setblocking(False)
        _, transport = await asyncio.get_running_loop().create_connection(lambda: CuttingStream(LineCodec()), sock=sock)
        transport.left = after
        made.append(transport)
    return made[0], made[1]


def answer_call(call: RunCall) -> None:
    async def stream() -> None:
        try:
            for number in range(3):
                await call.chunk(number)
            call.answer({})
        except WireError:
            pass

    if call.streamed:
        PRODUCERS.append(asyncio.create_task(stream()))
    elif call.action == "denied":
        call.refuse(AgentAPIError(code="not_found", message="no"))
    else:
        call.answer({"ok": True})


PRODUCERS: list[asyncio.Task[None]] = []


async def behave(run: WorkerRun) -> None:
    """A runner that uses everything a run has."""
    try:
        for number in range(3):
            await run.emit("message.delta", {"chunk": {"role": "assistant", "content": str(number)}})
        await run.call("state.get", {"key": "k"})
        async for _ in run.stream("models.stream", {}):
            pass
        with contextlib.suppress(WireError):
            await run.call("denied", {})
        await run.emit("run.completed", {"finish_reason": "end"})
    except WireError:
        pass


async def exchange(host: HostEnd, handler: Any, sinks: list[Any], steps: list[str]) -> None:
    """Everything a host does with a worker, step by step."""
    await host.initialize("1")
    steps.append("initialize")
    await host.list_runners()
    await host.list_tools()
    steps.append("lists")
    runs = [
        host.start_run_raw(f"r{number}", {"context": {"run_id": f"r{number}"}}, sink)
        for number, sink in enumerate(sinks)
    ]
    for run, sink in zip(runs, sinks, strict=True):
        sink.run = run
    context = ToolCallContext(run_id="r", workspace_id="w", agent_id="a")
    params = ToolCallParams(call_id="c", tool="add", arguments={}, timeout_ms=60_000, context=context)
    await host.call_tool(params)
    steps.append("tool")
    await host.ping()
    for run in runs:
        await run.ended
    steps.append("runs")
    await host.shutdown(0)
    steps.append("shutdown")


class ToolHandler:
    """Answers tools at once; everything else is the handler's."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handler, name)

    def tool_called(self, request: Any) -> None:
        request.answer(ToolAnswer())


async def play(
    make: Callable[[int, int], Any],
    host_after: int,
    worker_after: int,
    make_sink: Any,
    make_handler: Any,
    make_observer: Any,
) -> list[str]:
    """Run the exchange with a cut; returns the completed steps, after checking that everything has ended."""
    left, right = await make(host_after, worker_after)
    observer, handler = make_observer(), make_handler(behave)
    worker = WorkerEnd(right, ToolHandler(handler), worker=WORKER, plugin=PLUGIN)
    handler.end = worker
    worker.start()
    host = HostEnd(left, observer)
    sinks = [make_sink(on_call=answer_call) for _ in range(2)]
    steps: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        try:
            await exchange(host, handler, sinks, steps)
        except WireError:
            pass
        else:
            host.close("done")
        await observer.until(lambda: observer.reasons)
        await handler.until(lambda: handler.reasons)
        await asyncio.gather(*handler.tasks)
        await asyncio.gather(*PRODUCERS)
    PRODUCERS.clear()
    for sink in sinks:
        if sink.run is not None:
            assert len(sink.ends) == 1
            assert sink.ends[0].how in ("answered", "lost")
            assert sink.taken == list(range(1, len(sink.taken) + 1))
            assert all(call.given_up or call._incoming.answered for call in sink.calls)
            if sink.ends[0].how == "answered":
                assert sink.ends[0].last_sequence == 4
    assert (len(observer.reasons), len(handler.reasons)) == (1, 1)
    assert not worker.runs
    return steps


@pytest.mark.requirement("P08-17", "P11-45")
@pytest.mark.parametrize("side", ["host", "worker"])
@pytest.mark.parametrize("kind", ["memory", "socket"])
async def test_a_connection_lost_after_any_frame_ends_everything_once(
    trouble: list[Any], make_sink: Any, make_handler: Any, make_observer: Any, side: str, kind: str
) -> None:
    make = cutting_memory if kind == "memory" else cutting_sockets
    complete = 0
    for after in range(1, MOST_FRAMES):
        cut = (after, -1) if side == "host" else (-1, after)
        steps = await play(make, *cut, make_sink, make_handler, make_observer)
        complete += "shutdown" in steps
        assert not trouble, (after, trouble)
    assert 0 < complete < MOST_FRAMES - 10  # the cuts reach from the first frame past the last one


async def test_the_whole_exchange_works_without_a_cut(
    trouble: list[Any], make_sink: Any, make_handler: Any, make_observer: Any
) -> None:
    steps = await play(cutting_memory, -1, -1, make_sink, make_handler, make_observer)
    assert steps == ["initialize", "lists", "tool", "runs", "shutdown"]
    assert not trouble


@pytest.mark.requirement("P08-17")
async def test_every_run_of_a_lost_connection_ends_at_once_with_the_reason(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    sinks = [make_sink() for _ in range(5)]
    for number, sink in enumerate(sinks):
        channel.start_run(f"r{number}", sink)
    await channel.handler.until(lambda: len(channel.handler.runs) == 5)
    channel.worker.close("the worker crashed")
    await channel.observer.until(lambda: channel.observer.reasons)
    assert [sink.ends[0].how for sink in sinks] == ["lost"] * 5
    assert {sink.ends[0].reason for sink in sinks} == set(channel.observer.reasons)
    with pytest.raises(WireError):
        channel.start_run("late", make_sink())
    await channel.handler.until(lambda: channel.handler.reasons)
    assert all(run.over for run in channel.handler.runs)


async def test_an_answer_before_the_end_of_the_connection_counts(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    sink = make_sink()
    raw.start_run("r", sink)
    start = await raw.called("run/start")
    raw.result("r", 1, "run.completed", finish_reason="end")
    raw.answer(start["id"], {"last_sequence": 1})
    raw.transport.close("bye")
    await raw.observer.until(lambda: raw.observer.reasons)
    assert sink.taken == [1]
    assert [end.how for end in sink.ends] == ["answered"]
