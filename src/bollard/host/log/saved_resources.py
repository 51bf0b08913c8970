"""The saved things of one kind, of every workspace: in memory as they are on disk. Loaded at start, changed after the
commit, so that a reader never sees what a crash could take back.

What a thing is, and whether a change of it may be made, is for whoever has the shelf.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, SettingsError, StorageFull
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import KeptChange, PolicyKind, PolicyRow
from bollard.host.store.store import Store

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


# How things that people save change: one record `policy.changed`, on disk before anybody goes by it.
#
# Whether a change may be made is for whoever keeps the kind of thing; here it becomes durable, and only then true.


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

        def told(outcome: CommitResult | HostError) -> None:
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


T = TypeVar("T")
Keeps = Sequence[KeptChange] | Callable[[], Sequence[KeptChange]]
"""What is kept with a change; as a function it is asked when no other change is under way."""
_decode: Final = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Generic[T]):
    """A thing, and how often it was saved."""

    workspace: str
    id: str
    revision: int
    thing: T


def _nothing(before: Saved[T] | None, after: Saved[T] | None) -> None:
    del before, after


def _kept(keeps: Keeps) -> Sequence[KeptChange]:
    return keeps() if callable(keeps) else keeps


def _done() -> None:
    """Nobody else hears of it."""


class JointChange(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with a thing that is deleted, in the same commit."""

    records: Sequence[tuple[str, JsonObject]] = ()
    keeps: Sequence[KeptChange] = ()
    settled: Sequence[Callable[[], None]] = ()

    def __add__(self, other: JointChange) -> JointChange:
        return JointChange(
            records=[*self.records, *other.records],
            keeps=[*self.keeps, *other.keeps],
            settled=[*self.settled, *other.settled],
        )


class SavedResources(Generic[T]):
    """One kind of thing. Changes of all shelves that share a lock are made one after the other."""

    def __init__(
        self,
        kind: PolicyKind,
        *,
        changes: SavedChanges,
        read: Callable[[JsonObject, str], T],
        write: Callable[[T], JsonObject],
        changing: asyncio.Lock | None = None,
        watch: Callable[[Saved[T] | None, Saved[T] | None], None] = _nothing,
    ) -> None:
        """`read` makes a thing of its body and its workspace, `write` a body of it. `watch` hears of what was there
        and what is there now, at each load and after each commit."""
        self._kind: PolicyKind = kind
        self._changes = changes
        self._read = read
        self._write = write
        self._changing = changing or asyncio.Lock()
        self._watch = watch
        self._things: dict[str, dict[str, Saved[T]]] = {}

    async def load(self, store: Store) -> None:
        """What is on disk. Raises `SettingsError` for a thing that cannot be read."""
        for row in await asyncio.to_thread(store.policies_everywhere, self._kind):
            try:
                thing = self._read(_decode(row.body), row.workspace)
            except HostError as error:
                raise unreadable(self._kind, row, error) from error
            self._settle(
                row.workspace, row.id, Saved(workspace=row.workspace, id=row.id, revision=row.revision, thing=thing)
            )

    def get(self, workspace: str, thing_id: str) -> Saved[T] | None:
        return self._things.get(workspace, {}).get(thing_id)

    def all(self, workspace: str) -> list[Saved[T]]:
        """Of one workspace, by id."""
        return sorted(self._things.get(workspace, {}).values(), key=lambda saved: saved.id)

    def everywhere(self) -> list[Saved[T]]:
        """Of every workspace, by workspace and id."""
        return [saved for workspace in sorted(self._things) for saved in self.all(workspace)]

    def count(self, workspace: str) -> int:
        return len(self._things.get(workspace, {}))

    async def save(
        self,
        workspace: str,
        thing_id: str,
        make: Callable[[Saved[T] | None], T],
        *,
        by: str,
        edited: int | None = None,
        keeps: Keeps = (),
        beside: Sequence[tuple[str, JsonObject]] = (),
        then: Callable[[], None] = _done,
    ) -> Saved[T]:
        """Save what `make` makes of what is there, which raises to refuse it. `edited` is the revision that somebody
        changed; raises `Conflict` when there is another one now. `keeps` and `beside` are part of the same commit, and
        `then` is called when it is on disk, also when nobody waits any more."""
        async with self._changing:
            before = self.get(workspace, thing_id)
            revision = 0 if before is None else before.revision
            check_revision(self._kind, thing_id, revision, edited)
            thing = make(before)
            saved = Saved(workspace=workspace, id=thing_id, revision=revision + 1, thing=thing)
            change = SavedChange(
                kind=self._kind,
                workspace=workspace,
                thing=thing_id,
                revision=revision + 1,
                by=by,
                body=self._write(thing),
            )

            def settled() -> None:
                self._settle(workspace, thing_id, saved)
                then()

            await self._changes.write(change, settled, keeps=_kept(keeps), beside=beside)
            return saved

    async def delete(
        self,
        workspace: str,
        thing_id: str,
        check: Callable[[Saved[T] | None], None],
        *,
        by: str,
        edited: int | None = None,
        keeps: Keeps = (),
        beside: Sequence[tuple[str, JsonObject]] = (),
        along: Callable[[], JointChange] = JointChange,
        then: Callable[[], None] = _done,
    ) -> None:
        """Forget a thing. `check` gets what is there, and raises where it must stay or is not there. `along`, asked
        when no other change is under way, says what goes with it."""
        async with self._changing:
            before = self.get(workspace, thing_id)
            check(before)
            if before is None:
                return
            check_revision(self._kind, thing_id, before.revision, edited)
            change = SavedChange(
                kind=self._kind, workspace=workspace, thing=thing_id, revision=before.revision + 1, by=by
            )

            others = along()

            def settled() -> None:
                self._settle(workspace, thing_id, None)
                for told in others.settled:
                    told()
                then()

            every = [*_kept(keeps), *others.keeps]
            await self._changes.write(change, settled, keeps=every, beside=[*beside, *others.records])

    def joining(self, workspace: str, thing_id: str, thing: T, by: str) -> JointChange:
        """One that is saved with another thing, in its commit. For who alone changes it."""
        before = self.get(workspace, thing_id)
        revision = 1 if before is None else before.revision + 1
        saved = Saved(workspace=workspace, id=thing_id, revision=revision, thing=thing)
        change = SavedChange(
            kind=self._kind, workspace=workspace, thing=thing_id, revision=revision, by=by, body=self._write(thing)
        )
        return JointChange(
            records=[("policy.changed", change.data())], settled=[lambda: self._settle(workspace, thing_id, saved)]
        )

    def leaving(self, workspace: str, goes: Callable[[Saved[T]], bool], by: str) -> JointChange:
        """Those that go with another thing. For who holds the lock."""
        found = [saved for saved in self.all(workspace) if goes(saved)]
        changes = [
            SavedChange(kind=self._kind, workspace=workspace, thing=saved.id, revision=saved.revision + 1, by=by)
            for saved in found
        ]

        def settled() -> None:
            for saved in found:
                self._settle(workspace, saved.id, None)

        return JointChange(records=[("policy.changed", change.data()) for change in changes], settled=[settled])

    def _settle(self, workspace: str, thing_id: str, after: Saved[T] | None) -> None:
        things = self._things.setdefault(workspace, {})
        before = things.pop(thing_id, None)
        if after is not None:
            things[thing_id] = after
        elif not things:
            del self._things[workspace]
        self._watch(before, after)
