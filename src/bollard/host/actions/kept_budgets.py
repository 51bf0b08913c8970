"""What was spent today, kept beside the log so that a restart gives nobody a new day.

Written about once a second where something changed: a crash forgets at most what was spent in that second.
"""

import asyncio
from typing import Final

import msgspec

from bollard.host.actions.budgets import DAY_MS, Amount, Budgets
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.boundary import Store
from bollard.host.store.rows import KeptChange, KeptRow, PutKept

__all__ = ["KeptBudgets"]

_KIND: Final = "budget"
_AT_ONCE: Final = 500
"""Accounts in one entry of the journal."""
_ROW_BYTES: Final = 256
"""About what one of them takes."""


class KeptBudgets:
    """One per host."""

    def __init__(self, budgets: Budgets, journal: Journal, clock: Clock) -> None:
        self._budgets = budgets
        self._journal = journal
        self._clock = clock

    async def load(self, store: Store) -> None:
        """What earlier processes spent, of the days that count."""
        for row in await asyncio.to_thread(store.all_kept, _KIND, None, self._clock.now_ms()):
            key = msgspec.json.decode(row.id, type=tuple[str, ...])
            self._budgets.restore(key, msgspec.json.decode(row.body, type=Amount))

    def save(self) -> None:
        """What changed since. Nobody waits for it; where the journal takes nothing now, it is tried again."""
        changed = self._budgets.changed(_AT_ONCE)
        if not changed:
            return
        keeps: list[KeptChange] = [PutKept(self._row(key, amount)) for key, amount in changed.items()]
        try:
            self._journal.append(Entry(keeps=keeps, size=len(keeps) * _ROW_BYTES, urgent=False))
        except HostError:
            self._budgets.unsaved(changed)

    def _row(self, key: tuple[str, ...], amount: Amount) -> KeptRow:
        now_ms = self._clock.now_ms()
        return KeptRow(
            kind=_KIND,
            workspace=key[2],
            id=msgspec.json.encode(key).decode(),
            body=msgspec.json.encode(amount),
            expires_ms=(now_ms // DAY_MS + 2) * DAY_MS,
            updated_ms=now_ms,
        )
