"""What all connections of a server share: how many there may be, and how long each is waited for.

A connection is in one of these waits or in none: one that streams to a reader who keeps up costs nothing here. There is
one sweep for all of them, no timer and no task for each.
"""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Generic, Protocol, TypeVar

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from bollard.host import limits
from bollard.host.errors import HostError
from bollard.host.exposure import client_network, is_loopback
from bollard.host.http.edge.proxies import TrustedProxies
from bollard.host.http.edge.refusals import fixed_headers
from bollard.host.http.errors import TooManyConnections
from bollard.host.runs.hub import ReaderMemory

# What is waited for, and until when. All waits of one kind are equally long, so they end in the order in which they
# began: looking for those that are over costs nothing for the others. Pure; the caller brings monotonic time.


Who = TypeVar("Who", bound=Hashable)


class Deadlines(Generic[Who]):
    """Who is waited for, `seconds` each."""

    __slots__ = ("_until", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[Who, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, who: Who) -> bool:
        return who in self._until

    def begin(self, who: Who, now: float) -> None:
        """From now on; who is waited for already goes on waiting for as long as before."""
        if who not in self._until:
            self._until[who] = now + self.seconds

    def end(self, who: Who) -> None:
        """It came, or is not waited for."""
        self._until.pop(who, None)

    def oldest(self) -> Who | None:
        """Who is waited for longest."""
        return next(iter(self._until), None)

    def over(self, now: float) -> list[Who]:
        """Those that were waited for long enough; they are not waited for any more."""
        found: list[Who] = []
        for who, until in self._until.items():
            if until > now:
                break
            found.append(who)
        for who in found:
            del self._until[who]
        return found


_log = structlog.get_logger("bollard.host.http")
_TOLD_S: Final = 10.0
"""Time between two lines in the log about connections that were cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """How long a client is waited for."""

    head_s: float = limits.REQUEST_HEAD_S
    body_window_s: float = limits.BODY_WINDOW_S
    idle_s: float = limits.CONNECTION_IDLE_S
    drain_s: float = limits.DRAIN_S
    linger_s: float = limits.LINGER_S


class Connection(Protocol):
    """What the door does with a connection."""

    @property
    def address(self) -> str | None: ...

    def head_is_late(self) -> None:
        """The head of a request did not come in time."""
        ...

    def body_is_due(self) -> None:
        """Time to look at how much of a body came."""
        ...

    def close(self) -> None:
        """End it in order."""
        ...

    def cut(self) -> None:
        """End it at once."""
        ...


class ConnectionTable:
    """The book of connections. Used on the loop's thread only."""

    def __init__(
        self,
        app: ASGIApp,
        config: uvicorn.Config,
        state: ServerState,
        *,
        connections: int = limits.CONNECTIONS,
        per_address: int = limits.CONNECTIONS_PER_ADDRESS,
        proxies: TrustedProxies | None = None,
        patience: ConnectionTimeouts | None = None,
        tls: bool = False,
        memory: ReaderMemory | None = None,
    ) -> None:
        self.app = app
        self.config = config
        self.state = state
        self.loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = self.loop.time
        patience = patience or ConnectionTimeouts()
        self.heads: Deadlines[Connection] = Deadlines(patience.head_s)
        self.bodies: Deadlines[Connection] = Deadlines(patience.body_window_s)
        self.idle: Deadlines[Connection] = Deadlines(patience.idle_s)
        self.readers: Deadlines[Connection] = Deadlines(patience.drain_s)
        self.leaving: Deadlines[Connection] = Deadlines(patience.linger_s)
        self.body_least = round(patience.body_window_s * limits.BODY_BYTES_PER_S)
        """Bytes that a body must bring between two looks."""
        self.open = 0
        self.cut_readers = 0
        self._fixed = fixed_headers(tls=tls)
        self.headers = b""
        """What every answer carries, with the date; made anew once a second."""
        self.tick(0.0)
        self._most = connections
        self._per_address = per_address
        self._proxies = proxies or TrustedProxies(())
        self._by_address: dict[str, int] = {}
        self._told_at = -_TOLD_S
        self._memory = memory or ReaderMemory()
        self._memory.overflow = self._make_memory
        self._held: dict[Connection, int] = {}
        """Bytes that wait in connections whose readers are behind."""
        self._relieving = False

    def enter(self, connection: Connection) -> HostError | None:
        """Another connection; what to tell it when there is no place. Every `enter` is followed by one `leave`."""
        self.open += 1
        address = connection.address
        client = client_network(address or "")
        count = self._by_address.get(client, 0) + 1
        self._by_address[client] = count
        if count > self._per_address and address is not None and not self._is_free(address):
            return TooManyConnections(
                f"{self._per_address} connections from one address",
                hint="close some, or raise the setting connections_per_address",
                limit=self._per_address,
            )
        if self.open > self._most and not self._make_room():
            return TooManyConnections(
                f"{self._most} connections are open", hint="try again in a moment", limit=self._most
            )
        return None

    def leave(self, connection: Connection) -> None:
        """It has ended."""
        self.open -= 1
        client = client_network(connection.address or "")
        left = self._by_address[client] - 1
        if left:
            self._by_address[client] = left
        else:
            del self._by_address[client]
        self.forget(connection)

    def forget(self, connection: Connection) -> None:
        """Nothing of it is waited for."""
        for waits in (self.heads, self.bodies, self.idle, self.leaving):
            waits.end(connection)
        self.caught_up(connection)

    def fell_behind(self, connection: Connection, unsent: int) -> None:
        """So many bytes wait until its reader takes them."""
        if connection not in self._held:
            self._held[connection] = unsent
            self.readers.begin(connection, self.now())
            self._memory.add(unsent)

    def caught_up(self, connection: Connection) -> None:
        """Its reader has taken them, or never will."""
        self.readers.end(connection)
        self._memory.free(self._held.pop(connection, 0))

    def _make_memory(self) -> None:
        """Readers hold too much: cut the one that has taken nothing for longest. One in each turn of the loop, because
        what waits for it elsewhere is freed only then."""
        if not self._relieving and len(self.readers):
            self._relieving = True
            self.loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        self._relieving = False
        if not self._memory.is_full or (oldest := self.readers.oldest()) is None:
            return
        self._cut_reader(oldest, "readers hold too much, and one that took nothing was cut")
        self._make_memory()

    def _cut_reader(self, connection: Connection, why: str) -> None:
        self.caught_up(connection)
        self.cut_readers += 1
        connection.cut()
        if self.now() - self._told_at >= _TOLD_S:
            self._told_at = self.now()
            _log.info(why, address=connection.address, cut=self.cut_readers)

    def _is_free(self, address: str) -> bool:
        return is_loopback(address) or address in self._proxies

    def _make_room(self) -> bool:
        """The connection that has asked for nothing for longest goes: a client that asks for something never waits for
        those that do not."""
        for waits in (self.idle, self.leaving, self.heads):
            oldest = waits.oldest()
            if oldest is not None:
                waits.end(oldest)
                oldest.cut()
                return True
        return False

    def sweep(self) -> None:
        """Those that were waited for long enough."""
        now = self.now()
        for connection in self.heads.over(now):
            connection.head_is_late()
        for connection in self.bodies.over(now):
            connection.body_is_due()
        for connection in self.idle.over(now):
            connection.close()
        for connection in self.leaving.over(now):
            connection.cut()
        for connection in self.readers.over(now):
            self._cut_reader(connection, "a reader that took nothing was cut")

    def tick(self, wall_s: float) -> None:
        """Once a second: the date that answers carry."""
        self.headers = b"date: " + formatdate(wall_s or None, usegmt=True).encode() + b"\r\n" + self._fixed
