"""Whether a request is meant for this host, by its `Host` header: a page whose name was made to lead here (DNS
rebinding) still says that name. Pure."""

from collections.abc import Iterable
from typing import Final

from bollard.host.errors import HostError
from bollard.host.exposure import LOOPBACK_NAMES, read_origin
from bollard.host.http.errors import ForbiddenHost, MalformedRequest
from bollard.host.settings import Settings

__all__ = ["HostRules", "host_name"]

_REMEMBERED: Final = 64
"""Headers that were found good and are not read again."""
_ANYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- it is not bound here, only known


class HostRules:
    """The names that this host goes by. Any port is taken: a forwarded port is still this host."""

    def __init__(self, settings: Settings) -> None:
        own = set[str]() if settings.host in _ANYWHERE else {settings.host.lower()}
        own.update(read_origin(origin)[1] for origin in settings.origins)
        self._names = frozenset(LOOPBACK_NAMES | own | set(settings.allowed_hosts))
        self._good: set[bytes] = set()

    def check(self, header: bytes | None, bound_to: str | None) -> HostError | None:
        """Why the request is for somebody else. `bound_to` is the address that it came in at: who asks for an address
        was not sent by a name."""
        if header in self._good:
            return None
        name = host_name(header) if header else None
        if name is None or header is None:
            return MalformedRequest("the Host header names no host", hint="send the host's name, as in its address")
        if name not in self._names and name != bound_to:
            return ForbiddenHost(
                f"this host is not called {name[:100]}",
                hint="if it is, say so in the setting allowed_hosts, or in origins with its whole address",
            )
        if name in self._names and len(self._good) < _REMEMBERED:
            self._good.add(header)
        return None


def host_name(header: bytes) -> str | None:
    """The name of a `Host` header, without its port and in small letters; nothing where it is none."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else ""
        good = bool(bracket) and _all(name, "0123456789abcdef:.") and (not rest or rest.startswith(":"))
    else:
        name, colon, port = text.partition(":")
        good = _all(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") and (not colon or bool(port))
        name = name.removesuffix(".")
    good = good and len(port) <= 5 and (not port or (port.isascii() and port.isdigit()))
    return name or None if good else None


def _all(text: str, known: Iterable[str]) -> bool:
    return set(text) <= set(known)
