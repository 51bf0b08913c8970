"""Renewable tickets: a URL that a browser's `EventSource` opens again and again, because it reconnects by itself with
the same URL. Kept in memory, as digests."""

import hashlib
import secrets
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.identity.caller import Caller
from bollard.host.limits import (
    RENEWABLE_TICKET_IDLE_S,
    RENEWABLE_TICKET_S,
    RENEWABLE_TICKETS,
    RENEWABLE_TICKETS_OF_CALLER,
)

RENEWABLE: Final = "tkr_"
"""How a renewable ticket begins."""


class _Ticket(msgspec.Struct):
    caller: Caller
    path: str
    ends: float
    idle_since: float
    open: int = 0

    def is_over(self, now: float) -> bool:
        return now >= self.ends or (not self.open and now - self.idle_since >= RENEWABLE_TICKET_IDLE_S)


class RenewableTickets:
    """The tickets that can be used. A ticket ends when its stream was closed for too long, and with its lifetime."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}

    def issue(self, caller: Caller, path: str) -> str:
        """Issue a ticket for this path. Raises `Overloaded` when the caller has too many."""
        now = self._clock.monotonic()
        self._tickets = {digest: each for digest, each in self._tickets.items() if not each.is_over(now)}
        name = (caller.workspace, caller.name)
        own = sum((each.caller.workspace, each.caller.name) == name for each in self._tickets.values())
        if len(self._tickets) >= RENEWABLE_TICKETS or own >= RENEWABLE_TICKETS_OF_CALLER:
            raise Overloaded(
                "too many renewable tickets are in use",
                reason="renewable_tickets",
                hint="close a stream, or share one ticket between the streams of a path",
                limit=RENEWABLE_TICKETS_OF_CALLER,
            )
        ticket = RENEWABLE + secrets.token_urlsafe(32)
        self._tickets[_digest(ticket)] = _Ticket(caller, path, now + RENEWABLE_TICKET_S, now)
        return ticket

    def enter(self, ticket: str, path: str) -> Caller | None:
        """Open a stream with a ticket and return its caller, or `None`. Each stream that is opened is closed with
        `leave`."""
        found = self._tickets.get(_digest(ticket))
        if found is None or found.path != path or found.is_over(self._clock.monotonic()):
            return None
        found.open += 1
        return found.caller

    def leave(self, ticket: str) -> None:
        """The stream was closed: the ticket can be used again for a while."""
        found = self._tickets.get(_digest(ticket))
        if found is not None:
            found.open -= 1
            found.idle_since = self._clock.monotonic()

    def drop(self, ticket: str) -> None:
        """The caller has lost access: the ticket is over."""
        self._tickets.pop(_digest(ticket), None)


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()
