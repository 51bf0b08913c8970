"""The transport boundary, which carries frames. Implementations: sockets and WebSockets (`stream`), memory (tests)."""

from typing import Protocol

from bollard.wire.errors import FrameError


class Receiver(Protocol):
    """Callbacks for incoming frames. They run on the event loop and must not block."""

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        """Handle the frames that arrived together, in order. A `FrameError` stands for an unreadable frame."""
        ...

    def connection_lost(self, reason: str) -> None:
        """The transport is closed. Called once, as the last callback."""
        ...


class Transport(Protocol):
    """Carries whole frames both ways, in order."""

    @property
    def congested(self) -> bool:
        """Whether producers should `drain` before they send more."""
        ...

    @property
    def sent_bytes(self) -> int:
        """Total bytes sent, including queued frames."""
        ...

    @property
    def read_bytes(self) -> int | None:
        """Bytes that the peer read before it exited; `None` if unknown."""
        ...

    def start(self, receiver: Receiver) -> None:
        """Start delivering frames to `receiver`."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one frame. Frames queued in one turn of the loop leave in one write."""
        ...

    def flush(self) -> None:
        """Write queued frames now instead of at the end of the turn."""
        ...

    async def drain(self) -> None:
        """Wait until the peer is no longer congested. Raises `ChannelClosed`."""
        ...

    def pause_reading(self) -> None:
        """Stop delivering frames; the peer's sends back up."""
        ...

    def resume_reading(self) -> None:
        """Continue delivering frames."""
        ...

    def close(self, reason: str) -> None:
        """Send queued frames, then close. Idempotent."""
        ...
