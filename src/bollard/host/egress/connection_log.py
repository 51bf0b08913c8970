"""Counts connections of workers to the outside. Equal ones within ten seconds share a sum, so that a flood of them
leaves few records. No connection waits for its record (class B).
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from bollard.host.limits import WORKER_PROXY_REPEAT_S, WORKER_PROXY_TALLIES
from bollard.host.telemetry.counts import ProxyCounts

_OTHER: Final = "other"
"""The name in the record of further names."""
_NAME_CHARACTERS: Final = 255
SERVER: Final = "mcp:"
"""Begins the name of an MCP server."""
Outcome = Literal[
    "closed", "cut", "idle", "too_long", "too_large", "refused", "address", "unreachable", "too_many", "invalid"
]
"""How a connection ended, or why there was none: `refused` by the consent, `address` by the rules for addresses,
`invalid` for a request that is no request."""


class ProxyClient(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of one plugin, or one MCP server, in one workspace."""

    workspace: str
    plugin: str
    """`author/name` of a plugin, or `mcp:NAME`, which no plugin can be named."""

    @property
    def is_server(self) -> bool:
        return self.plugin.startswith(SERVER)


class _Key(msgspec.Struct, frozen=True):
    """Connections that share a record."""

    client: ProxyClient
    host: str
    port: int
    outcome: Outcome


class _Tally(msgspec.Struct):
    count: int = 0
    sent: int = 0
    received: int = 0


class ConnectionSum(msgspec.Struct, frozen=True, kw_only=True):
    """Equal connections of one client."""

    client: ProxyClient
    host: str
    port: int
    outcome: Outcome
    count: int
    sent: int
    """Bytes of the worker to the destination."""
    received: int


class ConnectionLog:
    """Passes the first connection on at once, and the sum of equal ones later. One per proxy."""

    def __init__(self, write: Callable[[ConnectionSum], None], counts: ProxyCounts) -> None:
        self._note = write
        self.counts = counts
        self._tallies: dict[_Key, _Tally] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(
        self, client: ProxyClient, host: str, port: int, outcome: Outcome, *, sent: int = 0, received: int = 0
    ) -> None:
        """Count a connection that ended, or that was refused. `sent` and `received` are bytes of the worker."""
        self.counts.ended[outcome] += 1
        self.counts.bytes["sent"] += sent
        self.counts.bytes["received"] += received
        key = _Key(client, host[:_NAME_CHARACTERS], port, outcome)
        if key not in self._tallies and self._names(client) >= WORKER_PROXY_TALLIES:
            key = _Key(client, _OTHER, 0, outcome)  # a worker can invent any number of names
        tally = self._tallies.get(key)
        if tally is None:
            self._write(key, _Tally(1, sent, received))
            self._tallies[key] = _Tally()
            self._start_timer()
            return
        tally.count += 1
        tally.sent += sent
        tally.received += received

    def flush(self) -> None:
        """Write all sums. Call it before the host stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tallies, self._tallies = self._tallies, {}
        for key, tally in tallies.items():
            if tally.count:
                self._write(key, tally)

    def _names(self, client: ProxyClient) -> int:
        return sum(key.client == client for key in self._tallies)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WORKER_PROXY_REPEAT_S, self.flush)

    def _write(self, key: _Key, tally: _Tally) -> None:
        self._note(
            ConnectionSum(
                client=key.client,
                host=key.host,
                port=key.port,
                outcome=key.outcome,
                count=tally.count,
                sent=tally.sent,
                received=tally.received,
            )
        )
