"""A knowledge base as a person saves it, and as it is shown. Reading and writing only."""

from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.capabilities.capability import Flow
from bollard.host.errors import InvalidRequest
from bollard.host.knowledge.boundary import BaseSpec
from bollard.host.knowledge.limits import (
    CHUNK_TOKENS_LEAST,
    CHUNK_TOKENS_MOST,
    DOCUMENT_NAME_CHARACTERS,
    OVERLAP_TOKENS_MOST,
)
from bollard.protocol import Int, JsonObject, Strict, limits

__all__ = ["KnowledgeBase", "SavedKnowledgeBase", "base_from_wire", "base_to_wire"]

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
