"""Knowledge bases as people save them: read strictly, the same after a restart, and gone with their deletion."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.capabilities.capability import Flow
from bollard.host.errors import Conflict, InvalidRequest, NotFound
from bollard.host.knowledge.bases import KnowledgeBaseRepository, SavedKnowledgeBase
from bollard.host.knowledge.library import KnowledgeSource
from bollard.host.knowledge.limits import BASES_OF_WORKSPACE
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store

WHOLE = {
    "kb_id": "handbook",
    "name": "Handbook",
    "description": "How we work.",
    "embedding": "none",
    "chunk_tokens": 200,
    "overlap_tokens": 20,
    "flow": ["private", "untrusted"],
    "rerank_model": "sorter",
}


def test_a_base_reads_back_the_same() -> None:
    assert SavedKnowledgeBase.read(WHOLE).to_wire() == WHOLE


def test_a_base_with_an_id_only_is_private_and_has_the_default_chunks() -> None:
    base = SavedKnowledgeBase.read({"kb_id": "handbook"})
    assert base == SavedKnowledgeBase(kb_id="handbook")
    assert base.brings == Flow(reads_private=True, brings_untrusted=False, sends_out=False)
    assert base.chunk_tokens == 320


@for_each(
    ("change", "field"),
    [
        ({"kb_id": "Hand book"}, "knowledge.kb_id"),
        ({"kb_id": ""}, "knowledge.kb_id"),
        ({"colour": "red"}, "knowledge.colour"),
        ({"embedding": "https://elsewhere.example"}, "knowledge.embedding"),
        ({"chunk_tokens": 3}, "knowledge.chunk_tokens"),
        ({"chunk_tokens": 1_000_000}, "knowledge.chunk_tokens"),
        ({"chunk_tokens": "200"}, "knowledge.chunk_tokens"),
        ({"overlap_tokens": 101}, "knowledge.overlap_tokens"),
        ({"flow": ["out"]}, "knowledge.flow.0"),
        ({"flow": "private"}, "knowledge.flow"),
        ({"rerank_model": ""}, "knowledge.rerank_model"),
        ({"description": "x" * 5000}, "knowledge.description"),
    ],
)
def test_an_invalid_base_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SavedKnowledgeBase.read({**WHOLE, **change})
    assert caught.value.details["field"] == field


async def test_bases_and_pending_erasures_survive_a_restart(
    store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    book = KnowledgeBaseRepository(open_journal(store), clock)
    await book.save(WHOLE, "w", "handbook", by="ann", edited=None)
    await book.save({"name": "Old"}, "w", "old", by="ann", edited=0)
    await book.save({**WHOLE, "name": "The handbook"}, "w", "handbook", by="ann", edited=1)
    with pytest.raises(Conflict):
        await book.save(WHOLE, "w", "handbook", by="bob", edited=1)
    await book.delete("w", "old", by="ann", edited=None)
    again = KnowledgeBaseRepository(open_journal(store, "i2"), clock)
    await again.load(store)
    assert again.all("w") == book.all("w")
    assert (again.get("w", "handbook").revision, again.get("w", "handbook").value.name) == (2, "The handbook")
    assert again.erasing == {("w", "old")}
    with pytest.raises(NotFound):
        again.get("other", "handbook")
    await again.erased("w", "old")
    third = KnowledgeBaseRepository(open_journal(store, "i3"), clock)
    await third.load(store)
    assert third.erasing == set()


async def test_a_workspace_has_a_limit_of_bases(
    memory_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    book = KnowledgeBaseRepository(open_journal(memory_store), clock)
    for number in range(BASES_OF_WORKSPACE):
        await book.save({}, "w", f"b{number}", by="ann", edited=None)
    with pytest.raises(Conflict, match="already"):
        await book.save({}, "w", "one-more", by="ann", edited=None)
    await book.save({}, "other", "one-more", by="ann", edited=None)


async def test_a_base_is_a_capability_of_its_open_workspace(
    memory_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    book = KnowledgeBaseRepository(open_journal(memory_store), clock)
    source = KnowledgeSource(book, lambda workspace: workspace == "w")
    before = source.revision
    await book.save(WHOLE, "w", "handbook", by="ann", edited=None)
    await book.save(WHOLE, "closed", "handbook", by="ann", edited=None)
    assert source.revision > before
    (capability,) = source.capabilities("w")
    assert (capability.id, capability.kind, capability.effects) == ("kb:handbook", "knowledge", "none")
    assert capability.flow == Flow(reads_private=True, brings_untrusted=True, sends_out=False)
    assert capability.about == {"kb_name": "Handbook", "kb_type": "documents"}
    assert source.capabilities("closed") == []
