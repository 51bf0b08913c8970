"""The boundary between frames and whatever carries them. Implementations: memory, stream (sockets), websocket."""

from typing import Protocol

from bollard.wire.errors import FrameError

__all__ = ["Receiver", "Transport"]


class Receiver(Protocol):
    """Who is told what arrived. All calls come from the event loop and must not block."""

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        """Whatever arrived together, in order; a `FrameError` stands for a frame that could not be read."""
        ...

    def connection_lost(self, reason: str) -> None:
        """The transport is gone; called once, nothing follows."""
        ...


class Transport(Protocol):
    """Carries whole frames both ways, in order."""

    @property
    def congested(self) -> bool:
        """Whether producers ought to `drain` before they send more."""
        ...

    def start(self, receiver: Receiver) -> None:
        """Begin to deliver to `receiver`."""
        ...

    def send(self, frame: bytes) -> None:
        """Queue one frame. Frames queued in one turn of the loop leave in one write."""
        ...

    def flush(self) -> None:
        """Write what is queued now instead of at the end of the turn."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has taken enough; raises `ChannelClosed`."""
        ...

    def pause_reading(self) -> None:
        """Deliver nothing for now; the peer's sends will back up."""
        ...

    def resume_reading(self) -> None:
        """Deliver again."""
        ...

    def close(self, reason: str) -> None:
        """Send what is queued, then close. Idempotent."""
        ...
