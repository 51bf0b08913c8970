"""A witness for a Bollard host, for another machine: appends the received lines to one file.

    WITNESS_TOKEN=… python receiver.py heads.jsonl 8500

Put a proxy that speaks TLS in front of it. It needs the standard library alone.
"""

import hmac
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

BODY_BYTES = 1 << 20
TIMEOUT_S = 30


class Receiver(BaseHTTPRequestHandler):
    """`POST` appends lines, `GET` returns them."""

    timeout = TIMEOUT_S
    path_of_heads: Path
    token: str
    writing = Lock()

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if not self._is_known():
            self._answer(401)
        elif not 0 < size <= BODY_BYTES:
            self._answer(413)
        else:
            self._append(self.rfile.read(size), size)

    def _append(self, body: bytes, size: int) -> None:
        if len(body) != size or not body.endswith(b"\n"):
            self._answer(400)
            return
        with self.writing, self.path_of_heads.open("a+b") as file:
            if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                file.write(b"\n")  # a full disk or a power loss cut the last line off
            file.write(body)
            file.flush()
            os.fsync(file.fileno())  # before the answer: a 2xx confirms that it is on disk
        self._answer(204)

    def do_GET(self) -> None:
        if not self._is_known():
            self._answer(401)
            return
        with self.writing:
            held = self.path_of_heads.stat().st_size if self.path_of_heads.exists() else 0
        wanted = re.fullmatch(r"bytes=-(\d+)", self.headers.get("Range", ""))
        begin = max(0, held - int(wanted[1])) if wanted else 0
        span = {"Content-Range": f"bytes {begin}-{held - 1}/{held}"} if wanted and held else {}
        self._answer(206 if span else 200, {"Content-Type": "application/x-ndjson", **span}, held - begin)
        if held:
            with self.path_of_heads.open("rb") as file:
                file.seek(begin)
                left = held - begin
                while left and (piece := file.read(min(left, 1 << 16))):
                    self.wfile.write(piece)
                    left -= len(piece)

    def _is_known(self) -> bool:
        return hmac.compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.token}")

    def _answer(self, status: int, headers: dict[str, str] | None = None, size: int = 0) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()


def main() -> None:
    """Serve until it is stopped."""
    Receiver.path_of_heads, Receiver.token = Path(sys.argv[1]), os.environ["WITNESS_TOKEN"]
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver) as server:
        print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
