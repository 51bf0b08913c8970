"""Login attempts: their limits, and the records of those that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import HostError, Overloaded
from bollard.host.exposure import client_network
from bollard.host.identity.users import Users
from bollard.host.limits import LOGINS_OF_ADDRESS_PER_MINUTE, LOGINS_OF_USER_PER_MINUTE, LOGINS_PER_MINUTE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.protocol import JsonObject

Fingerprint = Callable[[str, str], Awaitable[str]]
"""A keyed hash of a value of a workspace."""
_FALLBACK_WORKSPACE: Final = "default"
"""Where failed logins to unknown workspaces are recorded."""


class LoginAttempts:
    """Counts and records login attempts."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        users: Users,
        is_open: Callable[[str], bool],
        fingerprint: Fingerprint | None = None,
    ) -> None:
        """`fingerprint` hashes unknown user names for the log."""
        self._journal = journal
        self._clock = clock
        self._users = users
        self._is_open = is_open
        self._fingerprint = fingerprint
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_user_and_address: Rates[tuple[str, str, str]] = Rates(LOGINS_PER_MINUTE, LOGINS_PER_MINUTE)
        self._by_address: Rates[str] = Rates(LOGINS_OF_ADDRESS_PER_MINUTE, LOGINS_OF_ADDRESS_PER_MINUTE)
        self._by_user: Rates[tuple[str, str]] = Rates(LOGINS_OF_USER_PER_MINUTE, LOGINS_OF_USER_PER_MINUTE)

    def throttle(self, workspace: str, user_id: str, address: str) -> None:
        """Count one attempt with a password; raises `Overloaded` after too many."""
        now, client = self._clock.monotonic(), client_network(address)
        # Attempts above the limit of one address do not count for the user, who must be able to log in from elsewhere.
        wait_s = self._by_user_and_address.take((workspace, user_id, client), now)
        wait_s = self._by_address.take(client, now) if wait_s is None else wait_s
        wait_s = self._by_user.take((workspace, user_id), now) if wait_s is None else wait_s
        _refuse(wait_s)

    def throttle_address(self, address: str) -> None:
        """Count one attempt with a ticket, which names no user; raises `Overloaded` after too many."""
        _refuse(self._by_address.take(client_network(address), self._clock.monotonic()))

    def record_failure(self, workspace: str, user_id: str, address: str) -> None:
        """Record a failed login without waiting: the response time must not reveal whether the user exists. An unknown
        name is recorded as a fingerprint, because people type passwords into the wrong field."""
        known = workspace if self._is_open(workspace) else _FALLBACK_WORKSPACE
        if self._users.find(known, user_id) is not None:
            self._write(known, {"user_id": user_id, "address": address})
        elif self._fingerprint is None:
            self._write(known, {"user_id": None, "address": address})
        else:
            task = asyncio.create_task(self._record_unknown_user(self._fingerprint, known, user_id, address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def record_failed_ticket(self, address: str) -> None:
        """Record a ticket that opened nothing."""
        self._write(_FALLBACK_WORKSPACE, {"user_id": None, "address": address, "with": "ticket"})

    async def _record_unknown_user(self, fingerprint: Fingerprint, workspace: str, name: str, address: str) -> None:
        data: JsonObject = {"user_id": None, "address": address}
        with suppress(HostError):  # the key is unavailable
            data["name_fingerprint"] = await fingerprint(workspace, name)
        self._write(workspace, data)

    def _write(self, workspace: str, data: JsonObject) -> None:
        body = encode_data(data)
        record = NewRecord(workspace=workspace, type="login.failed", data=body, created_ms=self._clock.now_ms())
        with suppress(HostError):  # the journal is overloaded; the login fails anyway
            self._journal.append(Entry(records=[record], size=len(body), urgent=False))


def _refuse(wait_s: float | None) -> None:
    if wait_s is not None:
        raise Overloaded(
            "there were too many tries to log in",
            reason="login_attempts",
            hint="wait, then try again",
            retry_after_s=round(wait_s, 3),
        )
