"""Connections through the proxy of the host to destinations that a person with the right to choose them has set, so no
address rule applies: the witness and the collector of the settings, and MCP servers."""

import asyncio
import functools
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

from bollard.host.dial import Dial
from bollard.host.egress.addresses import literal
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connections import NotSent, problem_details
from bollard.host.egress.destination import Address, Destination
from bollard.host.egress.proxy import Route, Tunnel
from bollard.host.errors import UnknownName


def operator_dial(egress: EgressClient) -> Dial:
    """Connects to an address of the settings, which may be inside. Call it from a thread without a loop."""
    return functools.partial(_connect, egress) if egress.has_proxy else socket.create_connection


def _connect(egress: EgressClient, address: tuple[str, int], within_s: float) -> socket.socket:
    opened = asyncio.run(_open(egress, address, within_s))
    return socket.create_connection(address, within_s) if opened is None else opened


async def _open(egress: EgressClient, address: tuple[str, int], within_s: float) -> socket.socket | None:
    """The socket of a tunnel; `None` if the destination is reached directly."""
    host, port = address
    last: OSError | None = None
    async with asyncio.timeout(within_s):
        try:
            routes = await operator_routes(egress, host, port, within_s)
        except (NotSent, UnknownName) as error:
            raise OSError(str(error)) from error
        for route in routes:
            if not isinstance(route, Tunnel):
                return None
            try:
                opened = await route.open(port)
            except OSError as error:
                last = error
                continue
            opened.settimeout(within_s)
            return opened
    raise OSError(f"through the proxy: {last or 'no route'}") from last


async def operator_connection(egress: EgressClient, host: str, port: int, within_s: float) -> socket.socket:
    """A connected socket to a destination that obeys no address rule. Raises `NotSent` and `UnknownName`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    routes = await operator_routes(egress, host, port, within_s)
    failure, cause = NotSent("no connection: no answer in time", "net.too_late"), None
    for at, route in enumerate(routes):
        try:
            async with asyncio.timeout((until - loop.time()) / (len(routes) - at)):
                return await (route.open(port) if isinstance(route, Tunnel) else _connected(route, port))
        except OSError as error:
            inner, cause = problem_details(error), error
            if isinstance(route, Tunnel):
                failure = NotSent(f"through the proxy: {inner['problem']}", "net.proxy", inner=inner)
            else:
                failure = NotSent(f"no connection: {inner['problem']}", "net.no_connection", inner=inner)
    raise failure from cause


async def _connected(address: Address, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
    except BaseException:
        sock.close()
        raise
    return sock


async def operator_routes(egress: EgressClient, host: str, port: int, within_s: float) -> Sequence[Route]:
    """The routes to a destination that obeys no address rule. Raises `NotSent` and `UnknownName`."""
    return await egress.route(Destination(scheme="http", host=host, port=port, path="/"), within_s, _addresses)


async def _addresses(place: Destination, within_s: float) -> Sequence[Address]:
    """The operator set the destination, so its addresses obey no rule."""
    del within_s  # the caller has a limit
    if (address := literal(place.host)) is not None:
        return [address]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(place.host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        why = error.strerror or str(error)
        raise UnknownName(f"{place.host} has no address: {why}", reason="not_resolved", host=place.host) from error
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
