"""The errors of a worker connection, as one tree.

WireError
├── FrameError          a frame is not acceptable: too large, not JSON, over a limit, no envelope
├── PayloadTooLarge     an outgoing message exceeds a limit; nothing was sent
├── ChannelClosed       the connection is closed
├── CallTimeout         the peer did not answer in time
├── RemoteError         the peer answered with an error
└── IncompatiblePeer    the peer speaks another protocol, or broke the handshake
    └── HandshakeRefused    the host refused the handshake with an HTTP status
"""

import contextlib
import json
from typing import Literal

from pydantic import ValidationError

from bollard.protocol import AgentAPIError, JsonObject, JsonValue

FrameFault = Literal[
    "oversized",
    "half_frame",
    "binary",
    "encoding",
    "syntax",
    "depth",
    "nodes",
    "duplicate_key",
    "key_length",
    "number",
    "surrogate",
    "envelope",
]


class WireError(Exception):
    """Root of the tree."""


class FrameError(WireError):
    """A frame is not acceptable. `fault` is for programs and `detail` for people; neither quotes the frame. `violation`
    names the violation if `fault` is too general."""

    def __init__(self, fault: FrameFault, detail: str, violation: str | None = None) -> None:
        super().__init__(f"{fault}: {detail}")
        self.fault = fault
        self.detail = detail
        self.violation = violation or fault


class PayloadTooLarge(WireError):
    """A result or call exceeds its limit. It is refused as a whole, never truncated."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"{what} is {size_bytes} bytes of JSON, the limit is {limit_bytes}")
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ChannelClosed(WireError):
    """The connection is closed. Every pending call on it has failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"channel closed: {reason}")
        self.reason = reason


class CallTimeout(WireError):
    """The peer did not answer in time."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"{method} was not answered within {seconds:g} s")
        self.method = method
        self.seconds = seconds


class RemoteError(WireError):
    """The peer answered with an error."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data

    @property
    def api_error(self) -> AgentAPIError:
        """The run API error in `data`; `runtime_error` if the peer sent none."""
        with contextlib.suppress(ValidationError):
            if isinstance(self.data, dict):
                return AgentAPIError.from_wire({"message": self.message, **self.data})
        return AgentAPIError(code="runtime_error", message=self.message, details={"rpc_code": self.code})


class IncompatiblePeer(WireError):
    """The peer is incompatible. The hint says what to upgrade or fix."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem}\nhint: {hint}")
        self.problem = problem
        self.hint = hint
        self.details: JsonObject = {}
        """The type of the problem (`problem_type`) and its values, by which a translation is found, if known."""


class HandshakeRefused(IncompatiblePeer):
    """The host refused the handshake. `status` is the HTTP status; `code`, `details` and `problem` are the host's."""

    def __init__(self, status: int, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.status = status
        self.code = ""

    @staticmethod
    def read(status: int, body: bytes, subject: str) -> "HandshakeRefused":
        """Build the error from the host's HTTP response, with its message and hint if it has them."""
        try:
            error = json.loads(body)["error"]
            refused = HandshakeRefused(status, f"{subject} was refused: {error['message']}", str(error["hint"]))
            refused.code, refused.details = str(error.get("code", "")), dict(error.get("details") or {})
        except (ValueError, KeyError, TypeError):  # a proxy, or another server
            hint = "check the address and that a Bollard host answers there"
            return HandshakeRefused(status, f"{subject} was refused: HTTP {status}", hint)
        return refused
