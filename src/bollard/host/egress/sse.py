"""A parser of server-sent events from bytes in pieces. Pure.

Data stays bytes: its reader decodes it, because a character may span two pieces.
"""

from typing import Final

import msgspec

from bollard.host.egress.connections import NotAnswered

_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True):
    """One event: its name, which may be empty, its data, and the id that it carried itself."""

    name: str
    data: bytes
    id: str | None = None


class SseDecoder:
    """One stream. Lines end with CR, LF or both. Comments, unknown fields and events without data are skipped."""

    def __init__(self, event_bytes: int) -> None:
        self._most = event_bytes
        self._line = bytearray()
        self._after_cr = False
        self._first = True
        self._name = ""
        self._id: str | None = None
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Add bytes; returns the complete events. Raises `NotAnswered` for one that is too large."""
        if self._after_cr and piece:
            # A line that ended with CR was processed at once; an LF after it belongs to it.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in piece and b"\r" not in piece:
            self._line += piece
            self._check()
            return []
        lines = (bytes(self._line) + piece).splitlines(keepends=True)
        self._line.clear()
        self._after_cr = piece.endswith(b"\r")
        if not lines[-1].endswith((b"\n", b"\r")):
            self._line += lines.pop()
        found = [event for line in lines if (event := self._take(line.rstrip(b"\r\n"))) is not None]
        self._check()
        return found

    def end(self) -> list[SseEvent]:
        """The last event at the end of the stream: many servers omit the last empty line."""
        rest = bytes(self._line)
        self._line.clear()
        found = [self._take(rest) if rest else None, self._take(b"")]
        return [event for event in found if event is not None]

    def _take(self, line: bytes) -> SseEvent | None:
        if self._first:
            line, self._first = line.removeprefix(_BOM), False
        if not line:
            return self._whole()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._check()
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _whole(self) -> SseEvent | None:
        # Some servers send events without data as keep-alive.
        event = SseEvent(self._name, b"\n".join(self._data), self._id) if any(self._data) else None
        self._name, self._id, self._data, self._size = "", None, [], 0
        return event

    def _check(self) -> None:
        if self._size + len(self._line) > self._most:
            message = f"one event of the answer is larger than {self._most} bytes"
            raise NotAnswered("invalid", message, "net.event_too_large", limit=self._most)
