"""A server on loopback that accepts every POST."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any


class PostSink(http.server.ThreadingHTTPServer):
    """Remembers the host and the path of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.came: list[tuple[str, str]] = []


class _Answer(http.server.BaseHTTPRequestHandler):
    server: PostSink

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.came.append((self.headers["host"], self.path))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        """Silent."""


@contextlib.contextmanager
def post_sink() -> Iterator[PostSink]:
    server = PostSink()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
