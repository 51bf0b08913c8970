"""Both ends of a worker connection over every transport, with in-memory listeners."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal

import pytest
from tests.doubles.memory_transport import memory_pair
from tests.doubles.websocket_server import serve_websocket
from tests.notifier import Notifier

from bollard.protocol import ChannelLimits, LogRecord, PluginIdentity, WorkerIdentity
from bollard.wire import (
    Delta,
    FrameError,
    HostEnd,
    HostRun,
    IncomingCall,
    Notification,
    Receiver,
    RunCall,
    RunEnd,
    Strike,
    ToolRequest,
    Transport,
    Violation,
    WorkerEnd,
    WorkerResult,
    WorkerRun,
    connect_socket,
    decode,
    encode,
)
from bollard.wire.websocket import connect_websocket

PATIENCE_S = 120.0
HANG_S = 60.0
PLUGIN = PluginIdentity(author="acme", name="helpdesk", version="1")
WORKER = WorkerIdentity(name="test", version="1", language="python")


class Listener(Notifier):
    """A service that records its frames and answers calls on demand."""

    def __init__(self, on_call: Callable[[IncomingCall], None] | None = None) -> None:
        super().__init__()
        self.on_call = on_call or (lambda call: call.answer({"method": call.method, "params": call.params}))
        self.calls: list[IncomingCall] = []
        self.notes: list[Notification] = []
        self.faults: list[str] = []
        self.batches: list[int] = []
        self.reasons: list[str] = []
        self._in_batch = 0

    def quick(self, frame: bytes) -> bool:
        self._in_batch += 1
        return False

    def called(self, call: IncomingCall) -> None:
        self.calls.append(call)
        self.on_call(call)
        self.notify()

    def noted(self, note: Notification, size: int) -> None:
        self.notes.append(note)
        self.notify()

    def faulted(self, fault: FrameError) -> None:
        self.faults.append(fault.fault)
        self.notify()

    def batch_ended(self) -> None:
        self.batches.append(self._in_batch)
        self._in_batch = 0
        self.notify()

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.notify()


class Observer(Notifier):
    """The owner of a host's end."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: list[LogRecord] = []
        self.strikes: list[Strike] = []
        self.violations: list[Violation] = []
        self.reasons: list[str] = []

    def violated(self, violation: Violation) -> None:
        self.violations.append(violation)
        self.notify()

    def logged(self, record: LogRecord) -> None:
        self.logs.append(record)
        self.notify()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)
        self.notify()

    def batch_ended(self) -> None:
        self.notify()

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.notify()


class Sink(Notifier):
    """The owner of a run. Commits at once when `commits`, else credit is withheld."""

    def __init__(self, *, commits: bool = True, on_call: Callable[[RunCall], None] | None = None) -> None:
        super().__init__()
        self.commits = commits
        self.on_call = on_call
        self.run: HostRun | None = None
        self.taken: list[int] = []
        self.texts: list[str] = []
        self.results: list[WorkerResult] = []
        self.gaps: list[tuple[int, int]] = []
        self.refusals: list[tuple[int, str]] = []
        self.calls: list[RunCall] = []
        self.crowd: list[str] = []
        self.strikes: list[Strike] = []
        self.ends: list[RunEnd] = []
        self.bytes = 0

    def _commit(self, sequence: int) -> None:
        self.taken.append(sequence)
        if self.commits and self.run is not None:
            self.run.credit(sequence)
        self.notify()

    def delta(self, delta: Delta, size: int) -> None:
        self.texts.append(delta.text)
        self.bytes += size
        self._commit(delta.sequence)

    def result(self, result: WorkerResult) -> None:
        self.results.append(result)
        self.bytes += result.size_bytes
        self._commit(result.sequence)

    def gap(self, first: int, last: int) -> None:
        self.gaps.append((first, last))

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self.refusals.append((sequence, why))
        self.notify()

    def called(self, call: RunCall) -> None:
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        self.notify()

    def crowded(self, call: RunCall, times: int) -> None:
        self.crowd += [call.action] * times
        self.notify()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)
        self.notify()

    def ended(self, end: RunEnd) -> None:
        self.ends.append(end)
        self.notify()


Behaviour = Callable[[WorkerRun], Awaitable[None]]


class Handler(Notifier):
    """A worker's handler: each run is a task of `behaviour`, and is finished when that returns."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.listed_runners: list[Any] = []
        self.listed_tools: list[Any] = []
        self.runs: list[WorkerRun] = []
        self.cancels: list[tuple[str, str]] = []
        self.tools_called: list[ToolRequest] = []
        self.tools_cancelled: list[str] = []
        self.graces: list[float] = []
        self.reasons: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.end: WorkerEnd | None = None

    def runners(self) -> list[Any]:
        return self.listed_runners

    def tools(self) -> list[Any]:
        return self.listed_tools

    def run_started(self, run: WorkerRun) -> None:
        self.runs.append(run)
        if self.behaviour is not None:
            self.tasks.append(asyncio.get_running_loop().create_task(self._serve(run, self.behaviour)))
        self.notify()

    async def _serve(self, run: WorkerRun, behaviour: Behaviour) -> None:
        await behaviour(run)
        if self.end is not None:
            self.end.finish_run(run)

    def run_cancelled(self, run: WorkerRun, reason: str) -> None:
        self.cancels.append((run.run_id, reason))
        self.notify()

    def tool_called(self, request: ToolRequest) -> None:
        self.tools_called.append(request)
        self.notify()

    def tool_cancelled(self, call_id: str) -> None:
        self.tools_cancelled.append(call_id)
        self.notify()

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        self.graces.append(grace_s)
        done()
        self.notify()

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.notify()


class RawSide(Notifier, Receiver):
    """One side of a connection that sends the bytes of a test."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        self.transport = transport
        self.frames: list[Any] = []
        self.reasons: list[str] = []

    def start(self) -> None:
        self.transport.start(self)

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        self.frames += [frame if isinstance(frame, FrameError) else decode(frame) for frame in frames]
        self.notify()

    def connection_lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self.notify()

    def send(self, *values: Any) -> None:
        for value in values:
            self.transport.send(value if isinstance(value, bytes) else encode(value))

    def note(self, method: str, /, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def call(self, call_id: int | str, method: str, /, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def answer(self, call_id: int | str, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": call_id, "result": result})

    def delta(self, run_id: str, sequence: int, text: str = "x") -> None:
        self.result(run_id, sequence, "message.delta", chunk={"role": "assistant", "content": text})

    def result(self, run_id: str, sequence: int, kind: str, /, **data: Any) -> None:
        self.note("run/result", run_id=run_id, type=kind, data=data, sequence=sequence)

    def heard(self, method: str) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, dict) and frame.get("method") == method]

    def answers(self, call_id: int | str) -> list[Any]:
        return [
            frame
            for frame in self.frames
            if isinstance(frame, dict) and frame.get("id") == call_id and "method" not in frame
        ]

    async def called(self, method: str, count: int = 1) -> Any:
        """The `count`-th call or note of a method, once it has come."""
        await self.until(lambda: len(self.heard(method)) >= count)
        return self.heard(method)[count - 1]

    async def answered(self, call_id: int | str) -> Any:
        await self.until(lambda: self.answers(call_id))
        return self.answers(call_id)[0]


class Wires:
    """Makes joined transports of one kind and closes them."""

    def __init__(self, kind: str, stack: contextlib.AsyncExitStack) -> None:
        self.kind = kind
        self._stack = stack

    async def pair(self) -> tuple[Transport, Transport]:
        match self.kind:
            case "memory":
                left, right = memory_pair()
            case "socket":
                ours, theirs = socket.socketpair()
                left, right = await connect_socket(ours), await connect_socket(theirs)
            case _:
                left, right = await self._websocket()
        for transport in (left, right):
            self._stack.callback(transport.close, "the test is over")
        return left, right

    async def _websocket(self) -> tuple[Transport, Transport]:
        accepted: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()

        async def accept(transport: Transport, request: object) -> None:
            accepted.set_result(transport)

        server = await serve_websocket(accept, "127.0.0.1", 0)
        self._stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]
        left = await connect_websocket(f"ws://127.0.0.1:{port}/")
        return left, await accepted


class Channel:
    """A host's end and a worker's end, joined and introduced."""

    def __init__(self, host: HostEnd, worker: WorkerEnd, observer: Observer, handler: Handler) -> None:
        self.host = host
        self.worker = worker
        self.observer = observer
        self.handler = handler

    def start_run(self, run_id: str, sink: Sink) -> HostRun:
        run = self.host.start_run_raw(run_id, {"context": {"run_id": run_id}}, sink)
        sink.run = run
        return run


class RawWorker(RawSide):
    """A worker that introduces itself and then sends the frames of a test."""

    host: HostEnd
    observer: Observer

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        super().frames_received(frames)
        for frame in frames:
            value: Any = None if isinstance(frame, FrameError) else decode(frame)
            if isinstance(value, dict) and value.get("method") == "initialize":
                introduction = {"protocol": 1, "worker": WORKER.to_wire(), "plugin": PLUGIN.to_wire()}
                self.answer(value["id"], introduction)

    def start_run(self, run_id: str, sink: Sink) -> HostRun:
        run = self.host.start_run_raw(run_id, {"context": {"run_id": run_id}}, sink)
        sink.run = run
        return run

    async def barrier(self) -> None:
        """The host has read everything sent before this, and this side has read all its answers."""
        self.call("barrier", "api/call", run_id="no such run", action="x")
        await self.answered("barrier")


@pytest.fixture(autouse=True)
def no_test_hangs() -> Iterator[None]:
    """A test with an endless wait fails instead of blocking the suite."""

    def give_up(*_: object) -> None:
        raise TimeoutError("the test waits for something that does not come")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
async def stack() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as closing:
        yield closing


@pytest.fixture
async def trouble() -> AsyncIterator[list[dict[str, Any]]]:
    """Everything reported to the loop's exception handler: an exception of a callback, or an unretrieved one."""
    found: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(context))
    yield found
    loop.set_exception_handler(None)


@pytest.fixture(params=["memory", "socket", "websocket"])
def wires(request: pytest.FixtureRequest, stack: contextlib.AsyncExitStack) -> Wires:
    return Wires(request.param, stack)


@pytest.fixture(params=["memory", "socket"])
def local_wires(request: pytest.FixtureRequest, stack: contextlib.AsyncExitStack) -> Wires:
    return Wires(request.param, stack)


@pytest.fixture
def memory_wires(stack: contextlib.AsyncExitStack) -> Wires:
    return Wires("memory", stack)


async def _channel(wires: Wires, *, behaviour: Behaviour | None, limits: ChannelLimits | None) -> Channel:
    left, right = await wires.pair()
    observer, handler = Observer(), Handler(behaviour)
    worker = WorkerEnd(right, handler, worker=WORKER, plugin=PLUGIN)
    handler.end = worker
    worker.start()
    host = HostEnd(left, observer, limits=limits)
    await host.initialize("1.0")
    return Channel(host, worker, observer, handler)


@pytest.fixture
def open_channel(local_wires: Wires) -> Callable[..., Awaitable[Channel]]:
    """Opens a channel between a real host's end and a real worker's end."""

    async def make(behaviour: Behaviour | None = None, limits: ChannelLimits | None = None) -> Channel:
        return await _channel(local_wires, behaviour=behaviour, limits=limits)

    return make


@pytest.fixture
def open_raw_worker(local_wires: Wires) -> Callable[..., Awaitable[RawWorker]]:
    """Opens a connection between a real host's end and a worker that sends the frames of a test."""

    async def make(limits: ChannelLimits | None = None) -> RawWorker:
        left, right = await local_wires.pair()
        raw = RawWorker(right)
        raw.start()
        raw.observer = Observer()
        raw.host = HostEnd(left, raw.observer, limits=limits, violated=raw.observer.violated)
        await raw.host.initialize("1.0")
        return raw

    return make


@pytest.fixture
def open_raw_host(local_wires: Wires) -> Callable[..., Awaitable[tuple[RawSide, WorkerEnd, Handler]]]:
    """Opens a connection between a host that sends the frames of a test and a real worker's end."""

    async def make(*, initialized: bool = True) -> tuple[RawSide, WorkerEnd, Handler]:
        left, right = await local_wires.pair()
        handler = Handler()
        worker = WorkerEnd(right, handler, worker=WORKER, plugin=PLUGIN)
        handler.end = worker
        worker.start()
        raw = RawSide(left)
        raw.start()
        if initialized:
            raw.call("init", "initialize", protocol=1, host_version="1")
            await raw.answered("init")
        return raw, worker, handler

    return make


@pytest.fixture
def make_sink() -> type[Sink]:
    return Sink


@pytest.fixture
def make_listener() -> type[Listener]:
    return Listener


@pytest.fixture
def make_observer() -> type[Observer]:
    return Observer


@pytest.fixture
def make_handler() -> type[Handler]:
    return Handler


@pytest.fixture
def make_raw_side() -> type[RawSide]:
    return RawSide
