"""Proxies of outgoing connections, the tunnels through them, and the rules that choose between them and a direct way.

A `Tunnel` opens a connected socket through a proxy; TLS to the destination begins behind it.
"""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec

from bollard.host.egress.addresses import AllowList, InvalidEntry, host_problem, literal, parse_allow
from bollard.host.egress.destination import Address, Destination
from bollard.host.errors import ExplainedError, SettingsError, caused_by
from bollard.wire.proxy_handshake import ProxyScheme, connect_through

_PORTS: Final[dict[str, int]] = {"http": 8080, "socks5": 1080}
_LOGIN_BYTES: Final = 255
"""The limit of RFC 1929 for each of user and password."""
_SHOWN_CHARACTERS: Final = 80
"""Of a wrong host name."""


class InvalidProxy(ExplainedError):
    """The URL or the login of a proxy is invalid. The message does not contain the login."""


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a proxy, and the login that it asks for."""

    scheme: ProxyScheme
    host: str
    port: int
    login: str = ""
    """`user:password`, or empty."""

    @classmethod
    def of(cls, url: str, login: str = "") -> "Proxy":
        """Parse `http://host:port` or `socks5://host:port`. Raises `InvalidProxy`."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidProxy("is not a URL", "proxy.url") from None
        if parts.scheme == "https":
            problem = "is an https URL: proxies over TLS are not supported, and http:// serves https destinations"
            raise InvalidProxy(problem, "proxy.tls")
        if parts.scheme not in _PORTS or not parts.hostname or port == 0:
            problem = "is not a URL like http://proxy.example.org:3128 or socks5://proxy.example.org:1080"
            raise InvalidProxy(problem, "proxy.url")
        if "@" in parts.netloc:
            raise InvalidProxy("contains a login", "proxy.has_login")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise InvalidProxy("has more than a host and a port", "proxy.has_more")
        if problem := host_problem(parts.hostname):
            raise InvalidProxy(problem, "proxy.host", host=parts.hostname[:_SHOWN_CHARACTERS])
        _check_login(login)
        scheme = cast("ProxyScheme", parts.scheme)
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
        raise InvalidProxy("the login is not user:password", "proxy.login")
    if max(len(user.encode()), len(password.encode())) > _LOGIN_BYTES:
        problem = f"the login has a part of more than {_LOGIN_BYTES} bytes"
        raise InvalidProxy(problem, "proxy.login_too_long", limit=_LOGIN_BYTES)


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
            await connect_through(_SocketPipe(sock), self.proxy.scheme, str(self.target), port, self.proxy.login)
        except BaseException:
            sock.close()
            raise
        return sock


class _SocketPipe:
    """Reads from the socket itself: a buffered reader would keep bytes that TLS must not begin with."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self, size: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._sock, size)


Route = Address | Tunnel
"""How a connection is made: directly to an address, or through a proxy."""


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
    if url:
        try:
            return Proxy.of(url, login)
        except InvalidProxy as error:
            hint = "use http://HOST:PORT or socks5://HOST:PORT, and user:password in proxy_login"
            why = caused_by(error)
            raise SettingsError(f"proxy: {error}", reason="proxy_invalid", hint=hint, field="proxy", **why) from error
    if login:
        problem = "there is no proxy"
        message, hint = f"proxy_login: {problem}", "set proxy too"
        raise SettingsError(message, reason="proxy_missing", hint=hint, field="proxy_login", problem=problem)
    return None
