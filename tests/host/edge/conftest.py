"""The server with its edge on a free port, around an app that reports its requests; and a client that writes raw
bytes."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bollard.host.http.edge import Edge
from bollard.host.http.server.connection_table import ConnectionTimeouts
from bollard.host.http.server.server import HttpServer, tls_of
from bollard.host.runs.hub import ReaderMemory
from bollard.host.settings import Settings

PATIENCE_S = 120.0
CALM = ConnectionTimeouts(head_s=30, body_window_s=30, idle_s=30, drain_s=30, linger_s=1)
"""For tests without a deadline: none expires, on a machine of any speed."""
QUICK = ConnectionTimeouts(head_s=1.0, body_window_s=1.0, idle_s=1.2, drain_s=0.6, linger_s=0.3)


class Echo:
    """Answers with its request. `/stream` never ends, `/flood` sends without end, `/early` does not read the body."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.gone = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._socket(receive, send)
            return
        self.seen.append((scope["method"], scope["path"]))
        match scope["path"]:
            case "/stream" | "/flood":
                await self._stream(receive, send, flood=scope["path"] == "/flood")
                return
            case "/broken":
                raise ValueError("broken")
            case "/injected":
                await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nset-cookie: b")]})
            case "/silent":
                return
            case "/early":
                body = b""
            case _:
                body = await _body(receive)
                if body is None:
                    self.gone.set()
                    return
        said = {"method": scope["method"], "path": scope["path"], "body": len(body), "client": scope["client"]}
        said |= {"scheme": scope["scheme"], "headers": [[n.decode(), v.decode("latin-1")] for n, v in scope["headers"]]}
        answer = json.dumps(said).encode()
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": answer})

    async def _stream(self, receive: Any, send: Any, *, flood: bool) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun\n", "more_body": True})
        left = asyncio.ensure_future(_gone(receive))
        while flood and not left.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        await left
        self.gone.set()

    async def _socket(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                await send({"type": "websocket.send", "text": message["text"]})
                while message["text"] == "flood":
                    await send({"type": "websocket.send", "text": "x" * 65536})
        finally:
            self.gone.set()


async def _body(receive: Any) -> bytes | None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body, more = body + message["body"], message["more_body"]
    return body


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass
class Answer:
    """One answer, unchanged."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


@dataclass
class Wire:
    """One connection."""

    socket: socket.socket
    received: bytes = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def get(self, path: str = "/", *lines: str) -> Answer:
        self.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode("latin-1"))
        answer = self.answer()
        assert answer is not None
        return answer

    def answer(self) -> Answer | None:
        """The next answer; nothing when the connection ended instead."""
        while b"\r\n\r\n" not in self.received:
            if not self._more():
                return None
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        length = int(dict(fields).get("content-length", "0"))
        while len(self.received) < length and self._more():
            pass
        body, self.received = self.received[:length], self.received[length:]
        return Answer(int(first.split()[1]), fields, body)

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.received += data
        return bool(data)

    def ended(self) -> bool:
        """Waits for the other side to close, after any data."""
        while self._more():
            pass
        return True

    def close(self) -> None:
        self.socket.close()


class _Saying(HttpServer):
    """Reports when it listens."""

    def __init__(self, up: threading.Event, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._up = up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._up.set()


@dataclass
class Server:
    """A server in a separate thread."""

    settings: Settings
    timeouts: ConnectionTimeouts = CALM
    memory: ReaderMemory = field(default_factory=ReaderMemory)
    app: Echo = field(default_factory=Echo)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = self.listener.getsockname()[1]
        self._up, self._wires = threading.Event(), list[Wire]()
        self.http: HttpServer | None = None
        self.problems: list[Any] = []
        """Exceptions that only the loop caught."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._up.wait(PATIENCE_S)

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.problems.append(context))
        edge = Edge(self.app, self.settings)
        tls = tls_of(self.settings)
        more: dict[str, Any] = {"tls": tls, "timeouts": self.timeouts, "memory": self.memory}
        self.http = _Saying(self._up, edge, self.settings, stop_s=1, **more)
        await self.http.serve(sockets=[self.listener])

    def wire(self, *, source: str | None = None, tls: ssl.SSLContext | None = None, buffer: int | None = None) -> Wire:
        raw = socket.socket()
        raw.settimeout(PATIENCE_S)
        if buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        if source is not None:
            raw.bind((source, 0))
        raw.connect(("127.0.0.1", self.port))
        wire = Wire(tls.wrap_socket(raw, server_hostname="localhost") if tls is not None else raw)
        self._wires.append(wire)
        return wire

    @property
    def open(self) -> int:
        assert self.http is not None
        assert self.http.table is not None
        return self.http.table.open

    @staticmethod
    def until(condition: Callable[[], bool]) -> None:
        """Looks until it is so, for a bounded time."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_at
            time.sleep(0.01)

    def stop(self) -> None:
        for wire in self._wires:
            with contextlib.suppress(OSError):
                wire.close()
        assert self.http is not None
        self.http.should_exit = self.http.force_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Servers with separate settings."""
    started: list[Server] = []

    def begin(timeouts: ConnectionTimeouts = CALM, *, memory: ReaderMemory | None = None, **settings: Any) -> Server:
        server = Server(Settings(data=tmp_path, **settings), timeouts, memory or ReaderMemory())
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def server(start: Any) -> Server:
    return start()


@pytest.fixture
def hasty(start: Any) -> Server:
    """One whose deadlines come soon."""
    return start(QUICK)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for many requests that must not harm each other."""
    server = Server(Settings(data=tmp_path_factory.mktemp("shared")))
    yield server
    server.stop()
