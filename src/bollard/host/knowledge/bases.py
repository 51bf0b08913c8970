"""A knowledge base as a person saves it, and as it is shown. Reading and writing only."""

import asyncio
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.capabilities.capability import Flow
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, InvalidRequest, NotFound
from bollard.host.knowledge.boundary import BaseSpec
from bollard.host.knowledge.limits import (
    BASES_OF_WORKSPACE,
    CHUNK_TOKENS_LEAST,
    CHUNK_TOKENS_MOST,
    DOCUMENT_NAME_CHARACTERS,
    OVERLAP_TOKENS_MOST,
)
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Saved, SavedChanges, SavedResources
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import Int, JsonObject, Strict, limits

Embedding = Literal["bundled", "none"]
FlowBit = Literal["private", "untrusted"]
_PLAIN: Final = BaseSpec(workspace="", kb_id="")
"""What a base is unless somebody says otherwise."""


class KnowledgeBase(msgspec.Struct, frozen=True, kw_only=True):
    """What a base is called, how its documents are cut up, and what a run takes in that reads of it."""

    kb_id: str
    name: str = ""
    description: str = ""
    embedding: Embedding = "bundled"
    chunk_tokens: int = _PLAIN.chunk_tokens
    overlap_tokens: int = _PLAIN.overlap_tokens
    flow: tuple[FlowBit, ...] = ("private",)
    rerank_model: str | None = None
    """A model of the host that puts what was found into a better order."""

    def spec(self, workspace: str) -> BaseSpec:
        """As the engine wants it."""
        return BaseSpec(
            workspace=workspace,
            kb_id=self.kb_id,
            name=self.name,
            description=self.description,
            embedding=self.embedding,
            chunk_tokens=self.chunk_tokens,
            overlap_tokens=self.overlap_tokens,
            flow=self.flow,
        )

    @property
    def brings(self) -> Flow:
        """What comes along with every word of it."""
        return Flow(reads_private="private" in self.flow, brings_untrusted="untrusted" in self.flow, sends_out=False)

    def cuts_as(self, other: "KnowledgeBase") -> bool:
        """Whether the chunks of a document are the same in both."""
        mine, others = ((each.embedding, each.chunk_tokens, each.overlap_tokens) for each in (self, other))
        return mine == others


class SavedKnowledgeBase(Strict):
    """`PUT /api/v1/knowledge/{kb_id}`."""

    kb_id: ChosenName
    name: Annotated[str, Field(max_length=DOCUMENT_NAME_CHARACTERS)] = ""
    description: Annotated[
        str, Field(max_length=limits.TEXT_CHARACTERS, description="What it knows: people and models choose by it.")
    ] = ""
    embedding: Embedding = Field(
        default="bundled", description="`bundled` finds by meaning and by words, `none` by words alone."
    )
    chunk_tokens: Annotated[Int, Field(ge=CHUNK_TOKENS_LEAST, le=CHUNK_TOKENS_MOST)] = _PLAIN.chunk_tokens
    overlap_tokens: Annotated[Int, Field(ge=0, le=OVERLAP_TOKENS_MOST)] = _PLAIN.overlap_tokens
    flow: Annotated[tuple[FlowBit, ...], Field(max_length=2)] = Field(
        default=("private",), description="What a run takes in that reads of it."
    )
    rerank_model: ForeignId | None = None
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


def base_from_wire(body: JsonObject) -> KnowledgeBase:
    """Raises `InvalidRequest`."""
    try:
        saved = SavedKnowledgeBase.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "knowledge") from error
    if saved.overlap_tokens * 2 > saved.chunk_tokens:
        raise InvalidRequest(
            "knowledge.overlap_tokens: is more than half of chunk_tokens",
            hint="let chunks repeat less of each other, or make them larger",
            field="knowledge.overlap_tokens",
        )
    return KnowledgeBase(
        kb_id=saved.kb_id,
        name=saved.name,
        description=saved.description,
        embedding=saved.embedding,
        chunk_tokens=saved.chunk_tokens,
        overlap_tokens=saved.overlap_tokens,
        flow=tuple(dict.fromkeys(saved.flow)),
        rerank_model=saved.rerank_model,
    )


def base_to_wire(base: KnowledgeBase) -> JsonObject:
    """What `base_from_wire` takes."""
    return {
        "kb_id": base.kb_id,
        "name": base.name,
        "description": base.description,
        "embedding": base.embedding,
        "chunk_tokens": base.chunk_tokens,
        "overlap_tokens": base.overlap_tokens,
        "flow": [*base.flow],
        "rerank_model": base.rerank_model,
    }


# The knowledge bases that people saved, of every workspace, and those whose documents are still to be erased. On disk
# first, then true. Documents are not here: the engine has them.


_ERASING: Final = "kb_erasing"
"""The kind of the rows that say which bases are gone and may have left something on disk."""


class KnowledgeBaseRepository:
    """One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._shelf: SavedResources[KnowledgeBase] = SavedResources(
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
