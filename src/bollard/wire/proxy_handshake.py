"""The first bytes of a connection through a proxy: HTTP CONNECT, and SOCKS5 (RFC 1928) with or without a password
(RFC 1929). TLS to the destination begins behind them.

Bytes are read one by one, so that bytes that a proxy sends too early are never taken for a part of its answer.
"""

import base64
import re
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, Literal, Protocol

ProxyScheme = Literal["http", "socks5"]
PROXY_HEAD_BYTES: Final = 8192
"""The largest answer of a proxy to CONNECT."""
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r)")
_REPLIES: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


class Pipe(Protocol):
    """A connection to a proxy."""

    async def send(self, data: bytes, /) -> None: ...

    async def receive(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


class ProxyFailed(OSError):
    """The proxy refused the connection, or did not follow its protocol. A translation of the message is found by the
    type of the problem, and filled with `values`."""

    def __init__(self, message: str, problem_type: str, /, **values: Any) -> None:
        super().__init__(message)
        self.details = {"problem": message, "problem_type": problem_type, **values}


async def connect_through(pipe: Pipe, scheme: ProxyScheme, target: str, port: int, login: str) -> None:
    """Let the proxy connect to an address, or to a name that it resolves. Raises `OSError`."""
    await (_connect_http if scheme == "http" else _connect_socks)(pipe, target, port, login)


async def _connect_http(pipe: Pipe, target: str, port: int, login: str) -> None:
    host = f"[{target}]" if ":" in target else target
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if login:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    await pipe.send("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if len(head) >= PROXY_HEAD_BYTES:
            message = f"the proxy answered with more than {PROXY_HEAD_BYTES} bytes"
            raise ProxyFailed(message, "proxy.too_large", limit=PROXY_HEAD_BYTES)
        head += await _read(pipe, 1)
        if len(head) == 5 and head != b"HTTP/":
            raise _not("HTTP")
    status = _STATUS.match(head)
    if status is None:
        raise _not("HTTP")
    if (code := int(status[1])) == 407:
        raise _login_problem(" (HTTP 407)", has_login=bool(login))
    if not 200 <= code < 300:
        raise ProxyFailed(f"the proxy refused the connection (HTTP {code})", "proxy.refused", answer=f"HTTP {code}")


async def _connect_socks(pipe: Pipe, target: str, port: int, login: str) -> None:
    await pipe.send(b"\x05\x02\x00\x02" if login else b"\x05\x01\x00")
    version, method = await _read(pipe, 2)
    if version != 5:
        raise _not("SOCKS5")
    if method == 2 and login:
        user, _, password = login.partition(":")
        parts = [user.encode(), password.encode()]
        await pipe.send(b"\x01" + b"".join(bytes([len(part)]) + part for part in parts))
        if (await _read(pipe, 2))[1] != 0:
            raise _login_problem("", has_login=True)
    elif method != 0:
        raise _login_problem("", has_login=bool(login))
    await pipe.send(b"\x05\x01\x00" + _socks_address(target) + port.to_bytes(2, "big"))
    version, reply, _, kind = await _read(pipe, 4)
    if version != 5:
        raise _not("SOCKS5")
    if reply != 0:
        answer = _REPLIES.get(reply, f"code {reply}")
        raise ProxyFailed(f"the proxy refused the connection ({answer})", "proxy.refused", answer=answer)
    # The address from which the proxy connects; its length must be known to find its end.
    sizes = {1: 4, 4: 16}
    if kind not in (*sizes, 3):
        raise _not("SOCKS5")
    await _read(pipe, (sizes[kind] if kind in sizes else (await _read(pipe, 1))[0]) + 2)


def _socks_address(target: str) -> bytes:
    try:
        address = ip_address(target)
    except ValueError:
        name = target.encode("ascii")
        return b"\x03" + bytes([len(name)]) + name
    return (b"\x04" if isinstance(address, IPv6Address) else b"\x01") + address.packed


async def _read(pipe: Pipe, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = await pipe.receive(size - len(found))
        if not piece:
            raise ProxyFailed("the proxy closed the connection", "proxy.closed")
        found += piece
    return found


def _not(protocol: str) -> ProxyFailed:
    return ProxyFailed(f"the proxy does not speak {protocol}", "proxy.protocol", protocol=protocol)


def _login_problem(status: str, *, has_login: bool) -> ProxyFailed:
    if has_login:
        return ProxyFailed(f"the proxy refused the login{status}", "proxy.login_refused", status=status)
    return ProxyFailed(f"the proxy asks for a login{status}", "proxy.login_needed", status=status)
