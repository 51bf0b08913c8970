"""Single-use tickets: a short-lived stand-in for a token where only a URL can be given, such as a browser's WebSocket.

In memory: a ticket lives for seconds, and a host that starts again has forgotten the reader too.
"""

import hashlib
import secrets
from collections import Counter, OrderedDict
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.identity.caller import Caller
from bollard.host.limits import TICKET_S, TICKETS, TICKETS_OF_CALLER

_START: Final = "tkt_"


class _Ticket(msgspec.Struct, frozen=True):
    caller: Caller
    path: str
    until: float


class TicketRegistry:
    """The tickets that may still be used. Bounded: when it is full, none is issued."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: OrderedDict[bytes, _Ticket] = OrderedDict()
        self._waiting: Counter[tuple[str, str]] = Counter()

    def issue(self, caller: Caller, path: str) -> str:
        """A ticket for this path, once, in the name of this caller."""
        self._forget_old()
        whose = _name(caller)
        if len(self._tickets) >= TICKETS or self._waiting[whose] >= TICKETS_OF_CALLER:
            raise Overloaded("too many tickets wait to be used", hint="try again in a moment", limit=TICKETS)
        ticket = _START + secrets.token_urlsafe(32)
        self._waiting[whose] += 1
        self._tickets[_digest(ticket)] = _Ticket(caller, path, self._clock.monotonic() + TICKET_S)
        return ticket

    def redeem(self, ticket: str, path: str) -> Caller | None:
        """Who it was issued to, and it is used up; nobody where it is not for this path, used, or too old."""
        found = self._tickets.pop(_digest(ticket), None)
        if found is not None:
            self._used(found)
        if found is None or found.path != path or found.until <= self._clock.monotonic():
            return None
        return found.caller

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._tickets and next(iter(self._tickets.values())).until <= now:  # all live equally long
            self._used(self._tickets.popitem(last=False)[1])

    def _used(self, ticket: _Ticket) -> None:
        whose = _name(ticket.caller)
        self._waiting[whose] -= 1
        if not self._waiting[whose]:
            del self._waiting[whose]


def _name(caller: Caller) -> tuple[str, str]:
    return caller.workspace, caller.name


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()
