"""An identity directory over a real journal, with cheap password hashes."""

from collections.abc import Callable
from typing import Any

import pytest
from argon2 import PasswordHasher
from tests.doubles.manual_clock import ManualClock

from bollard.host.identity.caller import installation
from bollard.host.identity.directory import IdentityDirectory, open_identity
from bollard.host.identity.passwords import Passwords
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store

PASSWORD = "correct horse battery"


def cheap() -> Passwords:
    return Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


class Office:
    """One host's identity, which can be started again over the same store."""

    def __init__(self, store: Store, open_journal: Callable[..., Journal], clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self._open_journal = open_journal
        self._starts = 0

    async def start(self) -> "Office":
        self._starts += 1
        self.journal = self._open_journal(self.store, f"i{self._starts}")
        self.book: IdentityDirectory = open_identity(journal=self.journal, clock=self.clock, passwords=cheap())
        await self.book.load(self.store)
        return self

    async def again(self) -> "Office":
        """The host stops and starts."""
        await self.journal.close()
        return await self.start()

    async def user(self, user_id: str = "ann", role: str = "member", workspace: str = "default", **more: Any) -> None:
        more = {"password": PASSWORD, **more}
        password = more.pop("password")
        body = {"user_id": user_id, "role": role, **more}
        await self.book.save_user(body, installation(workspace), password=password)

    async def login(self, user_id: str = "ann", password: str = PASSWORD, workspace: str = "default") -> str:
        return (await self.book.sessions.begin(workspace, user_id, password, "127.0.0.1")).token

    def caller(self, token: str) -> Any:
        return self.book.find(token, self.clock.now_ms())

    def records(self, kind: str) -> list[Any]:
        return [row for row in self.store.records(0, 10_000) if row.type == kind]


@pytest.fixture
async def office(store: Store, open_journal: Any, clock: ManualClock) -> Office:
    return await Office(store, open_journal, clock).start()


@pytest.fixture
def office_on(open_journal: Any, clock: ManualClock) -> Any:
    """Opens one over a store of the test's own."""
    return lambda store: Office(store, open_journal, clock).start()


@pytest.fixture
async def memory_office(memory_store: Store, open_journal: Any, clock: ManualClock) -> Office:
    return await Office(memory_store, open_journal, clock).start()
