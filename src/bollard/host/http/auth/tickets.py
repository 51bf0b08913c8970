"""Single-use tickets: short-lived replacements for a token where a client can only send a URL, such as a browser's
WebSocket. Kept in memory: a ticket is valid for seconds.
"""

import hashlib
import secrets
from collections import Counter, OrderedDict
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.http.auth.renewable_tickets import RenewableTickets
from bollard.host.identity.caller import Caller
from bollard.host.limits import TICKET_S, TICKETS, TICKETS_OF_CALLER

_START: Final = "tkt_"


class _Ticket(msgspec.Struct, frozen=True):
    caller: Caller
    path: str
    until: float


class TicketRegistry:
    """The tickets that are not used yet. When it is full, no ticket is issued."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.renewable = RenewableTickets(clock)
        self._tickets: OrderedDict[bytes, _Ticket] = OrderedDict()
        self._waiting: Counter[tuple[str, str]] = Counter()

    def issue(self, caller: Caller, path: str) -> str:
        """Issue a ticket for one use of this path by this caller."""
        self._drop_expired()
        owner = _name(caller)
        if len(self._tickets) >= TICKETS or self._waiting[owner] >= TICKETS_OF_CALLER:
            raise Overloaded(
                "too many tickets are waiting to be used", reason="tickets", hint="retry in a moment", limit=TICKETS
            )
        ticket = _START + secrets.token_urlsafe(32)
        self._waiting[owner] += 1
        self._tickets[_digest(ticket)] = _Ticket(caller, path, self._clock.monotonic() + TICKET_S)
        return ticket

    def redeem(self, ticket: str, path: str) -> Caller | None:
        """Use up a ticket and return its caller; `None` if it is for another path, used or expired."""
        entry = self._tickets.pop(_digest(ticket), None)
        if entry is not None:
            self._release(entry)
        if entry is None or entry.path != path or entry.until <= self._clock.monotonic():
            return None
        return entry.caller

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        while self._tickets and next(iter(self._tickets.values())).until <= now:  # all have the same lifetime
            self._release(self._tickets.popitem(last=False)[1])

    def _release(self, ticket: _Ticket) -> None:
        owner = _name(ticket.caller)
        self._waiting[owner] -= 1
        if not self._waiting[owner]:
            del self._waiting[owner]


def _name(caller: Caller) -> tuple[str, str]:
    return caller.workspace, caller.name


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()
