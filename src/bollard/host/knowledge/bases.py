"""A knowledge base as a person saves it, and as it is shown. Reading and writing only."""

import asyncio
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.capabilities.capability import Flow
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
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
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
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
            reason="overlap_tokens",
            hint="reduce overlap_tokens, or increase chunk_tokens",
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


KNOWLEDGE_BASE: Final = ResourceKind(
    kind="kb", noun="knowledge base", listed_by="knowledge list", limit=BASES_OF_WORKSPACE
)
_ERASING: Final = "kb_erasing"
"""The kind of the rows that name deleted bases whose documents may still be on disk."""


class KnowledgeBaseRepository(Repository[KnowledgeBase]):
    """The saved knowledge bases, and the deleted ones whose documents are not erased yet."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        super().__init__(
            KNOWLEDGE_BASE, SavedChanges(journal, clock), lambda body, _: base_from_wire(body), base_to_wire
        )
        self._journal = journal
        self._clock = clock
        self.revision = 0
        """Grows with each change."""
        self.erasing: set[tuple[str, str]] = set()
        """Workspace and id of deleted bases with documents."""

    async def load(self, store: Store) -> None:
        await super().load(store)
        rows = await asyncio.to_thread(store.all_kept, _ERASING)
        self.erasing = {(row.workspace, row.id) for row in rows}

    async def save(
        self, body: JsonObject, workspace: str, kb_id: str, *, by: str, edited: int | None
    ) -> Saved[KnowledgeBase]:
        """Raises `InvalidRequest`, `Conflict`, `StorageFull`."""
        base = base_from_wire({**body, "kb_id": kb_id})
        return await self._save(workspace, kb_id, lambda _: base, by=by, edited=edited)

    async def delete(self, workspace: str, kb_id: str, *, by: str, edited: int | None = None) -> None:
        """Delete a base. The same commit notes that its documents must be erased. Raises `NotFound`, `Conflict`."""
        row = KeptRow(
            kind=_ERASING,
            workspace=workspace,
            id=kb_id,
            body=b"{}",
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

        def settled() -> None:
            self.erasing.add((workspace, kb_id))

        await self._delete(workspace, kb_id, by=by, edited=edited, keeps=[PutKept(row)], then=settled)

    async def erased(self, workspace: str, kb_id: str) -> None:
        """Note that no document of the base is on disk any more."""
        await self._journal.commit(Entry(keeps=[DropKept(_ERASING, workspace, kb_id)]))
        self.erasing.discard((workspace, kb_id))

    def changed(self, before: Saved[KnowledgeBase] | None, after: Saved[KnowledgeBase] | None) -> None:
        del before, after
        self.revision += 1
