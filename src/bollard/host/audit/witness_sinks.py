"""Witness sinks: a server over HTTP (POST appends lines durably, GET returns them; see `docs/reference/witness.md`), or
a file or pipe.
"""

import errno
import http.client
import os
import socket
import ssl
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bollard.host.dial import Dial, open_connection
from bollard.host.limits import WITNESS_HANGS_S, WITNESS_LINE_BYTES, WITNESS_REQUEST_BYTES
from bollard.trust import make_folder, sync_folder

_LINES: Final = "application/x-ndjson"
_TAKEN: Final = range(200, 300)
_WHOLE, _PART, _NOTHING_THERE = 200, 206, 416


def is_url(witness: str) -> bool:
    """Whether the setting `witness` names an HTTP witness."""
    return witness.startswith(("http://", "https://"))


class WitnessHttp:
    """A witness at a URL. Each request opens a connection: heads are sent about once a minute."""

    def __init__(
        self, url: str, token: str = "", *, within_s: float = WITNESS_HANGS_S, dial: Dial = socket.create_connection
    ) -> None:
        self._dial = dial
        self._url = url
        self._parts = urlsplit(url)
        self._token = token
        self._within_s = within_s

    def __str__(self) -> str:
        return self._url

    def append(self, lines: bytes) -> None:
        """Append lines durably on the other machine. Raises `OSError`; then lines may be sent again."""
        for body in _bodies(lines):
            with self._asked("POST", body, {"content-type": _LINES}) as response:
                if response.status not in _TAKEN:
                    raise OSError(f"it answered POST with {response.status} {response.reason}".rstrip())

    def lines(self, newest_bytes: int | None = None) -> Iterator[bytes]:
        """Read the lines. With `newest_bytes` the time is bounded: a slow witness raises `TimeoutError`."""
        until = None if newest_bytes is None else time.monotonic() + self._within_s
        wanted = {} if newest_bytes is None else {"range": f"bytes=-{newest_bytes}"}
        with self._asked("GET", None, {"accept": _LINES, **wanted}) as response:
            if response.status == _NOTHING_THERE:
                return
            if response.status not in (_WHOLE, _PART):
                raise OSError(f"it answered GET with {response.status} {response.reason}".rstrip())
            if response.status == _PART and not _from_the_beginning(response):
                response.readline(WITNESS_LINE_BYTES)  # it begins before
            while line := response.readline(WITNESS_LINE_BYTES):
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"it did not return its heads within {self._within_s:g} s")
                yield line
            if response.length:  # `readline` takes a lost connection for the end
                raise OSError(f"the connection was lost {response.length} bytes before the end of its heads")

    @contextmanager
    def _asked(self, method: str, body: bytes | None, headers: dict[str, str]) -> Generator[http.client.HTTPResponse]:
        path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        if self._token:
            headers = {**headers, "authorization": f"Bearer {self._token}"}
        with closing(self._connection()) as connection:
            try:
                connection.request(method, path, body, {**headers, "connection": "close"})
                with connection.getresponse() as response:
                    yield response
            except http.client.HTTPException as error:
                raise OSError(f"it does not speak HTTP as it should: {error!r}") from error

    def _connection(self) -> http.client.HTTPConnection:
        tls = None if self._parts.scheme == "http" else ssl.create_default_context()
        host, port = self._parts.hostname or "", self._parts.port
        return open_connection(host, port, tls=tls, within_s=self._within_s, dial=self._dial)


def _from_the_beginning(response: http.client.HTTPResponse) -> bool:
    return response.headers.get("content-range", "").strip().startswith("bytes 0-")


def _bodies(lines: bytes) -> Iterator[bytes]:
    """Split lines into request bodies of bounded size."""
    body = bytearray()
    for line in lines.splitlines(keepends=True):
        if body and len(body) + len(line) > WITNESS_REQUEST_BYTES:
            yield bytes(body)
            body.clear()
        body += line
    if body:
        yield bytes(body)


# --- files and pipes ---

_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})
"""Errors of flushing a pipe or a device, which have no disk."""


class WitnessFile:
    """A witness in a file, or a pipe, which cannot be read back. It is opened for each write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_whole = False
        """Whether the file ends with a complete line."""

    def __str__(self) -> str:
        return str(self._path)

    def append(self, lines: bytes) -> None:
        """Append lines durably. May hang as long as the file system does."""
        make_folder(self._path.parent, 0o700)
        new = not self._path.exists()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self._path, flags, 0o600)
        try:
            begun = os.fstat(descriptor)
            if not self._is_whole and stat.S_ISREG(begun.st_mode) and begun.st_size:
                lines = b"\n" + lines  # a full disk or a power loss may have cut the last line off
            self._is_whole = False
            left = memoryview(lines)
            while left:
                left = left[os.write(descriptor, left) :]
            self._is_whole = True
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in _NO_SYNC:
                    raise
            if new:
                sync_folder(self._path.parent)
        finally:
            os.close(descriptor)

    def lines(self, newest_bytes: int | None = None) -> Iterator[bytes]:
        if not stat.S_ISREG(self._path.stat().st_mode):
            raise OSError(errno.ESPIPE, "it is not a file, so it cannot be read back")
        with self._path.open("rb") as file:
            if newest_bytes is not None and (begin := file.seek(0, os.SEEK_END) - newest_bytes) > 0:
                file.seek(begin)
                file.readline(WITNESS_LINE_BYTES)  # it begins before
            else:
                file.seek(0)
            yield from iter(lambda: file.readline(WITNESS_LINE_BYTES), b"")
