"""Sign-in tickets: links that open the console once, for the holder of a token. Kept in memory, as digests: a ticket is
valid for minutes, and a new start prints another."""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded, Unauthenticated
from bollard.host.identity.login_attempts import LoginAttempts
from bollard.host.identity.sessions import NewSession, SessionOwner, Sessions, digest_of
from bollard.host.limits import SIGN_IN_TICKET_S, SIGN_IN_TICKETS, SIGN_IN_TICKETS_OF_OWNER

_START: Final = "blt_"


class _Ticket(msgspec.Struct, frozen=True):
    owner: SessionOwner
    credential: str | None
    until: float


class SignInTickets:
    """The tickets that are not used yet."""

    def __init__(self, sessions: Sessions, attempts: LoginAttempts, clock: Clock) -> None:
        self._sessions = sessions
        self._attempts = attempts
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    def issue(self, owner: SessionOwner, credential: str | None = None) -> str:
        """Issue a ticket for a session of this owner. It is valid while the credential is, the digest of the token
        that asked for it. A further ticket of an owner with many replaces the oldest."""
        self._drop(lambda ticket: ticket.until <= self._clock.monotonic())
        of_owner = [digest for digest, ticket in self._tickets.items() if ticket.owner == owner]
        for digest in of_owner[: max(0, len(of_owner) - SIGN_IN_TICKETS_OF_OWNER + 1)]:
            del self._tickets[digest]
        if len(self._tickets) >= SIGN_IN_TICKETS:
            raise Overloaded(
                "too many tickets are waiting to be used",
                reason="tickets",
                hint="retry in a moment",
                limit=SIGN_IN_TICKETS,
            )
        ticket = _START + secrets.token_urlsafe(32)
        self._tickets[digest_of(ticket)] = _Ticket(owner, credential, self._clock.monotonic() + SIGN_IN_TICKET_S)
        return ticket

    async def redeem(self, ticket: str, address: str) -> NewSession:
        """Use up a ticket and begin its session. Raises `Unauthenticated`, the same for every cause, or `Overloaded`
        after too many attempts."""
        self._attempts.throttle_address(address)
        found = self._tickets.pop(digest_of(ticket), None)
        if found is not None and found.until > self._clock.monotonic():
            begun = await self._sessions.begin_for(found.owner, found.credential, address)
            if begun is not None:
                return begun
        self._attempts.record_failed_ticket(address)
        raise Unauthenticated(
            "the ticket is not valid",
            reason="sign_in_ticket",
            hint="a ticket works once, for ten minutes: `bollard console` prints another",
        )

    def _drop(self, goes: Callable[[_Ticket], bool]) -> None:
        for digest in [digest for digest, ticket in self._tickets.items() if goes(ticket)]:
            del self._tickets[digest]
