"""One-time codes that enrol a runtime: shown once, good for minutes, kept as digests beside the log."""

import asyncio
import hashlib
import secrets
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.limits import RUNTIME_CODE_S, RUNTIME_CODES
from bollard.host.log.entries import Committed, Entry, Outcome
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.boundary import Store
from bollard.host.store.rows import DropKept, KeptRow, PutKept

__all__ = ["Invitation", "Invitations"]

KIND: Final = "runtime_code"
_CODE: Final = "blr_"
"""How a code begins, so that people and scanners know what it is."""


class _Body(msgspec.Struct, frozen=True):
    name: str
    plugin: str | None
    by: str


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What a code stands for."""

    digest: str
    workspace: str
    name: str
    plugin: str | None
    by: str
    expires_ms: int


class Invitations:
    """One per host. In memory as they are on disk."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._open: dict[str, Invitation] = {}

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, KIND, None, self._clock.now_ms()):
            body = msgspec.json.decode(row.body, type=_Body)
            self._open[row.id] = Invitation(
                digest=row.id,
                workspace=row.workspace,
                name=body.name,
                plugin=body.plugin,
                by=body.by,
                expires_ms=row.expires_ms or 0,
            )

    async def make(self, workspace: str, name: str, plugin: str | None, by: str) -> tuple[str, Invitation]:
        """A code for this name; one that was made before for it is good for nothing from here on."""
        now_ms = self._clock.now_ms()
        self._sweep(now_ms)
        code = _CODE + secrets.token_urlsafe(24)
        made = Invitation(
            digest=_digest(code),
            workspace=workspace,
            name=name,
            plugin=plugin,
            by=by,
            expires_ms=now_ms + round(RUNTIME_CODE_S * 1000),
        )
        here = [each for each in self._open.values() if each.workspace == workspace]
        before = [each for each in here if each.name == name]
        if len(here) - len(before) >= RUNTIME_CODES:
            raise Overloaded("too many codes wait to be used", hint="wait until some expire", limit=RUNTIME_CODES)

        def told(outcome: Outcome | object) -> None:
            if isinstance(outcome, Committed):
                for each in before:
                    self._open.pop(each.digest, None)
                self._open[made.digest] = made

        row = KeptRow(
            kind=KIND,
            workspace=workspace,
            id=made.digest,
            body=msgspec.json.encode(_Body(name, plugin, by)),
            expires_ms=made.expires_ms,
            updated_ms=now_ms,
        )
        data = encode_data({"runtime": name, "plugin": plugin, "expires_ms": made.expires_ms, "by": by})
        record = NewRecord(workspace=workspace, type="runtime.invited", data=data, created_ms=now_ms)
        keeps = [PutKept(row), *(self.ended(each) for each in before)]
        await self._journal.commit(Entry(records=[record], keeps=keeps, size=len(data)), told)
        return code, made

    def find(self, code: str) -> Invitation | None:
        """What an unused code stands for."""
        found = self._open.get(_digest(code))
        return found if found is not None and found.expires_ms > self._clock.now_ms() else None

    @staticmethod
    def ended(invitation: Invitation) -> DropKept:
        """What takes it from the disk."""
        return DropKept(KIND, invitation.workspace, invitation.digest)

    def forget(self, invitation: Invitation) -> None:
        """It was used."""
        self._open.pop(invitation.digest, None)

    def _sweep(self, now_ms: int) -> None:
        for each in [each for each in self._open.values() if each.expires_ms <= now_ms]:
            self._open.pop(each.digest, None)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
