"""When each key was last used: kept beside the log, written at most once a minute for each key."""

import asyncio
from typing import Final

import structlog

from bollard.host.errors import HostError
from bollard.host.limits import KEY_USE_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.boundary import Store
from bollard.host.store.rows import KeptRow, PutKept

__all__ = ["KEY_USE", "KeyUses"]

_log = structlog.get_logger("bollard.host.identity")
KEY_USE: Final = "key_use"


class KeyUses:
    """One per host."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last: dict[tuple[str, str], int] = {}

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, KEY_USE):
            self._last[row.workspace, row.id] = row.updated_ms

    def last(self, workspace: str, key_id: str) -> int | None:
        """In milliseconds; up to a minute late."""
        return self._last.get((workspace, key_id))

    def forget(self, workspace: str, key_id: str) -> None:
        """The key is gone."""
        self._last.pop((workspace, key_id), None)

    def note(self, workspace: str, key_id: str, now_ms: int) -> None:
        """Called for every request with a key: most of them cost one look."""
        before = self._last.get((workspace, key_id))
        if before is not None and 0 <= now_ms - before < KEY_USE_S * 1000:
            return
        self._last[workspace, key_id] = now_ms
        row = KeptRow(kind=KEY_USE, workspace=workspace, id=key_id, body=b"", expires_ms=None, updated_ms=now_ms)
        try:
            self._journal.append(Entry(keeps=[PutKept(row)], urgent=False))
        except HostError as error:
            _log.warning("the use of a key could not be noted", key=key_id, problem=error.message)
