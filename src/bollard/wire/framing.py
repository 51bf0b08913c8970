"""Frames in a byte stream: one line each. Never holds more than one frame's limit of unread bytes."""

from bollard.protocol import limits
from bollard.wire.errors import FrameError

__all__ = ["LineFramer"]


class LineFramer:
    """Cuts a byte stream at newlines. An oversized line is reported once, skipped, and costs no memory."""

    def __init__(self, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self._limit = frame_bytes
        self._tail = bytearray()  # grows in place: a frame that comes byte by byte costs no more than one that does not
        self._skipping = False

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame whose end has not come yet."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """The frames that `data` completes, and a `FrameError` in the place of each that was too large."""
        frames: list[bytes | FrameError] = []
        *lines, rest = data.split(b"\n")
        if lines:
            if self._skipping:
                self._skipping = False
                del lines[0]
            elif self._tail:
                lines[0] = bytes(self._tail) + lines[0]
                self._tail.clear()
            if len(data) + len(lines[0] if lines else b"") <= self._limit:
                frames.extend(lines)
            else:
                frames.extend(line if len(line) <= self._limit else self._oversized() for line in lines)
        if not self._skipping:
            if len(self._tail) + len(rest) > self._limit:
                self._tail = bytearray()
                self._skipping = True
                frames.append(self._oversized())
            else:
                self._tail += rest
        return frames

    def end(self) -> FrameError | None:
        """What the end of the stream cut off, if anything."""
        if not self._tail and not self._skipping:
            return None
        return FrameError("half_frame", "the stream ended inside a frame")

    def _oversized(self) -> FrameError:
        return FrameError("oversized", f"a frame is larger than {self._limit} bytes")
