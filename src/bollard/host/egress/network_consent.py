"""The names that a plugin's workers may reach: the consented `spec.sandbox.network` of a manifest. Pure."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

_WEB_PORTS: Final = frozenset({80, 443})
"""The ports of a name without a port."""


class _Entry(msgspec.Struct, frozen=True):
    """One name of the list."""

    host: str
    port: int | None
    below: bool
    """Whether it stands for the names below `host`, at any depth, and not for `host`."""

    @classmethod
    def of(cls, text: str) -> "_Entry":
        host, _, port = text.partition(":")
        below = host.startswith("*.")
        return cls(host.removeprefix("*."), int(port) if port else None, below)

    def admits(self, host: str, port: int) -> bool:
        ports = _WEB_PORTS if self.port is None else (self.port,)
        return port in ports and (host.endswith(f".{self.host}") if self.below else host == self.host)

    def covers(self, other: "_Entry") -> bool:
        same_host = other.below == self.below and other.host == self.host
        ports = _WEB_PORTS if other.port is None else {other.port}
        own = _WEB_PORTS if self.port is None else {self.port}
        return ports <= own and (same_host or (self.below and other.host.endswith(f".{self.host}")))


class NetworkConsent(msgspec.Struct, frozen=True, kw_only=True):
    """The consented names. Empty admits nothing; `is_open` admits every name."""

    names: tuple[str, ...] = ()
    is_open: bool = False

    @classmethod
    def of(cls, network: Literal["none", "open"] | tuple[str, ...]) -> "NetworkConsent":
        """Build the consent from `PluginSandbox.network`."""
        if isinstance(network, tuple):
            return cls(names=network)
        return cls(is_open=network == "open")

    def admits(self, host: str, port: int) -> bool:
        """Whether the workers may reach a host, which is a name or an address, on a port."""
        name = host.lower().removesuffix(".")
        return self.is_open or any(_Entry.of(each).admits(name, port) for each in self.names)

    def beyond(self, other: "NetworkConsent") -> tuple[str, ...]:
        """The names of this consent that `other` does not cover, sorted; `open` for every name."""
        if other.is_open or (self.is_open and self == other):
            return ()
        if self.is_open:
            return ("open",)
        covering = [_Entry.of(each) for each in other.names]
        return _uncovered(self.names, covering)


def _uncovered(names: Iterable[str], covering: list[_Entry]) -> tuple[str, ...]:
    wanted = ((name, _Entry.of(name)) for name in names)
    return tuple(sorted({name for name, entry in wanted if not any(each.covers(entry) for each in covering)}))
