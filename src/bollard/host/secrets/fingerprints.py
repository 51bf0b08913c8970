"""Fingerprints of values that must not be stored: HMAC-SHA256 under a key of the workspace.

Two fingerprints are equal where the values are, and the value cannot be had from them. Without the key, which is kept
sealed beside the log, they say nothing any more.
"""

import asyncio
import hmac
import os
from hashlib import sha256
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.secrets.sealing import Sealer, Unsealable
from bollard.host.store.boundary import Store
from bollard.host.store.rows import DropKept, KeptRow, PutKept

__all__ = ["Fingerprints", "fingerprint"]

_KIND: Final = "fingerprint_key"
_ID: Final = "1"
_KEY_BYTES: Final = 32


def fingerprint(key: bytes, value: str) -> str:
    """Pure."""
    return f"hmac-sha256:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), sha256).hexdigest()}"


class Fingerprints:
    """One per host. The key of a workspace is made when it is first needed."""

    def __init__(self, journal: Journal, sealer: Sealer, clock: Clock) -> None:
        self._journal = journal
        self._sealer = sealer
        self._clock = clock
        self._keys: dict[str, bytes | None] = {}
        """`None` where there is one that cannot be read."""
        self._making = asyncio.Lock()

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, _KIND):
            try:
                self._keys[row.workspace] = self._sealer.open(_place(row.workspace), row.body)
            except Unsealable:
                self._keys[row.workspace] = None

    async def of(self, workspace: str, value: str) -> str:
        """Raises `Conflict` where the key cannot be read."""
        async with self._making:
            if workspace not in self._keys:
                await self._make(workspace)
            key = self._keys[workspace]
        if key is None:
            raise Conflict(
                "the key of the fingerprints cannot be read", hint="bring back keys/secrets.key from a backup with keys"
            )
        return fingerprint(key, value)

    async def forget(self, workspace: str) -> None:
        """From now on nobody can say of any fingerprint what it is of."""
        async with self._making:
            await self._journal.commit_through(Entry(keeps=[DropKept(_KIND, workspace, _ID)]))
            self._keys.pop(workspace, None)

    async def _make(self, workspace: str) -> None:
        key = os.urandom(_KEY_BYTES)
        row = KeptRow(
            kind=_KIND,
            workspace=workspace,
            id=_ID,
            body=self._sealer.seal(_place(workspace), key),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )
        await self._journal.commit_through(Entry(keeps=[PutKept(row)]))
        self._keys[workspace] = key


def _place(workspace: str) -> str:
    return f"{_KIND}/{workspace}"
