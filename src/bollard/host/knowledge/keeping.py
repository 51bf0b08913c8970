"""The knowledge bases that people saved, of every workspace, and those whose documents are still to be erased. On disk
first, then true. Documents are not here: the engine has them."""

import asyncio
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound
from bollard.host.knowledge.bases import KnowledgeBase, base_from_wire, base_to_wire
from bollard.host.knowledge.limits import BASES_OF_WORKSPACE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.log.shelf import Saved, Shelf
from bollard.host.store.boundary import Store
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.protocol import JsonObject

__all__ = ["BaseBook", "no_such_base"]

_ERASING: Final = "kb_erasing"
"""The kind of the rows that say which bases are gone and may have left something on disk."""


class BaseBook:
    """One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._shelf: Shelf[KnowledgeBase] = Shelf(
            "kb", changes=SavedChanges(journal, clock), read=_read, write=base_to_wire, watch=self._changed
        )
        self.revision = 0
        """Grows with each change."""
        self.erasing: set[tuple[str, str]] = set()
        """Workspace and id of bases whose documents must go."""

    async def load(self, store: Store) -> None:
        """What is on disk."""
        await self._shelf.load(store)
        rows = await asyncio.to_thread(store.all_kept, _ERASING)
        self.erasing = {(row.workspace, row.id) for row in rows}

    def find(self, workspace: str, kb_id: str) -> Saved[KnowledgeBase] | None:
        return self._shelf.get(workspace, kb_id)

    def get(self, workspace: str, kb_id: str) -> Saved[KnowledgeBase]:
        """Raises `NotFound`."""
        return _there(self._shelf.get(workspace, kb_id))

    def all(self, workspace: str) -> list[Saved[KnowledgeBase]]:
        return self._shelf.all(workspace)

    async def save(
        self, body: JsonObject, workspace: str, kb_id: str, *, by: str, edited: int | None
    ) -> Saved[KnowledgeBase]:
        """A base, or a new version of one. Raises `InvalidRequest`, `Conflict`, `StorageFull`."""
        base = base_from_wire({**body, "kb_id": kb_id})

        def make(before: Saved[KnowledgeBase] | None) -> KnowledgeBase:
            if before is None and self._shelf.count(workspace) >= BASES_OF_WORKSPACE:
                limit = f"the workspace has {BASES_OF_WORKSPACE} knowledge bases already"
                raise Conflict(limit, hint="remove one that is not used")
            return base

        return await self._shelf.save(workspace, kb_id, make, by=by, edited=edited)

    async def delete(self, workspace: str, kb_id: str, *, by: str, edited: int | None) -> None:
        """Forget a base. That its documents must go is on disk with it. Raises `NotFound`, `Conflict`."""
        row = KeptRow(
            kind=_ERASING,
            workspace=workspace,
            id=kb_id,
            body=b"{}",
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

        def check(before: Saved[KnowledgeBase] | None) -> None:
            _there(before)

        def settled() -> None:
            self.erasing.add((workspace, kb_id))

        await self._shelf.delete(workspace, kb_id, check, by=by, edited=edited, keeps=[PutKept(row)], then=settled)

    async def erased(self, workspace: str, kb_id: str) -> None:
        """Nothing of it is on disk any more."""
        await self._journal.commit(Entry(keeps=[DropKept(_ERASING, workspace, kb_id)]))
        self.erasing.discard((workspace, kb_id))

    def _changed(self, before: Saved[KnowledgeBase] | None, after: Saved[KnowledgeBase] | None) -> None:
        del before, after
        self.revision += 1


def no_such_base() -> NotFound:
    return NotFound("there is no such knowledge base", hint="`bollard knowledge list` lists them")


def _there(saved: Saved[KnowledgeBase] | None) -> Saved[KnowledgeBase]:
    if saved is None:
        raise no_such_base()
    return saved


def _read(body: JsonObject, workspace: str) -> KnowledgeBase:
    del workspace
    return base_from_wire(body)
