"""The head of a request as it comes: what is noted of it, and what of it two readers could read differently. Pure.

The parser has refused what it calls an error; this is the rest.
"""

from typing import Final

from bollard.host.errors import HostError
from bollard.host.http.errors import ExpectationFailed, HeadTooLarge, MalformedRequest, UnsupportedMedia
from bollard.host.limits import REQUEST_HEAD_BYTES, REQUEST_HEADERS

HINT: Final = "send HTTP/1.1 as RFC 9112 has it"
_NOTED: Final = frozenset({b"host", b"transfer-encoding", b"content-encoding", b"expect", b"upgrade"})
_UPGRADING: Final = frozenset({b"upgrade", b"connection", b"http2-settings"})


class Head:
    """One head, field by field."""

    __slots__ = ("_encodings", "_hosts", "_unmet", "continues", "fields", "upgrade", "url")

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []
        """Names in small letters."""
        self.continues = False
        """Whether the client waits to be told to send its body."""
        self.upgrade: bytes | None = None
        self._hosts = 0
        self._encodings: bytes | None = None
        self._unmet: HostError | None = None
        """Why this is no request for us, though two readers would read it alike."""

    def add(self, name: bytes, value: bytes) -> None:
        """One header line; the name in small letters."""
        if name in _NOTED:
            if name == b"host":
                self._hosts += 1
            elif name == b"expect":
                self.continues = value.lower().rstrip() == b"100-continue"
                self._unmet = self._unmet if self.continues else _unexpected()
            elif name == b"content-encoding":
                self._unmet = self._unmet if value.lower().rstrip() == b"identity" else _packed()
            elif name == b"upgrade":
                self.upgrade = value.lower()
            else:
                self._encodings = value.lower() if self._encodings is None else b"several"
        self.fields.append((name, value))

    def problem(self, version: str, heard: int) -> HostError | None:
        """Why this head is not taken. `heard` is how much came, its body perhaps included."""
        if len(self.fields) > REQUEST_HEADERS or (heard > REQUEST_HEAD_BYTES and self._size() > REQUEST_HEAD_BYTES):
            return too_large()
        if version not in ("1.1", "1.0"):
            problem = f"HTTP/{version} is not spoken here"
        elif self._hosts > 1:
            problem = "there are two Host headers"
        elif not self._hosts and version == "1.1":
            problem = "there is no Host header"
        elif not self.url.startswith(b"/") or b"#" in self.url:
            problem = "the target is not a path"
        elif self._encodings is not None and (self._encodings != b"chunked" or version == "1.0"):
            problem = "a body comes chunked or with its length, and in no other way"
        else:
            return self._unmet
        return MalformedRequest(problem, hint=HINT)

    def drop_upgrade(self) -> None:
        """The same request, for who does not know the protocol that it would rather speak; its connection ends."""
        self.fields = [field for field in self.fields if field[0] not in _UPGRADING]
        self.fields.append((b"connection", b"close"))

    def written(self, method: bytes, version: bytes) -> bytes:
        """As it would come again."""
        lines = [b"%b: %b\r\n" % field for field in self.fields]
        return b"".join([b"%b %b HTTP/%b\r\n" % (method, self.url, version), *lines, b"\r\n"])

    def _size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.fields)


def _unexpected() -> ExpectationFailed:
    return ExpectationFailed("nothing but 100-continue can be expected", hint="send no other Expect header")


def _packed() -> UnsupportedMedia:
    return UnsupportedMedia("bodies are not unpacked here", hint="send it as it is, without Content-Encoding")


def too_large() -> HeadTooLarge:
    """What is told whoever sends more than a head may have."""
    return HeadTooLarge(
        f"the head is larger than {REQUEST_HEAD_BYTES} bytes or {REQUEST_HEADERS} lines",
        hint="send less in headers and in the address",
    )


def too_much_beside() -> HeadTooLarge:
    """What is told whoever sends a body with trailers or chunk extensions that are larger than a head may be."""
    return HeadTooLarge(
        f"more than {REQUEST_HEAD_BYTES} bytes came beside the content of the body",
        hint="send shorter trailers and chunk extensions, or none",
    )
