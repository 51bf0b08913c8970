"""Frames in a byte stream: one line each. Never holds more than one frame's limit of unread bytes."""

from bollard.protocol import limits
from bollard.wire.errors import FrameError

__all__ = ["LineFramer"]


class LineFramer:
    """Cuts a byte stream at newlines. An oversized line is reported once, skipped, and costs no memory."""

    def __init__(self, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self._limit = frame_bytes
        self._tail = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """The frames that `data` completes, and a `FrameError` in the place of each that was too large."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return []
            data = data[end + 1 :]
            self._skipping = False
        if self._tail:
            data = self._tail + data
        frames: list[bytes | FrameError] = []
        lines = data.split(b"\n")
        self._tail = lines.pop()
        if len(data) <= self._limit:
            frames.extend(lines)
            return frames
        frames.extend(line if len(line) <= self._limit else self._oversized() for line in lines)
        if len(self._tail) > self._limit:
            self._tail = b""
            self._skipping = True
            frames.append(self._oversized())
        return frames

    def end(self) -> FrameError | None:
        """What the end of the stream cut off, if anything."""
        if not self._tail and not self._skipping:
            return None
        return FrameError("half_frame", "the stream ended inside a frame")

    def _oversized(self) -> FrameError:
        return FrameError("oversized", f"a frame is larger than {self._limit} bytes")
