"""A proxy on loopback that speaks HTTP CONNECT and SOCKS5, in threads. It connects every target to one local port."""

import base64
import contextlib
import ipaddress
import socket
import socketserver
import threading
from collections.abc import Iterator


class ProxyServer(socketserver.ThreadingTCPServer):
    """Remembers the targets that it was asked for, and the logins that it was given."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, to_port: int = 0, login: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.to_port = to_port
        self.login = login
        self.targets: list[str] = []
        self.logins: list[str] = []
        self.raw: bytes | None = None
        """Sent instead of the protocol's first answer; then the connection closes. Empty: nothing is ever answered."""
        self.after: bytes = b""
        """Sent right behind the answer of a CONNECT, before anything of the destination."""
        self.refusal = 0
        """The status of an HTTP answer, or the code of a SOCKS reply."""
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def url(self, scheme: str) -> str:
        return f"{scheme}://127.0.0.1:{self.port}"


class _Client(socketserver.BaseRequestHandler):
    server: ProxyServer
    request: socket.socket

    def handle(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self.server.raw is not None:
                self.request.recv(1)
                self._answer_raw(self.server.raw)
                return
            first = self._read(1)
            if self._is_refused_by_socks() if first == b"\x05" else self._is_refused_by_http(first):
                return
            self._relay()

    def _answer_raw(self, raw: bytes) -> None:
        if raw:
            self.request.sendall(raw)
        else:
            self.server.closing.wait(60)

    def _is_refused_by_http(self, first: bytes) -> bool:
        head = first
        while not head.endswith(b"\r\n\r\n"):
            head += self._read(1)
        lines = head.decode().split("\r\n")
        self.server.targets.append(lines[0].split(" ")[1])
        logins = [line.split("Basic ", 1)[1] for line in lines if line.startswith("Proxy-Authorization: ")]
        self.server.logins += [base64.b64decode(login).decode() for login in logins]
        status = self.server.refusal
        if self.server.login and self.server.login not in self.server.logins:
            status = 407
        if status:
            self.request.sendall(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode())
            return True
        self.request.sendall(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n" + self.server.after)
        return False

    def _is_refused_by_socks(self) -> bool:
        methods = self._read(self._read(1)[0])
        wanted = 2 if self.server.login else 0
        if wanted not in methods:
            self.request.sendall(b"\x05\xff")
            return True
        self.request.sendall(bytes([5, wanted]))
        if wanted == 2:
            assert self._read(1) == b"\x01"
            user, password = (self._read(self._read(1)[0]).decode() for _ in range(2))
            self.server.logins.append(f"{user}:{password}")
            is_right = self.server.logins[-1] == self.server.login
            self.request.sendall(b"\x01\x00" if is_right else b"\x01\x01")
            if not is_right:
                return True
        assert self._read(3) == b"\x05\x01\x00"
        kind = self._read(1)[0]
        size = {1: 4, 4: 16}.get(kind) or self._read(1)[0]
        address = self._read(size)
        host = address.decode() if kind == 3 else str(ipaddress.ip_address(address))
        self.server.targets.append(f"{host}:{int.from_bytes(self._read(2), 'big')}")
        bound = b"\x03\x09localhost\x00\x00" if kind == 3 else b"\x01\x7f\x00\x00\x01\x00\x00"
        self.request.sendall(b"\x05" + bytes([self.server.refusal, 0]) + bound)
        return self.server.refusal != 0

    def _relay(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.to_port)) as there:
            back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
            back.start()
            _copy(self.request, there)
            back.join(60)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.request.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)  # also after a reset: the other side would wait for ever


@contextlib.contextmanager
def proxy_server(to_port: int = 0, login: str = "") -> Iterator[ProxyServer]:
    server = ProxyServer(to_port, login)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(30)
