"""The offline harness: runs a runner in memory, against scripts and plain values, and returns its outcome.

    host = MemoryHost(models={"demo": ScriptedModel(["hello"])})
    outcome = await host.run(my_runner, "hi")
    assert outcome.text == "hello"

For tests and tools; a worker never imports it.
"""

from bollard.sdk.testing.clock import Clock, ManualClock, SystemClock
from bollard.sdk.testing.errors import RecordingError, ReplayMismatch, ResultNeverCame
from bollard.sdk.testing.host import MemoryHost, replay
from bollard.sdk.testing.ledger import ApiRecord, LogEntry, Rejected, RunLedger, RunOutcome
from bollard.sdk.testing.live_run import LiveRun
from bollard.sdk.testing.models import Reply, ScriptedModel, tool_calls
from bollard.sdk.testing.occasion import Occasion
from bollard.sdk.testing.recording import Recording, record
from bollard.sdk.testing.steering import Steer
from bollard.sdk.testing.stores import MemoryArtifact

__all__ = [
    "ApiRecord",
    "Clock",
    "LiveRun",
    "LogEntry",
    "ManualClock",
    "MemoryArtifact",
    "MemoryHost",
    "Occasion",
    "Recording",
    "RecordingError",
    "Rejected",
    "ReplayMismatch",
    "Reply",
    "ResultNeverCame",
    "RunLedger",
    "RunOutcome",
    "ScriptedModel",
    "Steer",
    "SystemClock",
    "record",
    "replay",
    "tool_calls",
]
