"""Why the host refuses a worker at its start, with the types by which the sentences are translated. Pure."""

from typing import Final

from bollard.wire.errors import FrameError, IncompatiblePeer, RemoteError
from bollard.wire.limits import REFUSAL_BYTES
from bollard.wire.strict_json import encode

UPGRADE: Final = "upgrade the worker's SDK, or the host, so that both speak the same protocol"


def refusal_of(error: RemoteError) -> IncompatiblePeer:
    """A worker that cannot load its plugin says why; any other one speaks another protocol."""
    if not isinstance(error.data, dict) or "problems" not in error.data or len(encode(error.data)) > REFUSAL_BYTES:
        return IncompatiblePeer(f"the worker refused: {error.message}", UPGRADE)
    refused = IncompatiblePeer(error.message, "run `bollard plugin check`")
    refused.details = error.data
    return refused


def unreadable_answer(method: str, fault: FrameError) -> IncompatiblePeer:
    """The worker's answer to `method` is not an acceptable frame."""
    refused = IncompatiblePeer(
        f"the worker's answer to {method} cannot be read: {fault.detail}", "list fewer or smaller entries"
    )
    inner = {"problem_type": f"json.{fault.fault}", "problem": fault.detail}
    refused.details = {"problem_type": "worker.unreadable", "method": method, "inner": {**inner}}
    return refused
