"""The worker's end of a worker connection: answers the host's methods and enforces the connection's rules (§11).

It executes nothing itself; a `WorkerHandler` does. Any worker process can be built on it.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from pydantic import ValidationError

from bollard import protocol
from bollard.protocol import JsonObject, first_problem, limits
from bollard.wire.envelope import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Notification,
    encode_error,
    encode_notification,
)
from bollard.wire.errors import FrameError
from bollard.wire.flow_control import LogLimiter
from bollard.wire.limits import ENDED_RUN_IDS, LOG_CONGESTED_BYTES
from bollard.wire.peer import IncomingCall, Peer
from bollard.wire.transport import Transport
from bollard.wire.worker_run import IncomingStream, WorkerRun


class ToolRequest:
    """A tool call of the host, to be answered once."""

    __slots__ = ("_incoming", "params")

    def __init__(self, incoming: IncomingCall, params: protocol.ToolCallParams) -> None:
        self._incoming = incoming
        self.params = params

    def answer(self, answer: protocol.ToolAnswer) -> None:
        self._incoming.answer(answer.to_wire())

    def refuse(self, message: str) -> None:
        """Refuse an invalid call. A tool that failed is an answer instead."""
        self._incoming.fail(INVALID_PARAMS, message)


class WorkerHandler(Protocol):
    """Callbacks for the host's requests. They must not block and must not raise."""

    def runners(self) -> list[JsonObject]: ...

    def tools(self) -> list[JsonObject]: ...

    def run_started(self, run: WorkerRun) -> None: ...

    def run_cancelled(self, run: WorkerRun, reason: str) -> None: ...

    def tool_called(self, request: ToolRequest) -> None: ...

    def tool_cancelled(self, call_id: str) -> None: ...

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        """Let runs end for `grace_s`, then call `done` and exit."""
        ...

    def closed(self, reason: str) -> None: ...


class WorkerEnd:
    """Serves one plugin over one connection."""

    def __init__(
        self,
        transport: Transport,
        handler: WorkerHandler,
        *,
        worker: protocol.WorkerIdentity,
        plugin: protocol.PluginIdentity,
    ) -> None:
        self._handler = handler
        self._peer = Peer(transport, self)
        self._worker = worker
        self._plugin = plugin
        self._host: protocol.InitializeParams | None = None
        self._limits = protocol.ChannelLimits()
        self._stopping = False
        self._runs: dict[str, WorkerRun] = {}
        self._ended_ids: OrderedDict[str, None] = OrderedDict()
        self._streams: dict[str, IncomingStream] = {}
        self._stream_numbers = itertools.count(1)
        self._clock = asyncio.get_running_loop().time
        self._log_gate = LogLimiter(self._clock())
        self.heard_at = self._clock()
        """When the last frame of the host arrived, on the loop's clock."""
        self._calls: Final[dict[str, Callable[[IncomingCall], None]]] = {
            "runners/list": lambda call: call.answer({"runners": [*handler.runners()]}),
            "tools/list": lambda call: call.answer({"tools": [*handler.tools()]}),
            "run/start": self._start_run,
            "tool/call": self._call_tool,
            "shutdown": self._shut_down,
        }
        self._notes: Final[dict[str, Callable[[JsonObject, int], None]]] = {
            "run/credit": lambda params, _: self._credit(params),
            "run/cancel": lambda params, _: self._cancel(params),
            "tool/cancel": lambda params, _: self._cancel_tool(params),
            "api/chunk": self._chunk,
        }

    def start(self) -> None:
        self._peer.start()

    def close(self, reason: str) -> None:
        self._peer.close(reason)

    @property
    def runs(self) -> list[WorkerRun]:
        """The active runs."""
        return list(self._runs.values())

    def finish_run(self, run: WorkerRun, reason: str = "the run has ended") -> None:
        """Answer `run/start`. The run can send nothing after that."""
        run.finish(reason)
        if self._runs.pop(run.run_id, None) is not None:
            self._ended_ids[run.run_id] = None
            if len(self._ended_ids) > ENDED_RUN_IDS:
                self._ended_ids.popitem(last=False)
        if not self._runs:
            self._peer.transport.flush()  # no other run can share this write, so nothing is gained by waiting

    def refuse_run(self, run: WorkerRun, message: str, field: str) -> None:
        """Answer `run/start` with an error that names the field. The run id may be used again."""
        self._runs.pop(run.run_id, None)
        run.refuse(message, field)

    def log(
        self, level: protocol.LogLevel, message: str, fields: JsonObject | None = None, *, run_id: str | None = None
    ) -> None:
        """Send one log record, unless the rate limit drops it. The next record carries the number of dropped ones."""
        if self._host is None:
            return
        dropped = self._log_gate.admit(self._clock())
        if dropped is None:
            return
        sent: JsonObject = dict(fields or {})
        if dropped:
            sent["dropped"] = dropped
        if len(message) > limits.LOG_MESSAGE_CHARACTERS:
            sent["cut_characters"] = len(message) - limits.LOG_MESSAGE_CHARACTERS
            message = message[: limits.LOG_MESSAGE_CHARACTERS]
        message = message.encode("utf-8", "replace").decode()  # a log record must never fail
        record: JsonObject = {"level": level, "message": message, "fields": sent}
        if run_id is not None:
            record["run_id"] = run_id
        try:
            frame = encode_notification("log", record)
        except FrameError as error:
            frame = encode_notification("log", {**record, "fields": {"fields_refused": error.fault}})
        if len(frame) > self._peer.frame_bytes:
            frame = encode_notification("log", {**record, "fields": {"fields_refused": "oversized"}})
        elif len(frame) > LOG_CONGESTED_BYTES and self._peer.transport.congested:
            # A record never waits, so a burst of large ones would look like a host that never reads.
            frame = encode_notification("log", {**record, "fields": {"fields_refused": "congested"}})
        self._peer.transport.send(frame)

    # --- callbacks of the peer (PeerListener) ---

    def quick(self, frame: bytes) -> bool:
        del frame
        return False

    def batch_ended(self) -> None:
        self.heard_at = self._clock()

    def faulted(self, fault: FrameError) -> None:
        # The host is trusted: report the fault so that a person can find it, and continue.
        if fault.fault != "half_frame":
            code = INVALID_REQUEST if fault.fault == "envelope" else PARSE_ERROR
            self._peer.transport.send(encode_error(None, code, str(fault)))
        self.log("warning", "a frame of the host could not be used", {"fault": fault.fault, "detail": fault.detail})

    def called(self, call: IncomingCall) -> None:
        if call.method == "ping":
            call.answer({})
        elif call.method == "initialize":
            self._guard(call, self._initialize)
        elif self._host is None:
            call.fail(INVALID_REQUEST, "the connection is not initialized; call initialize first")
        elif handler := self._calls.get(call.method):
            self._guard(call, handler)
        elif call.method in self._notes:
            self.noted(Notification(call.method, call.params), 0)
            call.answer({})
        else:
            call.fail(METHOD_NOT_FOUND, f"{call.method[:64]} is not a method of a worker")

    @staticmethod
    def _guard(call: IncomingCall, handler: Callable[[IncomingCall], None]) -> None:
        try:
            handler(call)
        except ValidationError as error:
            field, problem = first_problem(error)
            call.fail(INVALID_PARAMS, f"{call.method}: {field}: {problem}", {"field": field})

    def noted(self, note: Notification, size: int) -> None:
        handler = self._notes.get(note.method)
        if handler is None:
            self.log("warning", "the host sent a note this worker does not know", {"method": note.method[:64]})
            return
        try:
            handler(note.params, size)
        except ValidationError as error:
            field, problem = first_problem(error)
            fields: JsonObject = {"method": note.method, "field": field, "problem": problem}
            self.log("warning", "a note of the host is not valid", fields)

    def closed(self, reason: str) -> None:
        for run in self.runs:
            run.lose(reason)
        self._runs.clear()
        for stream in self._streams.values():
            stream.end()
        self._handler.closed(reason)

    # --- methods ---

    def _initialize(self, call: IncomingCall) -> None:
        if self._host is not None:
            call.fail(INVALID_REQUEST, "the connection is already initialized; its identity is fixed")
            return
        host = protocol.InitializeParams.from_wire(call.params)
        if host.protocol != limits.PROTOCOL_VERSION:
            older = "host" if host.protocol < limits.PROTOCOL_VERSION else "worker's SDK"
            call.fail(
                INVALID_REQUEST,
                f"the host speaks protocol {host.protocol}, this worker speaks {limits.PROTOCOL_VERSION}: "
                f"upgrade the {older}",
            )
            return
        self._host = host
        # The smaller limit of both sides applies.
        ours = self._limits
        self._limits = protocol.ChannelLimits(
            frame_bytes=min(ours.frame_bytes, host.limits.frame_bytes),
            window_results=min(ours.window_results, host.limits.window_results),
            window_bytes=min(ours.window_bytes, host.limits.window_bytes),
        )
        self._peer.frame_bytes = self._limits.frame_bytes
        answer = protocol.InitializeResult(
            protocol=limits.PROTOCOL_VERSION, worker=self._worker, plugin=self._plugin, limits=self._limits
        )
        call.answer(answer.to_wire())

    def _start_run(self, call: IncomingCall) -> None:
        context = call.params.get("context")
        run_id = context.get("run_id") if isinstance(context, dict) else None
        if not isinstance(run_id, str):
            call.fail(INVALID_PARAMS, "run/start: context.run_id: missing", {"field": "context.run_id"})
        elif run_id in self._runs:
            call.fail(INVALID_REQUEST, "run/start: this run is active already")
        elif run_id in self._ended_ids:
            call.fail(INVALID_REQUEST, "run/start: this run has ended and stays dead")
        elif self._stopping:
            call.fail(INVALID_REQUEST, "run/start: this worker is shutting down")
        else:
            run = WorkerRun(
                self._peer,
                call,
                run_id,
                window_results=self._limits.window_results,
                window_bytes=self._limits.window_bytes,
                streams=self._streams,
                stream_numbers=self._stream_numbers,
            )
            self._runs[run_id] = run
            self._handler.run_started(run)

    def _call_tool(self, call: IncomingCall) -> None:
        self._handler.tool_called(ToolRequest(call, protocol.ToolCallParams.from_wire(call.params)))

    def _shut_down(self, call: IncomingCall) -> None:
        grace_s = protocol.Shutdown.from_wire(call.params).grace_s
        self._stopping = True
        self._handler.shutdown(grace_s, lambda: call.answer({}))

    def _credit(self, params: JsonObject) -> None:
        credit = protocol.RunCredit.from_wire(params)
        if run := self._runs.get(credit.run_id):
            run.credited(credit.sequence)

    def _cancel(self, params: JsonObject) -> None:
        cancel = protocol.RunCancel.from_wire(params)
        if run := self._runs.get(cancel.run_id):
            self._handler.run_cancelled(run, cancel.reason)

    def _cancel_tool(self, params: JsonObject) -> None:
        self._handler.tool_cancelled(protocol.ToolCancel.from_wire(params).call_id)

    def _chunk(self, params: JsonObject, size: int) -> None:
        chunk = protocol.ApiChunk.from_wire(params)
        if stream := self._streams.get(chunk.stream_id):
            stream.chunk(chunk.index, chunk.data, size)
