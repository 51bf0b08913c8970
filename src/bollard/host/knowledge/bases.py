"""The saved knowledge bases of every workspace."""

import asyncio
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.saved_body import SavedBody
from bollard.host.capabilities.capability import Flow
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
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
from bollard.protocol import Int, JsonObject, limits

FlowBit = Literal["private", "untrusted"]


class SavedKnowledgeBase(SavedBody):
    """A knowledge base: how its documents are cut into chunks, and the data flow of runs that read it."""

    noun = "knowledge"
    kb_id: ChosenName
    name: Annotated[str, Field(max_length=DOCUMENT_NAME_CHARACTERS)] = ""
    description: Annotated[
        str,
        Field(
            max_length=limits.TEXT_CHARACTERS, description="The contents of the base. People and models choose by it."
        ),
    ] = ""
    embedding: Literal["bundled", "none"] = Field(
        default="bundled", description="`bundled` searches by meaning and by words, `none` by words only."
    )
    chunk_tokens: Annotated[Int, Field(ge=CHUNK_TOKENS_LEAST, le=CHUNK_TOKENS_MOST)] = 320
    overlap_tokens: Annotated[Int, Field(ge=0, le=OVERLAP_TOKENS_MOST)] = 40
    flow: Annotated[
        tuple[FlowBit, ...], Field(max_length=2), AfterValidator(lambda flow: tuple(dict.fromkeys(flow)))
    ] = Field(default=("private",), description="The data flow of runs that read it.")
    rerank_model: ForeignId | None = Field(default=None, description="A model that sorts the results.")

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.overlap_tokens * 2 > self.chunk_tokens:
            raise InvalidRequest(
                "knowledge.overlap_tokens: is more than half of chunk_tokens",
                reason="overlap_tokens",
                hint="reduce overlap_tokens, or increase chunk_tokens",
                field="knowledge.overlap_tokens",
            )
        return self

    def to_wire(self) -> JsonObject:
        return {**super().to_wire(), "rerank_model": self.rerank_model}

    @property
    def brings(self) -> Flow:
        """The data flow of every chunk."""
        return Flow(reads_private="private" in self.flow, brings_untrusted="untrusted" in self.flow, sends_out=False)

    def cuts_as(self, other: "SavedKnowledgeBase") -> bool:
        """Whether the chunks of a document are the same in both."""
        mine, others = ((each.embedding, each.chunk_tokens, each.overlap_tokens) for each in (self, other))
        return mine == others


KNOWLEDGE_BASE: Final = ResourceKind(
    kind="kb", noun="knowledge base", listed_by="knowledge list", limit=BASES_OF_WORKSPACE
)
_ERASING: Final = "kb_erasing"
"""The kind of the rows that name deleted bases whose documents may still be on disk."""


class KnowledgeBaseRepository(Repository[SavedKnowledgeBase]):
    """The saved knowledge bases, and the deleted ones whose documents are not erased yet."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        super().__init__(
            KNOWLEDGE_BASE,
            SavedChanges(journal, clock),
            lambda body, _: SavedKnowledgeBase.read(body),
            SavedKnowledgeBase.to_wire,
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
    ) -> Saved[SavedKnowledgeBase]:
        """Raises `InvalidRequest`, `Conflict`, `StorageFull`."""
        base = SavedKnowledgeBase.read({**body, "kb_id": kb_id})
        return await self._save(workspace, kb_id, lambda _: base, by=by, edited=edited)

    async def delete(self, workspace: str, kb_id: str, *, by: str, edited: int | None = None) -> None:
        """Delete a base. The same commit notes that its documents must be erased. Raises `NotFound`, `Conflict`."""
        row = KeptRow(
            kind=_ERASING, workspace=workspace, id=kb_id, body=b"{}", expires_ms=None, updated_ms=self._clock.now_ms()
        )

        def settled() -> None:
            self.erasing.add((workspace, kb_id))

        await self._delete(workspace, kb_id, by=by, edited=edited, keeps=[PutKept(row)], then=settled)

    async def erased(self, workspace: str, kb_id: str) -> None:
        """Note that no document of the base is on disk any more."""
        await self._journal.commit(Entry(keeps=[DropKept(_ERASING, workspace, kb_id)]))
        self.erasing.discard((workspace, kb_id))

    def changed(self, before: Saved[SavedKnowledgeBase] | None, after: Saved[SavedKnowledgeBase] | None) -> None:
        del before, after
        self.revision += 1
