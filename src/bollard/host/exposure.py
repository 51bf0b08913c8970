"""The rules for a host's address, certificate and origins: who can reach it, and over TLS or not. Pure."""

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from bollard.host.errors import SettingsError

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Names of this machine that no other machine can reach."""
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- it is not bound here, only known
_PORTS: Final = {"http": 80, "https": 443}
_OWN_BITS: Final = 64
"""Bits of an IPv6 address that identify a client: a client usually controls a whole /64."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on this address."""
    return host in LOOPBACK_NAMES


def client_network(address: str) -> str:
    """The key by which clients are counted: the IPv4 address, or the /64 network of the IPv6 address."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.IPv6Network((address.partition("%")[0], _OWN_BITS), strict=False))
    except ValueError:
        return address


def own_address(host: str, port: int, *, tls: bool) -> str:
    """The URL at which commands on this machine reach the host. A wildcard address becomes loopback."""
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
    """Check the settings that decide who reaches the host. Raises `SettingsError`."""
    if bool(tls_cert) != bool(tls_key):
        missing = "tls_key" if tls_cert else "tls_cert"
        hint = "set tls_cert and tls_key together"
        raise SettingsError(f"{missing} is missing", reason="tls_incomplete", hint=hint, field=missing)
    for origin in origins:
        read_origin(origin)
    for name in allowed_hosts:
        if not name or any(mark in name for mark in "/*@ ,") or name != name.strip().lower():
            raise SettingsError(
                f"allowed_hosts contains {name!r}, which is not a host name",
                reason="not_a_host_name",
                hint="use names as in a Host header, in lower case and without a port: bollard.example.org",
                field="allowed_hosts",
                value=name,
            )
    for network in trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise SettingsError(
                f"trusted_proxies contains {network!r}, which is neither an address nor a network",
                reason="not_a_network",
                hint="use addresses or networks: 10.0.0.7,10.1.0.0/16",
                field="trusted_proxies",
                value=network,
            ) from error
    if not is_loopback(host) and not tls_cert and not any(origin.startswith("https://") for origin in origins):
        raise SettingsError(
            f"binding to {host} would serve the API without TLS to everyone who can reach this machine",
            reason="exposed_without_tls",
            hint="set a certificate (--tls-cert and --tls-key); behind a TLS proxy, set its address: "
            "origins=https://bollard.example.org; or bind to 127.0.0.1",
            field="host",
            exposed=host,
        )


def read_origin(origin: str) -> tuple[str, str, int]:
    """Parse an origin into scheme, host and port. Raises `SettingsError`."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    whole = bool(parts.scheme in _PORTS and parts.hostname) and not (parts.path or parts.query or parts.fragment)
    if not whole or "@" in origin or origin != origin.strip().lower() or not origin.isascii():
        raise SettingsError(
            f"origins contains {origin!r}, which is not an origin",
            reason="not_an_origin",
            hint="use an origin in lower case and without a path: https://bollard.example.org",
            field="origins",
            value=origin,
        )
    return parts.scheme, parts.hostname or "", port or _PORTS[parts.scheme]
