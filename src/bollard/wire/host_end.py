"""The host's end of a worker connection: discovery, runs, tools, and strikes for protocol violations (§11).

It enforces what the connection alone knows: identity, framing, envelopes, windows and active runs. Permissions,
payloads and durability are the owner's work.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from pydantic import ValidationError

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, first_problem
from bollard.protocol.limits import LOG_RECORDS_BURST, RESULT_BYTES
from bollard.protocol.limits import PROTOCOL_VERSION as PROTOCOL
from bollard.wire.catalogue import RunnerCatalogue, ToolCatalogue, read_runners, read_tools
from bollard.wire.envelope import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESULT_ENVELOPE_BYTES,
    Notification,
    read_delta,
)
from bollard.wire.errors import CallTimeout, ChannelClosed, FrameError, IncompatiblePeer, RemoteError, WireError
from bollard.wire.flow_control import LogLimiter, ReadQueue
from bollard.wire.host_calls import RunCall, send_api_error
from bollard.wire.host_run import (
    RESULT_FAULTS,
    HostObserver,
    HostRun,
    ResultFault,
    RunEnd,
    RunSink,
    read_result,
    read_run_end,
)
from bollard.wire.limits import HEARTBEAT_TIMEOUT_S, REQUEST_TIMEOUT_S
from bollard.wire.peer import IncomingCall, Peer
from bollard.wire.refusals import UPGRADE, refusal_of, unreadable_answer
from bollard.wire.strikes import Strike, StrikeCounter, Violation
from bollard.wire.transport import Transport

_TOOL_ANSWER_MARGIN_S: Final = 2.0  # the worker enforces the timeout of a tool itself; the host's is the fallback


class HostEnd:
    """Drives one worker over one connection."""

    def __init__(
        self,
        transport: Transport,
        observer: HostObserver,
        *,
        limits: protocol.ChannelLimits | None = None,
        violated: Callable[[Violation], None] = lambda _: None,
    ) -> None:
        """`violated` gets every violation: of the connection, of its runs, and those without a strike."""
        self._limits = limits or protocol.ChannelLimits()
        self._observer = observer
        self._violated = violated
        self._peer = Peer(transport, self, frame_bytes=self._limits.frame_bytes)
        self._strikes = StrikeCounter()
        self._runs: dict[str, HostRun] = {}
        self._streams: dict[str, RunCall] = {}
        self._reads = ReadQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker: protocol.InitializeResult | None = None
        self._asked: str | None = None
        self._refused: IncompatiblePeer | None = None
        self._quick_bytes = min(self._limits.frame_bytes, RESULT_BYTES + RESULT_ENVELOPE_BYTES)
        self._clock = asyncio.get_running_loop().time
        # The worker limits its rate itself. This limit is a fallback, so a delayed burst still passes.
        self._log_gate = LogLimiter(self._clock(), burst=2 * LOG_RECORDS_BURST)
        self._notes: dict[str, Callable[[JsonObject, int], None]] = {
            "run/result": self._result,
            "log": lambda params, _: self._logged(params),
            "api/credit": lambda params, _: self._api_credit(params),
            "api/cancel": lambda params, _: self._api_cancel(params),
        }

    @property
    def peer(self) -> protocol.InitializeResult:
        """The worker's introduction, fixed by `initialize`."""
        if self._worker is None:
            raise IncompatiblePeer("the connection is not initialized", "call initialize first")
        return self._worker

    # --- methods for the owner ---

    async def initialize(self, host_version: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> protocol.InitializeResult:
        """Exchange introductions, once. Raises `IncompatiblePeer` that says what to upgrade."""
        if self._worker is not None:
            raise IncompatiblePeer("the connection is already initialized", "open another connection")
        self._peer.start()
        params = protocol.InitializeParams(protocol=PROTOCOL, host_version=host_version, limits=self._limits)
        try:
            answer = await self._ask("initialize", params.to_wire(), timeout_s)
            self._worker = protocol.InitializeResult.from_wire(answer)
        except ValidationError as error:
            field, problem = first_problem(error)
            self._peer.close("the worker's introduction is not valid")
            raise IncompatiblePeer(f"the worker's introduction is wrong at {field}: {problem}", UPGRADE) from error
        except RemoteError as error:
            self._peer.close("the worker refused to initialize")
            raise refusal_of(error) from error
        if self._worker.protocol != PROTOCOL:
            theirs = self._worker.protocol
            older = "worker" if theirs < PROTOCOL else "host"
            self._peer.close("the versions do not fit")
            raise IncompatiblePeer(
                f"the worker speaks protocol {theirs}, this host speaks {PROTOCOL}", f"upgrade the {older}"
            )
        self._peer.frame_bytes = min(self._peer.frame_bytes, self._worker.limits.frame_bytes)
        return self._worker

    async def list_runners(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> RunnerCatalogue:
        """Return the usable runners, and a named problem for each other entry."""
        answer = await self._ask("runners/list", {}, timeout_s)
        return read_runners(answer, self.peer.plugin)

    async def list_tools(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> ToolCatalogue:
        """Return the usable tools, and a named problem for each other entry. A worker without tools need not know the
        method."""
        try:
            return read_tools(await self._ask("tools/list", {}, timeout_s))
        except RemoteError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            return ToolCatalogue(tools=(), problems=())

    async def _ask(self, method: str, params: JsonObject, timeout_s: float) -> JsonValue:
        """Ask what the host needs at the start. The first frame that cannot be read counts as the answer, and ends the
        connection. Raises `IncompatiblePeer` then."""
        self._asked = method
        try:
            return await self._peer.call(method, params, timeout_s=timeout_s)
        except ChannelClosed as error:
            if self._refused is None:
                raise
            raise self._refused from error
        finally:
            self._asked = None

    def start_run(self, request: protocol.AgentRunRequest, sink: RunSink) -> HostRun:
        """Start a run. Its results go to `sink`; `HostRun.ended` resolves when the worker has answered."""
        return self.start_run_raw(request.context.run_id, request.to_wire(), sink)

    def start_run_raw(self, run_id: str, params: JsonObject, sink: RunSink) -> HostRun:
        """Start a run from a request that is already JSON."""
        if self._peer.closed_because is not None:
            raise ChannelClosed(self._peer.closed_because)
        if run_id in self._runs:
            raise ValueError(f"the run {run_id} is already active on this connection")
        run = HostRun(
            self._peer, run_id, sink, window_results=self._limits.window_results, window_bytes=self._limits.window_bytes
        )
        self._runs[run_id] = run
        if self._peer.transport.congested:
            task = asyncio.get_running_loop().create_task(self._send_later(run, params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._send_start(run, params)
        return run

    async def _send_later(self, run: HostRun, params: JsonObject) -> None:
        try:
            await self._wait_for_room()
        except ChannelClosed:
            return  # `closed` has ended the run
        self._send_start(run, params)

    def _send_start(self, run: HostRun, params: JsonObject) -> None:
        on_answer = partial(self._end_run, run)
        run.sending()
        try:
            run.sent(self._peer.ask("run/start", params, on_answer), self._peer.transport.sent_bytes)
        except WireError as error:
            # Deferred like a response, because the caller does not have its run yet.
            asyncio.get_running_loop().call_soon(on_answer, error)
        if len(self._runs) == 1:
            self._peer.transport.flush()  # no other run can share this write, so nothing is gained by waiting

    def _end_run(self, run: HostRun, answer: JsonValue | WireError) -> None:
        if isinstance(answer, ChannelClosed):
            end = self._build_lost_end(run, answer.reason)
        elif isinstance(answer, WireError):
            end = RunEnd(how="refused", reason=str(answer))
        else:
            end = read_run_end(answer)
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]
        self._strikes.forget(run.run_id)
        run.end(end)

    def _build_lost_end(self, run: HostRun, reason: str) -> RunEnd:
        unread = run.unread(self._peer.transport.read_bytes, self._peer.answered_through)
        return RunEnd(how="lost", reason=reason, unread=unread)

    async def _wait_for_room(self) -> None:
        """Wait until a slow worker has caught up. Otherwise many large requests look like a worker that never reads."""
        if self._peer.transport.congested:
            await self._peer.transport.drain()

    async def call_tool(self, params: protocol.ToolCallParams) -> protocol.ToolAnswer:
        """Call a tool of the plugin. A cancelled waiter or a timeout sends `tool/cancel`."""

        def give_up(_: object) -> None:
            self._peer.note("tool/cancel", {"call_id": params.call_id})

        timeout_s = params.timeout_ms / 1000 + _TOOL_ANSWER_MARGIN_S
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_for_room()
        except TimeoutError as error:
            raise CallTimeout("tool/call", timeout_s) from error
        answer = await self._peer.call("tool/call", params.to_wire(), timeout_s=timeout_s, given_up=give_up)
        try:
            return protocol.ToolAnswer.from_wire(answer)
        except ValidationError as error:
            field, problem = first_problem(error)
            raise RemoteError(INTERNAL_ERROR, f"tool/call was answered wrongly at {field}: {problem}") from error

    async def ping(self, *, timeout_s: float = HEARTBEAT_TIMEOUT_S) -> None:
        """Ping the worker. Raises `CallTimeout` if its event loop is blocked."""
        await self._peer.call("ping", {}, timeout_s=timeout_s)

    async def shutdown(self, grace_s: float) -> None:
        """Ask the worker to exit. It lets runs end for `grace_s`, cancels the rest, answers, and exits."""
        await self._peer.call("shutdown", {"grace_s": grace_s}, timeout_s=grace_s + REQUEST_TIMEOUT_S)

    def close(self, reason: str) -> None:
        self._peer.close(reason)

    # --- callbacks of the peer (PeerListener) ---

    def quick(self, frame: bytes) -> bool:
        if len(frame) > self._quick_bytes:
            return False  # over a limit; the general path reports which one
        delta = read_delta(frame)
        if delta is None:
            return False
        run = self._runs.get(delta.run_id)
        if run is None:
            self._strike(delta.run_id, "foreign_result", "a result names no active run of this connection")
        elif (fault := run.take_delta(delta, len(frame) - RESULT_ENVELOPE_BYTES, hash(frame))) is not None:
            self._blame(delta.run_id, fault)
        return True

    def noted(self, note: Notification, size: int) -> None:
        handler = self._notes.get(note.method)
        if handler is None:
            self._strike_params(note.params, "unknown_method", f"{note.method[:64]!r} is not a note of a worker")
            return
        try:
            handler(note.params, size)
        except ValidationError as error:
            field, problem = first_problem(error)
            self._strike_params(note.params, "envelope", f"{note.method}: {field}: {problem}")
        except FrameError as error:
            self._strike_params(note.params, error.fault, error.detail)

    def _result(self, params: JsonObject, size: int) -> None:
        result = read_result(params, size)
        run = self._runs.get(result.run_id)
        if run is None:
            self._strike(result.run_id, "foreign_result", "a result names no active run of this connection")
        elif (fault := run.take_result(result)) is not None:
            self._blame(result.run_id, fault)

    def _logged(self, params: JsonObject) -> None:
        record = protocol.LogRecord.from_wire(params)
        dropped = self._log_gate.admit(self._clock())
        if dropped is None:
            return
        if dropped:
            record = record.model_copy(update={"fields": {**record.fields, "dropped_by_host": dropped}})
        self._observer.logged(record)

    def _api_credit(self, params: JsonObject) -> None:
        credit = protocol.ApiCredit.from_wire(params)
        stream = self._streams.get(credit.stream_id)  # the stream may have ended in the meantime
        if stream is not None and not stream.credited(credit.index):
            self._strike(stream.run_id, "credit", "a stream was credited beyond what was sent")

    def _api_cancel(self, params: JsonObject) -> None:
        cancel = protocol.ApiCancel.from_wire(params)
        if run := self._runs.get(cancel.run_id):
            run.give_up_call(cancel.id)

    def called(self, call: IncomingCall) -> None:
        if call.method not in ("api/call", "api/stream"):
            call.fail(METHOD_NOT_FOUND, f"{call.method[:64]} is not a method of a host")
            self._strike_params(call.params, "unknown_method", f"{call.method[:64]!r} is not a method of a host")
            return
        try:
            request = (
                protocol.ApiStream.from_wire(call.params)
                if call.method == "api/stream"
                else protocol.ApiCall.from_wire(call.params)
            )
        except ValidationError as error:
            field, problem = first_problem(error)
            detail = protocol.AgentAPIError(
                code="invalid_argument", message=f"{field}: {problem}", details={"field": field}
            )
            call.fail(INVALID_PARAMS, detail.message, detail.to_wire())
            self._strike_params(call.params, "envelope", f"{call.method}: {field}: {problem}")
            return
        run = self._runs.get(request.run_id)
        if run is None:
            send_api_error(call, protocol.AgentAPIError(code="not_found", message="there is no such run"))
            self._strike(request.run_id, "foreign_call", "a call names no active run of this connection")
            return
        self._take_call(run, call, request)

    def _take_call(self, run: HostRun, call: IncomingCall, request: protocol.ApiCall | protocol.ApiStream) -> None:
        stream_id = request.stream_id if isinstance(request, protocol.ApiStream) else None
        if stream_id is not None and stream_id in self._streams:
            message = "the stream_id is that of an open stream"
            send_api_error(
                call, protocol.AgentAPIError(code="invalid_argument", message=message, details={"field": "stream_id"})
            )
            self._strike(run.run_id, "envelope", message)
            return

        def settled(done: RunCall) -> None:
            run.forget_call(done)
            if done.stream_id is not None:
                self._streams.pop(done.stream_id, None)

        run_call = RunCall(
            self._peer,
            call,
            run_id=request.run_id,
            action=request.action,
            params=request.params,
            stream_id=stream_id,
            settled=settled,
            reads=self._reads,
        )
        if stream_id is not None:
            self._streams[stream_id] = run_call
        run.take_call(run_call)

    def faulted(self, fault: FrameError) -> None:
        self._apply_strike(self._strikes.against_connection(fault.violation, fault.detail), None)
        if self._asked is not None and fault.fault != "half_frame":
            self._refused = unreadable_answer(self._asked, fault)
            self._peer.close(self._refused.problem)

    def batch_ended(self) -> None:
        self._observer.batch_ended()

    def closed(self, reason: str) -> None:
        self._reads.close()
        for run in list(self._runs.values()):
            run.end(self._build_lost_end(run, reason))
        self._runs.clear()
        self._observer.closed(reason)

    # --- strikes ---

    def _strike_params(self, params: JsonObject, fault: str, detail: str) -> None:
        run_id = params.get("run_id")
        self._strike(run_id if isinstance(run_id, str) else "", fault, detail)

    def _blame(self, run_id: str, fault: ResultFault) -> None:
        detail = RESULT_FAULTS[fault]
        if fault == "duplicate":
            self._violated(Violation(kind=fault, detail=detail, run_id=run_id, ends="nothing"))
        else:
            self._strike(run_id, fault, detail)

    def _strike(self, run_id: str, fault: str, detail: str) -> None:
        """Count a strike against the run if it is active here, otherwise against the connection."""
        if run_id in self._runs:
            self._apply_strike(self._strikes.against_run(run_id, fault, detail), run_id)
        else:
            self._apply_strike(self._strikes.against_connection(fault, detail), run_id or None)

    def _apply_strike(self, strike: Strike, named: str | None) -> None:
        """`named` is the run that the frame names."""
        if strike.fault != "half_frame":  # the connection was lost within a frame: a crash, not an act
            self._violated(Violation(kind=strike.fault, detail=strike.detail, run_id=named, ends=strike.ends))
        run = self._runs.get(strike.run_id) if strike.run_id is not None else None
        if run is not None:
            run.struck(strike)
            return
        self._observer.struck(strike)
        if strike.ends == "worker":
            self._peer.close(f"the worker broke the protocol {strike.count} times, last: {strike.detail}")
