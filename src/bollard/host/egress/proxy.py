"""Proxies of outgoing connections: HTTP CONNECT, and SOCKS5 (RFC 1928) with or without a password (RFC 1929).

A `Tunnel` is a connected socket through a proxy; TLS to the destination begins behind it. Its bytes are read one by one
from the socket, so that bytes that a proxy sends too early are never taken for an answer of the destination.
"""

import asyncio
import base64
import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Literal, cast
from urllib.parse import urlsplit

import msgspec

from bollard.host.egress.addresses import AllowList, InvalidEntry, host_problem, literal, parse_allow
from bollard.host.egress.destination import Address, Destination
from bollard.host.errors import SettingsError
from bollard.host.limits import EGRESS_PROXY_BYTES

Scheme = Literal["http", "socks5"]
_PORTS: Final[dict[str, int]] = {"http": 8080, "socks5": 1080}
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r)")
_LOGIN_BYTES: Final = 255
"""The limit of RFC 1929 for each of user and password."""
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


class ProxyFailed(OSError):
    """The proxy refused the connection, or did not follow its protocol."""


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a proxy, and the login that it asks for."""

    scheme: Scheme
    host: str
    port: int
    login: str = ""
    """`user:password`, or empty."""

    @classmethod
    def of(cls, url: str, login: str = "") -> "Proxy":
        """Parse `http://host:port` or `socks5://host:port`. Raises `ValueError`, without the login in its message."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("is not a URL") from None
        if parts.scheme not in _PORTS or not parts.hostname or port == 0:
            raise ValueError("is not a URL like http://proxy.example.org:3128 or socks5://proxy.example.org:1080")
        if "@" in parts.netloc:
            raise ValueError("contains a login")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError("has more than a host and a port")
        if problem := host_problem(parts.hostname):
            raise ValueError(problem)
        _check_login(login)
        scheme = cast("Scheme", parts.scheme)
        return cls(scheme=scheme, host=parts.hostname, port=port or _PORTS[scheme], login=login)

    @property
    def place(self) -> Destination:
        """The destination that the address rules check."""
        return Destination(scheme="http", host=self.host, port=self.port, path="/")

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.host}:{self.port})"


def _check_login(login: str) -> None:
    if not login:
        return
    user, colon, password = login.partition(":")
    if not (user and colon and login.isprintable()):
        raise ValueError("the login is not user:password")
    if max(len(user.encode()), len(password.encode())) > _LOGIN_BYTES:
        raise ValueError(f"the login has a part of more than {_LOGIN_BYTES} bytes")


class Tunnel(msgspec.Struct, frozen=True, kw_only=True):
    """One way to a destination through a proxy."""

    proxy: Proxy
    at: Address
    """The address of the proxy."""
    target: Address | str
    """What the proxy connects to: an address, or a name that the proxy resolves."""

    async def open(self, port: int) -> socket.socket:
        """Connect. Raises `OSError`."""
        family = socket.AF_INET6 if isinstance(self.at, IPv6Address) else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (str(self.at), self.proxy.port))
            handshake = _connect_http if self.proxy.scheme == "http" else _connect_socks
            await handshake(sock, self.target, port, self.proxy.login)
        except BaseException:
            sock.close()
            raise
        return sock


Route = Address | Tunnel
"""How a connection is made: directly to an address, or through a proxy."""


# --- the protocols ---


async def _connect_http(sock: socket.socket, target: Address | str, port: int, login: str) -> None:
    host = f"[{target}]" if isinstance(target, IPv6Address) else str(target)
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if login:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    await asyncio.get_running_loop().sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if len(head) >= EGRESS_PROXY_BYTES:
            raise ProxyFailed(f"the proxy answered with more than {EGRESS_PROXY_BYTES} bytes")
        head += await _read(sock, 1)
        if len(head) == 5 and head != b"HTTP/":
            raise ProxyFailed("the proxy does not speak HTTP")
    status = _STATUS.match(head)
    if status is None:
        raise ProxyFailed("the proxy does not speak HTTP")
    if (code := int(status[1])) == 407:
        raise ProxyFailed(
            "the proxy refused the login (HTTP 407)" if login else "the proxy asks for a login (HTTP 407)"
        )
    if not 200 <= code < 300:
        raise ProxyFailed(f"the proxy refused the connection (HTTP {code})")


async def _connect_socks(sock: socket.socket, target: Address | str, port: int, login: str) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, b"\x05\x02\x00\x02" if login else b"\x05\x01\x00")
    version, method = await _read(sock, 2)
    if version != 5:
        raise ProxyFailed("the proxy does not speak SOCKS5")
    if method == 2 and login:
        user, _, password = login.partition(":")
        parts = [user.encode(), password.encode()]
        await loop.sock_sendall(sock, b"\x01" + b"".join(bytes([len(part)]) + part for part in parts))
        if (await _read(sock, 2))[1] != 0:
            raise ProxyFailed("the proxy refused the login")
    elif method != 0:
        raise ProxyFailed("the proxy refused the login" if login else "the proxy asks for a login")
    await loop.sock_sendall(sock, b"\x05\x01\x00" + _socks_address(target) + port.to_bytes(2, "big"))
    version, reply, _, kind = await _read(sock, 4)
    if version != 5:
        raise ProxyFailed("the proxy does not speak SOCKS5")
    if reply != 0:
        raise ProxyFailed(f"the proxy refused the connection ({_REPLIES.get(reply, f'code {reply}')})")
    # The address from which the proxy connects; its length must be known to find its end.
    sizes = {1: 4, 4: 16}
    if kind not in (*sizes, 3):
        raise ProxyFailed("the proxy does not speak SOCKS5")
    await _read(sock, (sizes[kind] if kind in sizes else (await _read(sock, 1))[0]) + 2)


def _socks_address(target: Address | str) -> bytes:
    if isinstance(target, str):
        name = target.encode("ascii")
        return b"\x03" + bytes([len(name)]) + name
    return (b"\x01" if isinstance(target, IPv4Address) else b"\x04") + target.packed


async def _read(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = await asyncio.get_running_loop().sock_recv(sock, size - len(found))
        if not piece:
            raise ProxyFailed("the proxy closed the connection")
        found += piece
    return found


# --- the settings ---


class ProxyRules(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy of the host, its exceptions, and who resolves names."""

    proxy: Proxy | None = None
    direct: AllowList = AllowList()
    suffixes: tuple[str, ...] = ()
    resolves: bool = False
    """Whether proxies resolve names, also those of models and channels. The host checks only addresses in URLs then."""

    @classmethod
    def of_settings(cls, *, proxy: str, login: str, no_proxy: Iterable[str], resolves: bool) -> "ProxyRules":
        """Raises `SettingsError`."""
        entries = [entry.removeprefix("*") for entry in no_proxy]
        try:
            direct = parse_allow(entry for entry in entries if not entry.startswith("."))
        except InvalidEntry as error:
            raise SettingsError(
                f"no_proxy: the entry {error.entry!r} is invalid: {error}",
                reason="no_proxy_invalid",
                hint="use entries like example.org, .example.org, 10.1.2.3 or 10.1.0.0/16",
                field="no_proxy",
                entry=error.entry,
            ) from error
        suffixes = tuple(entry.lower() for entry in entries if entry.startswith("."))
        return cls(proxy=_proxy_of_setting(proxy, login), direct=direct, suffixes=suffixes, resolves=resolves)

    def skips_host(self, place: Destination) -> bool:
        """Whether the proxy of the host is not used for this name or address."""
        name = place.host.lower().removesuffix(".")
        if (address := literal(name)) is not None:
            return self.skips(address, place.port)
        return self.direct.names_host(name, place.port) or name.endswith(self.suffixes)

    def skips(self, address: Address, port: int) -> bool:
        """The same for an address. That of this machine means another machine at the proxy."""
        return address.is_loopback or self.direct.has(address, port)


def _proxy_of_setting(url: str, login: str) -> Proxy | None:
    reason, field, problem, hint = "", "proxy", "", ""
    if not url:
        if not login:
            return None
        reason, field, problem, hint = "proxy_missing", "proxy_login", "there is no proxy", "set proxy too"
    else:
        try:
            return Proxy.of(url, login)
        except ValueError as error:
            reason, problem = "proxy_invalid", str(error)
            hint = "use http://HOST:PORT or socks5://HOST:PORT, and user:password in proxy_login"
    raise SettingsError(f"{field}: {problem}", reason=reason, hint=hint, field=field, problem=problem)
