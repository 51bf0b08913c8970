"""Repositories of saved resources: agents, channels, models, users and the like.

A repository holds the resources of one kind, of every workspace, in memory. A change is one record `policy.changed`. It
is on disk before it is in memory, so that a reader never sees a change that a crash could take back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, NotFound, SettingsError, StorageFull, caused_by
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import KeptChange, PolicyKind, PolicyRow
from bollard.host.store.store import Store

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


class SavedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a resource; without a body the resource is deleted."""

    kind: PolicyKind
    workspace: str
    id: str
    revision: int
    by: str
    """The name of the caller."""
    body: JsonObject | None = None

    def data(self) -> JsonObject:
        """The data of the record."""
        data: JsonObject = {
            "kind": self.kind,
            "id": self.id,
            "action": "deleted",
            "revision": self.revision,
            "by": self.by,
        }
        return data if self.body is None else {**data, "action": "saved", "body": self.body}


class SavedChanges:
    """Writes changes to the log. Callers serialise them with a lock."""

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
        """Commit the change, then call `settled`, then return. A caller that is cancelled does not undo the change.

        `keeps` and the further records `beside`, as type and data, are part of the same commit.
        """
        if self._journal.full:
            raise StorageFull(
                "the disk is full, so no new work is accepted",
                reason="disk_full",
                hint="free space in the data directory",
            )

        def committed(outcome: CommitResult | HostError) -> None:
            if isinstance(outcome, Committed):
                settled()

        now_ms = self._clock.now_ms()
        bodies = [("policy.changed", change.data()), *beside]
        records = [
            NewRecord(workspace=change.workspace, type=kind, data=encode_data(data), created_ms=now_ms)
            for kind, data in bodies
        ]
        entry = Entry(records=records, keeps=list(keeps), size=sum(len(record.data) for record in records))
        await self._journal.commit_through(entry, committed)


def check_revision(kind: PolicyKind, resource_id: str, now: int, edited: int | None) -> None:
    """Raise `Conflict` for a change of an older revision. `None` matches every revision."""
    if edited is not None and edited != now:
        raise Conflict(
            f"{kind} {resource_id} is at revision {now}, but revision {edited} was edited",
            reason="revision_conflict",
            hint=f"read the {kind} again and repeat the change",
            kind=kind,
            id=resource_id,
            revision=now,
            edited=edited,
        )


def unreadable(kind: PolicyKind, row: PolicyRow, error: HostError) -> SettingsError:
    """The error that stops a start: without this resource, others could get more rights than they should have."""
    return SettingsError(
        f"the saved {kind} {row.id} cannot be read: {error.message}",
        reason="saved_resource_unreadable",
        hint="start the version of Bollard that saved it, and correct or delete it there",
        kind=kind,
        id=row.id,
        **caused_by(error),
    )


T = TypeVar("T")
Keeps = Sequence[KeptChange] | Callable[[], Sequence[KeptChange]]
"""Rows beside the log that a change writes; a function is called while no other change is under way."""
Beginning = Callable[[str], Awaitable[Sequence[KeptChange]]]
"""Returns the rows of the commit with which a workspace begins to follow events."""
_decode: Final = msgspec.json.Decoder().decode


async def begins_nothing(_: str) -> Sequence[KeptChange]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Generic[T]):
    """A saved resource, and its revision: how often it was saved."""

    workspace: str
    id: str
    revision: int
    value: T


class JointChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that share the commit of another resource."""

    records: Sequence[tuple[str, JsonObject]] = ()
    keeps: Sequence[KeptChange] = ()
    settled: Sequence[Callable[[], None]] = ()

    def __add__(self, other: JointChange) -> JointChange:
        return JointChange(
            records=[*self.records, *other.records],
            keeps=[*self.keeps, *other.keeps],
            settled=[*self.settled, *other.settled],
        )


class ResourceKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository must know of its resources."""

    kind: PolicyKind
    noun: str
    """As people read it: `knowledge base`."""
    listed_by: str
    """The command that lists them, without `bollard`."""
    limit: int | None = None
    """Resources of one workspace."""
    full: type[HostError] = Conflict
    """The error at the limit."""

    def missing(self) -> NotFound:
        return NotFound(
            f"there is no such {self.noun}", reason=f"no_{self.kind}", hint=f"`bollard {self.listed_by}` lists them"
        )

    def at_limit(self) -> HostError:
        return self.full(
            f"the workspace has {self.limit} {self.noun}s already",
            reason=f"{self.kind}_limit",
            hint="delete one that is not used",
            limit=self.limit,
        )


class Repository(Generic[T]):
    """The resources of one kind. Repositories that share a lock make their changes one after the other.

    A subclass says how a resource is validated, and what else a change writes. It overrides `changed` to hear of every
    resource that is loaded, saved or deleted.
    """

    def __init__(
        self,
        kind: ResourceKind,
        changes: SavedChanges,
        read: Callable[[JsonObject, str], T],
        write: Callable[[T], JsonObject],
        changing: asyncio.Lock | None = None,
    ) -> None:
        """`read` makes a resource of its body and its workspace, `write` a body of the resource."""
        self._kind = kind
        self._changes = changes
        self._from_body = read
        self._to_body = write
        self._changing = changing or asyncio.Lock()
        self._by_workspace: dict[str, dict[str, Saved[T]]] = {}

    async def load(self, store: Store) -> None:
        """Read everything from the store. Raises `SettingsError` for a resource that cannot be read."""
        for row in await asyncio.to_thread(store.policies_everywhere, self._kind.kind):
            try:
                value = self._from_body(_decode(row.body), row.workspace)
            except HostError as error:
                raise unreadable(self._kind.kind, row, error) from error
            self._settle(
                row.workspace, row.id, Saved(workspace=row.workspace, id=row.id, revision=row.revision, value=value)
            )

    def find(self, workspace: str, resource_id: str, /) -> Saved[T] | None:
        return self._by_workspace.get(workspace, {}).get(resource_id)

    def get(self, workspace: str, resource_id: str, /) -> Saved[T]:
        """Raises `NotFound`."""
        return self._existing(self.find(workspace, resource_id))

    def all(self, workspace: str) -> list[Saved[T]]:
        """The resources of one workspace, by id."""
        return sorted(self._by_workspace.get(workspace, {}).values(), key=lambda saved: saved.id)

    def everywhere(self) -> list[Saved[T]]:
        """The resources of every workspace, by workspace and id."""
        return [saved for workspace in sorted(self._by_workspace) for saved in self.all(workspace)]

    def count(self, workspace: str) -> int:
        return len(self._by_workspace.get(workspace, {}))

    def changed(self, before: Saved[T] | None, after: Saved[T] | None) -> None:
        """Called for each resource that is loaded, and after each commit."""

    # --- changes ---

    async def delete(self, workspace: str, resource_id: str, /, *, by: str, edited: int | None = None) -> None:
        """Raises `NotFound`, and `Conflict` for a change of an older revision."""
        await self._delete(workspace, resource_id, by=by, edited=edited)

    async def _save(
        self,
        workspace: str,
        resource_id: str,
        make: Callable[[Saved[T] | None], T],
        *,
        by: str,
        edited: int | None = None,
        keeps: Keeps = (),
        beside: Sequence[tuple[str, JsonObject]] = (),
        along: Callable[[T], JointChange] = lambda _: JointChange(),
        then: Callable[[], None] = lambda: None,
    ) -> Saved[T]:
        """Save what `make` returns for the present resource; `make` raises to refuse the change. `edited` is the
        revision that the caller changed: another one raises `Conflict`. `keeps`, `beside` and what `along` returns
        for the new value share the commit. `then` is called after the commit, also when no caller waits any more."""
        async with self._changing:
            before = self.find(workspace, resource_id)
            revision = 0 if before is None else before.revision
            check_revision(self._kind.kind, resource_id, revision, edited)
            value = make(before)
            limit = self._kind.limit
            if before is None and limit is not None and self.count(workspace) >= limit:
                raise self._kind.at_limit()
            saved = Saved(workspace=workspace, id=resource_id, revision=revision + 1, value=value)
            joint = JointChange(records=beside, keeps=_rows(keeps)) + along(value) + JointChange(settled=[then])
            await self._commit(self._change(saved, by), saved, joint)
            return saved

    async def _delete(
        self,
        workspace: str,
        resource_id: str,
        check: Callable[[Saved[T]], None] = lambda _: None,
        *,
        by: str,
        edited: int | None = None,
        keeps: Keeps = (),
        beside: Sequence[tuple[str, JsonObject]] = (),
        along: Callable[[], JointChange] = JointChange,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises to refuse the deletion. `along`, called while no other change is under way, returns what is
        deleted in the same commit."""
        async with self._changing:
            before = self.get(workspace, resource_id)
            check(before)
            check_revision(self._kind.kind, resource_id, before.revision, edited)
            joint = JointChange(records=beside, keeps=_rows(keeps)) + along() + JointChange(settled=[then])
            await self._commit(self._deletion(before, by), None, joint)

    async def _commit(self, change: SavedChange, after: Saved[T] | None, joint: JointChange) -> None:
        def settled() -> None:
            self._settle(change.workspace, change.id, after)
            for each in joint.settled:
                each()

        await self._changes.write(change, settled, keeps=joint.keeps, beside=joint.records)

    def _joining(self, workspace: str, resource_id: str, value: T, by: str) -> JointChange:
        """Save a resource in the commit of another one, whose owner alone changes it."""
        before = self.find(workspace, resource_id)
        revision = 1 if before is None else before.revision + 1
        saved = Saved(workspace=workspace, id=resource_id, revision=revision, value=value)
        return JointChange(
            records=[("policy.changed", self._change(saved, by).data())],
            settled=[lambda: self._settle(workspace, resource_id, saved)],
        )

    def _leaving(self, workspace: str, goes: Callable[[Saved[T]], bool], by: str) -> JointChange:
        """Delete resources in the commit of another one. The caller holds the lock."""
        found = [saved for saved in self.all(workspace) if goes(saved)]

        def settled() -> None:
            for saved in found:
                self._settle(workspace, saved.id, None)

        records = [("policy.changed", self._deletion(saved, by).data()) for saved in found]
        return JointChange(records=records, settled=[settled])

    def _existing(self, saved: Saved[T] | None) -> Saved[T]:
        if saved is None:
            raise self._kind.missing()
        return saved

    def _change(self, saved: Saved[T], by: str) -> SavedChange:
        return SavedChange(
            kind=self._kind.kind,
            workspace=saved.workspace,
            id=saved.id,
            revision=saved.revision,
            by=by,
            body=self._to_body(saved.value),
        )

    def _deletion(self, before: Saved[T], by: str) -> SavedChange:
        return SavedChange(
            kind=self._kind.kind, workspace=before.workspace, id=before.id, revision=before.revision + 1, by=by
        )

    def _settle(self, workspace: str, resource_id: str, after: Saved[T] | None) -> None:
        resources = self._by_workspace.setdefault(workspace, {})
        before = resources.pop(resource_id, None)
        if after is not None:
            resources[resource_id] = after
        elif not resources:
            del self._by_workspace[workspace]
        self.changed(before, after)


def _rows(keeps: Keeps) -> Sequence[KeptChange]:
    return keeps() if callable(keeps) else keeps
