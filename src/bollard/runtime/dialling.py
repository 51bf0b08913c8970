"""Dials a host until it answers: longer and longer pauses, with a part of chance, so that many runtimes do not come at
the same moment after a host was away. What will not change by waiting is said at once instead."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from bollard.runtime.host_address import HostAddress
from bollard.runtime.key_file import RuntimeKey
from bollard.runtime.limits import RECONNECT_MAX_S, RECONNECT_S
from bollard.runtime.remote_door import signed_headers
from bollard.wire import ChannelClosed, IncompatiblePeer, Transport
from bollard.wire.errors import HandshakeRefused
from bollard.wire.remote_door import CHANNEL_PATH

__all__ = ["Connect", "dial_until_there", "pause_s"]

_FINAL: Final = frozenset({400, 401, 403, 404, 405, 421, 426})
"""Answers that another try would get again."""
Connect = Callable[[str, list[tuple[str, str]]], Awaitable[Transport]]
"""Opens a WebSocket at a URL, with these headers."""


def pause_s(failures: int, chance: float) -> float:
    """Time before the next try, after this many; `chance` is between 0 and 1. Pure."""
    return min(RECONNECT_MAX_S, RECONNECT_S * 2 ** min(failures, 16)) * (0.5 + chance)


async def dial_until_there(
    address: HostAddress,
    key: RuntimeKey,
    connect: Connect,
    *,
    again: bool,
    tell: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Transport:
    """A channel whose handshake is done; `again` where there was one just now. Raises `IncompatiblePeer`."""
    failures = 0
    if again:
        await sleep(pause_s(0, random.random()))  # noqa: S311 -- no secret
    while True:
        try:
            headers = await signed_headers(address, key)
            return await _connected(connect, address, headers)
        except HandshakeRefused as error:
            if error.status in _FINAL:
                raise
            problem = error.problem
        except ChannelClosed as error:
            problem = error.reason
        wait_s = pause_s(failures, random.random())  # noqa: S311 -- no secret
        failures += 1
        tell(f"{problem}; trying again in {wait_s:.1f} s")
        await sleep(wait_s)


async def _connected(connect: Connect, address: HostAddress, headers: list[tuple[str, str]]) -> Transport:
    """A handshake that broke off, or took too long, is a line that broke."""
    try:
        return await connect(address.socket_url(CHANNEL_PATH), headers)
    except HandshakeRefused:
        raise
    except IncompatiblePeer as error:
        raise ChannelClosed(error.problem) from error
