"""How things that people save change: one record `policy.changed`, on disk before anybody goes by it.

Whether a change may be made is for whoever keeps the kind of thing; here it becomes durable, and only then true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, SettingsError, StorageFull
from bollard.host.log.entries import Committed, Entry, Outcome
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import KeptChange, PolicyKind, PolicyRow

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["SavedChange", "SavedChanges", "check_revision", "unreadable"]


class SavedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing as it will be; without a body it is deleted."""

    kind: PolicyKind
    workspace: str
    thing: str
    revision: int
    by: str
    """Who did it: the name of the caller."""
    body: JsonObject | None = None

    def data(self) -> JsonObject:
        """What the record says."""
        said: JsonObject = {
            "kind": self.kind,
            "id": self.thing,
            "action": "deleted",
            "revision": self.revision,
            "by": self.by,
        }
        return said if self.body is None else {**said, "action": "saved", "body": self.body}


class SavedChanges:
    """Writes changes. Whoever makes them sees to it that they come one after the other."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    async def write(
        self,
        change: SavedChange,
        settled: Callable[[], None],
        *,
        keeps: Sequence[KeptChange] = (),
        beside: Sequence[tuple[str, JsonObject]] = (),
    ) -> None:
        """On disk first, then in the book (`settled`), then the answer. A caller who goes away changes nothing, and
        what comes next finds the change made.

        `keeps` and `beside`, further records of the workspace as type and data, are part of the same commit.
        """
        if self._journal.full:
            raise StorageFull("the disk is full, so nothing new is taken", hint="free space in the data directory")

        def told(outcome: Outcome | HostError) -> None:
            if isinstance(outcome, Committed):
                settled()

        now_ms = self._clock.now_ms()
        bodies = [("policy.changed", change.data()), *beside]
        records = [
            NewRecord(workspace=change.workspace, type=kind, data=encode_data(data), created_ms=now_ms)
            for kind, data in bodies
        ]
        entry = Entry(records=records, keeps=list(keeps), size=sum(len(record.data) for record in records))
        await self._journal.commit_through(entry, told)


def check_revision(kind: PolicyKind, thing: str, now: int, edited: int | None) -> None:
    """Refuse a change that somebody made of an older version; `None` when any version will do."""
    if edited is not None and edited != now:
        raise Conflict(
            f"{kind} {thing} is at revision {now}, but revision {edited} was edited",
            hint=f"read the {kind} again and repeat the change",
            revision=now,
        )


def unreadable(kind: PolicyKind, row: PolicyRow, error: HostError) -> SettingsError:
    """What stops a start: without this thing others would get more than they should."""
    return SettingsError(
        f"the saved {kind} {row.id} cannot be read: {error.message}",
        hint="start the version of Bollard that saved it, and correct or delete it there",
    )
