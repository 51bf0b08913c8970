"""Decides which addresses the host may connect to. Pure.

Only globally routable addresses are outside. An IPv6 address that embeds an IPv4 address must pass both checks, so that
no notation leads inside.
"""

import ipaddress
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

import msgspec

from bollard.host.egress.destination import Address
from bollard.wire.addresses import carried_address

Network = IPv4Network | IPv6Network

_INSIDE_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; some clouds serve their metadata there
        "127.0.0.0/8",
        "168.63.129.16/32",  # an internal service of a cloud under a public address
        "169.254.0.0/16",  # link-local: the metadata service of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_OUTSIDE_V6: Final = (IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96"))
"""Global unicast, and NAT64 of an outside address. All other IPv6 addresses are reserved or local."""
_INSIDE_V6: Final = tuple(
    IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "2002::/16")
)
_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]*))*", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_NAME_CHARACTERS: Final = 253


def address_problem(address: Address) -> str | None:
    """Why an address is not outside, or `None` if it is."""
    if isinstance(address, IPv4Address):
        return f"{address} is not globally routable" if any(address in inside for inside in _INSIDE_V4) else None
    if address.scope_id is not None:
        return f"{address} is of one link only"
    carried = carried_address(address)
    if carried is not None and address_problem(carried) is not None:
        return f"{address} stands for {carried}, which is inside"
    # 6to4 and Teredo are obsolete, so they are refused like reserved addresses.
    is_global = any(address in outside for outside in _OUTSIDE_V6)
    if not is_global or any(address in inside for inside in _INSIDE_V6):
        return f"{address} is not globally routable"
    return None


def host_problem(host: str) -> str | None:
    """Why a host in a URL is invalid, or `None` for a name or an address in its usual notation."""
    if literal(host) is not None:
        return None
    if _NUMERIC.fullmatch(host.rstrip(".")) is not None:
        return f"{host} is an address in an unusual form"
    labels = host.removesuffix(".").split(".")
    if len(host) > _NAME_CHARACTERS or not all(_LABEL.fullmatch(label) for label in labels):
        return f"{host[:80]!r} is no name of a host"
    if _NUMERIC.fullmatch(labels[-1]) is not None:
        return f"{host} ends like an address and is none"
    return None


def literal(host: str) -> Address | None:
    """The address, or `None` for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class AllowList(msgspec.Struct, frozen=True, kw_only=True):
    """Inside destinations that an operator allowed. Empty allows nothing."""

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[Network, int | None], ...] = ()

    def names_host(self, host: str, port: int) -> bool:
        """Whether a name is allowed, whatever its addresses are."""
        name = host.lower().removesuffix(".")
        return (name, port) in self.names or (name, None) in self.names

    def has(self, address: Address, port: int) -> bool:
        """Whether an address is allowed."""
        # The system connects to a mapped address over IPv4. Other notations are allowed only as written.
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        found = mapped or address
        return any(found in network and wanted in (None, port) for network, wanted in self.networks)


class InvalidEntry(ValueError):
    """An entry of an allow list is neither a name nor an address nor a network."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(problem)
        self.entry = entry


def parse_allow(entries: Iterable[str]) -> AllowList:
    """`name`, `name:port`, `address`, `address:port`, `[v6]:port` and `network/bits`. Raises `InvalidEntry`."""
    names: set[tuple[str, int | None]] = set()
    networks: list[tuple[Network, int | None]] = []
    for entry in entries:
        try:
            if "/" in entry:
                networks.append((ipaddress.ip_network(entry), None))
                continue
            host, port = _host_and_port(entry)
        except ValueError as error:
            raise InvalidEntry(entry, str(error)) from error
        if (address := literal(host)) is not None:
            networks.append((ipaddress.ip_network(address), port))
        elif problem := host_problem(host):
            raise InvalidEntry(entry, problem)
        else:
            names.add((host.lower().removesuffix("."), port))
    return AllowList(names=frozenset(names), networks=tuple(networks))


def _host_and_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        host, bracket, rest = entry[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{entry!r} is no address with a port")
        return host, _port(rest[1:]) if rest else None
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, _port(port)
    return entry, None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"{text!r} is no port")
    return int(text)
