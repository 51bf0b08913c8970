"""Who can reach a host: what of its address, its certificate and its origins can work together. Pure."""

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from bollard.host.errors import SettingsError

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine is called by itself."""
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- it is not bound here, only known
_PORTS: Final = {"http": 80, "https": 443}
_OWN_BITS: Final = 64
"""Of an IPv6 address: whoever has one has all that share them."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    return host in LOOPBACK_NAMES


def client_network(address: str) -> str:
    """What is counted as one client: an IPv4 address, or the network that one IPv6 client can take addresses from."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.IPv6Network((address.partition("%")[0], _OWN_BITS), strict=False))
    except ValueError:
        return address


def own_address(host: str, port: int, *, tls: bool) -> str:
    """Where this machine's own commands find the host. An address that means all of them is no address to go to."""
    host = _ANYWHERE.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def check_exposure(
    *,
    host: str,
    tls_cert: str,
    tls_key: str,
    origins: Sequence[str],
    allowed_hosts: Sequence[str],
    trusted_proxies: Sequence[str],
) -> None:
    """Raises `SettingsError` with the sentence that helps."""
    if bool(tls_cert) != bool(tls_key):
        missing = "tls_key" if tls_cert else "tls_cert"
        raise SettingsError(f"{missing} is missing", hint="a certificate and its key go together", field=missing)
    for origin in origins:
        read_origin(origin)
    for name in allowed_hosts:
        if not name or any(mark in name for mark in "/*@ ,") or name != name.strip().lower():
            raise SettingsError(
                f"allowed_hosts has {name!r}",
                hint="write names as a Host header has them, in small letters and without a port: bollard.example.org",
                field="allowed_hosts",
            )
    for network in trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise SettingsError(
                f"trusted_proxies has {network!r}",
                hint="write addresses or networks: 10.0.0.7,10.1.0.0/16",
                field="trusted_proxies",
            ) from error
    if not is_loopback(host) and not tls_cert and not any(origin.startswith("https://") for origin in origins):
        raise SettingsError(
            f"binding to {host} would serve the API without TLS to everyone who can reach this machine",
            hint="give a certificate (--tls-cert and --tls-key), or, behind a proxy that speaks TLS, say where "
            "browsers find it: origins=https://bollard.example.org; or bind to 127.0.0.1",
            field="host",
            exposed=host,
        )


def read_origin(origin: str) -> tuple[str, str, int]:
    """Scheme, host and port of an origin; raises `SettingsError` where it is none."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    whole = bool(parts.scheme in _PORTS and parts.hostname) and not (parts.path or parts.query or parts.fragment)
    if not whole or "@" in origin or origin != origin.strip().lower() or not origin.isascii():
        raise SettingsError(
            f"origins has {origin!r}",
            hint="write an origin as browsers do, in small letters and without a path: https://bollard.example.org",
            field="origins",
        )
    return parts.scheme, parts.hostname or "", port or _PORTS[parts.scheme]
