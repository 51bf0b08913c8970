"""A program behind a channel, and the requests of its tests."""

import http.server
import json
import threading
import time
from contextlib import suppress
from typing import Any

from bollard.host.channels.signing import secret_bytes, sign


class Program:
    """A program behind a channel: a real server that remembers what came, and signs what it sends."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.statuses: list[int] = []
        self.results: dict[str, Any] = {}
        """The whole answers to actions, by their name."""
        self.arrival = threading.Condition()
        self.gate = threading.Event()
        """While it is clear, nothing is answered."""
        self.gate.set()
        program = self

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with program.arrival:
                    program.came.append({**body, "key": self.headers["webhook-id"]})
                    program.arrival.notify_all()
                program.gate.wait(30)
                answer = program.results.get(body.get("action"), {"message": f"m{len(program.came)}"})
                said = json.dumps(answer).encode()
                with suppress(ConnectionError):  # who asked may have stopped waiting
                    self.send_response(program.statuses.pop(0) if program.statuses else 200)
                    self.send_header("content-length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)

            def log_message(self, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def until(self, count: int) -> list[Any]:
        with self.arrival:
            assert self.arrival.wait_for(lambda: len(self.came) >= count, 30), self.came
        return self.came

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def post(api: Any, channel: str, secret: str, body: Any, *, number: str = "msg-1", at: int | None = None) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = sign(secret_bytes(secret), number, int(time.time()) if at is None else at, raw)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    return api.post(f"/api/v1/channels/{channel}/events", raw, token=None, **named)


def save(api: Any, channel: str, **body: Any) -> Any:
    answer = api.put(f"/api/v1/channels/{channel}", body)
    assert answer.status in (200, 201), answer.body
    return answer.json


def bind(api: Any, channel: str, agent: str = "parrot") -> None:
    answer = api.put(f"/api/v1/bindings/{channel}", {"agent_id": agent, "scope": {"channel": channel}})
    assert answer.status in (200, 201), answer.body
