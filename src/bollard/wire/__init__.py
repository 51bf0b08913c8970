"""The worker connection: frames, the JSON-RPC peer, and the end of the host and of the worker (protocol.md §11).

`bollard.wire.websocket` is imported separately because only remote runtimes need it.
"""

from bollard.wire.catalogue import CatalogueProblem, RunnerCatalogue, ToolCatalogue
from bollard.wire.envelope import Delta, Notification
from bollard.wire.errors import (
    CallTimeout,
    ChannelClosed,
    FrameError,
    IncompatiblePeer,
    PayloadTooLarge,
    RemoteError,
    WireError,
)
from bollard.wire.heartbeat import watch_heartbeat
from bollard.wire.host_calls import RunCall
from bollard.wire.host_end import HostEnd
from bollard.wire.host_run import HostRun, RunEnd, RunSink, WorkerResult
from bollard.wire.peer import IncomingCall, Peer
from bollard.wire.process import (
    ProgramNotFound,
    WorkerProcess,
    check_program,
    fault_in,
    spawn_worker,
    worker_argv,
    worker_environment,
)
from bollard.wire.stream import StreamTransport, connect_socket
from bollard.wire.strict_json import decode, encode
from bollard.wire.strikes import Strike, Violation
from bollard.wire.transport import Receiver, Transport
from bollard.wire.worker_end import ToolRequest, WorkerEnd
from bollard.wire.worker_run import WorkerRun

__all__ = [
    "CallTimeout",
    "CatalogueProblem",
    "ChannelClosed",
    "Delta",
    "FrameError",
    "HostEnd",
    "HostRun",
    "IncomingCall",
    "IncompatiblePeer",
    "Notification",
    "PayloadTooLarge",
    "Peer",
    "ProgramNotFound",
    "Receiver",
    "RemoteError",
    "RunCall",
    "RunEnd",
    "RunSink",
    "RunnerCatalogue",
    "StreamTransport",
    "Strike",
    "ToolCatalogue",
    "ToolRequest",
    "Transport",
    "Violation",
    "WireError",
    "WorkerEnd",
    "WorkerProcess",
    "WorkerResult",
    "WorkerRun",
    "check_program",
    "connect_socket",
    "decode",
    "encode",
    "fault_in",
    "spawn_worker",
    "watch_heartbeat",
    "worker_argv",
    "worker_environment",
]
