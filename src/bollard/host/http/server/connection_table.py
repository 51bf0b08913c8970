"""The table of open connections, HTTP and WebSocket: their limits and their time-outs.

One sweep ends the connections whose time-out is over. There is no timer or task per connection, and a connection whose
reader keeps up has no entry.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Generic, Protocol, TypeVar

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from bollard.host import limits
from bollard.host.errors import HostError
from bollard.host.exposure import client_network, is_loopback
from bollard.host.http.answers import fixed_headers
from bollard.host.http.edge import TrustedProxies
from bollard.host.http.errors import TooManyConnections
from bollard.host.runs.hub import ReaderMemory

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """A deadline per key, each `seconds` after its start. All are equally long, so they expire in the order in which
    they began and `pop_expired` never looks at the others. The caller passes monotonic time."""

    __slots__ = ("_until", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, key: Key) -> bool:
        return key in self._until

    def begin(self, key: Key, now: float) -> None:
        """Start a deadline; one that runs already stays as it is."""
        if key not in self._until:
            self._until[key] = now + self.seconds

    def end(self, key: Key) -> None:
        """Cancel a deadline, if there is one."""
        self._until.pop(key, None)

    def oldest(self) -> Key | None:
        """The key whose deadline began first."""
        return next(iter(self._until), None)

    def pop_expired(self, now: float) -> list[Key]:
        """Remove and return the keys whose deadline has passed."""
        expired: list[Key] = []
        for key, until in self._until.items():
            if until > now:
                break
            expired.append(key)
        for key in expired:
            del self._until[key]
        return expired


_log = structlog.get_logger("bollard.host.http")
_LOG_INTERVAL_S: Final = 10.0
"""Time between two log lines about connections that were cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """How long the server waits for a client."""

    head_s: float = limits.REQUEST_HEAD_S
    body_window_s: float = limits.BODY_WINDOW_S
    idle_s: float = limits.CONNECTION_IDLE_S
    drain_s: float = limits.DRAIN_S
    linger_s: float = limits.LINGER_S


class Connection(Protocol):
    """What the table does with a connection."""

    @property
    def address(self) -> str | None: ...

    def head_is_late(self) -> None:
        """The head of a request is overdue."""
        ...

    def body_is_due(self) -> None:
        """Time to check how much of a body has arrived."""
        ...

    def close(self) -> None:
        """Close it after pending data is sent."""
        ...

    def cut(self) -> None:
        """Abort it; pending data is lost."""
        ...


class ConnectionTable:
    """The open connections of a server. Used on the loop's thread only."""

    def __init__(
        self,
        app: ASGIApp,
        config: uvicorn.Config,
        state: ServerState,
        *,
        connections: int = limits.CONNECTIONS,
        per_address: int = limits.CONNECTIONS_PER_ADDRESS,
        proxies: TrustedProxies | None = None,
        timeouts: ConnectionTimeouts | None = None,
        tls: bool = False,
        memory: ReaderMemory | None = None,
    ) -> None:
        self.app = app
        self.config = config
        self.state = state
        self.loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self.loop.time
        timeouts = timeouts or ConnectionTimeouts()
        self.heads: Deadlines[Connection] = Deadlines(timeouts.head_s)
        self.bodies: Deadlines[Connection] = Deadlines(timeouts.body_window_s)
        self.idle: Deadlines[Connection] = Deadlines(timeouts.idle_s)
        self.readers: Deadlines[Connection] = Deadlines(timeouts.drain_s)
        self.leaving: Deadlines[Connection] = Deadlines(timeouts.linger_s)
        self.body_least = round(timeouts.body_window_s * limits.BODY_BYTES_PER_S)
        """Bytes of a body that must arrive between two checks."""
        self.open = 0
        self.cut_readers = 0
        self._fixed = fixed_headers(tls=tls)
        self.headers = b""
        """Headers of every response, with the date; rebuilt once a second."""
        self.tick(0.0)
        self._most = connections
        self._per_address = per_address
        self._proxies = proxies or TrustedProxies(())
        self._by_address: dict[str, int] = {}
        self._logged_at = -_LOG_INTERVAL_S
        self._memory = memory or ReaderMemory()
        self._memory.overflow = self._free_memory
        self._unsent: dict[Connection, int] = {}
        """Unsent bytes of the connections whose readers are behind."""
        self._relieving = False

    def enter(self, connection: Connection) -> HostError | None:
        """Add a connection; returns the error to send when there is no room. Every `enter` is followed by one
        `leave`."""
        self.open += 1
        address = connection.address
        client = client_network(address or "")
        count = self._by_address.get(client, 0) + 1
        self._by_address[client] = count
        if count > self._per_address and address is not None and not self._is_exempt(address):
            return TooManyConnections(
                f"{self._per_address} connections are open from this address",
                reason="address_limit",
                hint="close some, or raise the setting connections_per_address",
                limit=self._per_address,
            )
        if self.open > self._most and not self._make_room():
            return TooManyConnections(
                f"{self._most} connections are open", reason="host_limit", hint="retry in a moment", limit=self._most
            )
        return None

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self.open -= 1
        client = client_network(connection.address or "")
        left = self._by_address[client] - 1
        if left:
            self._by_address[client] = left
        else:
            del self._by_address[client]
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        """Cancel all deadlines of a connection."""
        for deadlines in (self.heads, self.bodies, self.idle, self.leaving):
            deadlines.end(connection)
        self.caught_up(connection)

    def fell_behind(self, connection: Connection, unsent: int) -> None:
        """The reader has not taken `unsent` bytes yet."""
        if connection not in self._unsent:
            self._unsent[connection] = unsent
            self.readers.begin(connection, self.now())
            self._memory.add(unsent)

    def caught_up(self, connection: Connection) -> None:
        """The reader has taken the unsent bytes, or is gone."""
        self.readers.end(connection)
        self._memory.free(self._unsent.pop(connection, 0))

    def _free_memory(self) -> None:
        """Cut the reader that has taken nothing for longest. One per turn of the loop, because what other parts buffer
        for it is freed only then."""
        if not self._relieving and len(self.readers):
            self._relieving = True
            self.loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        self._relieving = False
        if not self._memory.is_full or (oldest := self.readers.oldest()) is None:
            return
        self._cut_reader(oldest, "cut a stalled reader: unsent data reached its limit")
        self._free_memory()

    def _cut_reader(self, connection: Connection, message: str) -> None:
        self.caught_up(connection)
        self.cut_readers += 1
        connection.cut()
        if self.now() - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = self.now()
            _log.info(message, address=connection.address, cut=self.cut_readers)

    def _is_exempt(self, address: str) -> bool:
        return is_loopback(address) or address in self._proxies

    def _make_room(self) -> bool:
        """Cut the connection that has been idle for longest, so that idle clients never keep out active ones."""
        for deadlines in (self.idle, self.leaving, self.heads):
            oldest = deadlines.oldest()
            if oldest is not None:
                deadlines.end(oldest)
                oldest.cut()
                return True
        return False

    def sweep(self) -> None:
        """End the connections whose time-outs are over."""
        now = self.now()
        for connection in self.heads.pop_expired(now):
            connection.head_is_late()
        for connection in self.bodies.pop_expired(now):
            connection.body_is_due()
        for connection in self.idle.pop_expired(now):
            connection.close()
        for connection in self.leaving.pop_expired(now):
            connection.cut()
        for connection in self.readers.pop_expired(now):
            self._cut_reader(connection, "cut a stalled reader")

    def tick(self, wall_s: float) -> None:
        """Called once a second: update the date header."""
        self.headers = b"date: " + formatdate(wall_s or None, usegmt=True).encode() + b"\r\n" + self._fixed


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn that replaces its HTTP connection in the table, which counts it and cuts it when its
    reader stalls."""

    def __init__(self, table: ConnectionTable, address: str | None) -> None:
        super().__init__(config=table.config, server_state=table.state, app_state={}, _loop=table.loop)
        self._table = table
        self.address = address
        self.close_timeout = limits.SOCKET_CLOSE_S

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._table.leave(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._table.fell_behind(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._table.caught_up(self)

    def head_is_late(self) -> None:
        """Not used: the head has arrived."""

    def body_is_due(self) -> None:
        """Not used: there is no body."""

    def close(self) -> None:
        self.transport.close()

    def cut(self) -> None:
        self.transport.abort()
