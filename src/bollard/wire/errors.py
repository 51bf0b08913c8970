"""Everything that can go wrong on a channel, as one tree.

WireError
├── FrameError          a frame that cannot be accepted: too large, not JSON, over a limit, no envelope
├── PayloadTooLarge     something of ours that would not fit; nothing was sent
├── ChannelClosed       the channel is gone
├── CallTimeout         the peer did not answer in time
├── RemoteError         the peer answered with an error
└── IncompatiblePeer    the peer speaks another protocol, or broke the handshake
    └── HandshakeRefused    the host said no, with a status and a sentence
"""

import contextlib
import json
from typing import Literal

from pydantic import ValidationError

from bollard.protocol import AgentAPIError, JsonValue

__all__ = [
    "CallTimeout",
    "ChannelClosed",
    "FrameError",
    "FrameFault",
    "HandshakeRefused",
    "IncompatiblePeer",
    "PayloadTooLarge",
    "RemoteError",
    "WireError",
]

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
    """A frame that cannot be accepted. `fault` is for programs, `detail` for people; neither quotes the frame."""

    def __init__(self, fault: FrameFault, detail: str) -> None:
        super().__init__(f"{fault}: {detail}")
        self.fault = fault
        self.detail = detail


class PayloadTooLarge(WireError):
    """A result or call that exceeds its limit. It is never cut."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"{what} is {size_bytes} bytes of JSON, the limit is {limit_bytes}")
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ChannelClosed(WireError):
    """The channel is gone; whatever was under way on it is dead."""

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
        """The error as the run API knows it; a peer that sent none gets `runtime_error`."""
        with contextlib.suppress(ValidationError):
            if isinstance(self.data, dict):
                return AgentAPIError.from_wire({"message": self.message, **self.data})
        return AgentAPIError(code="runtime_error", message=self.message, details={"rpc_code": self.code})


class IncompatiblePeer(WireError):
    """The peer cannot be talked to; the hint says what to upgrade or fix."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem}\nhint: {hint}")
        self.problem = problem
        self.hint = hint


class HandshakeRefused(IncompatiblePeer):
    """The host answered, and said no. `status` is that of HTTP; the sentence is the host's own."""

    def __init__(self, status: int, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.status = status

    @staticmethod
    def read(status: int, body: bytes, asked: str) -> "HandshakeRefused":
        """The sentence and the hint of a host's answer, where it has them."""
        try:
            error = json.loads(body)["error"]
            problem, hint = str(error["message"]), str(error["hint"])
        except (ValueError, KeyError, TypeError):  # a proxy, or no host of ours
            problem, hint = f"HTTP {status}", "check the address and that a Bollard host answers there"
        return HandshakeRefused(status, f"{asked} was refused: {problem}", hint)
