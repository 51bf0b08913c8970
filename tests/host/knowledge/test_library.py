"""Bases with an engine behind them: it opens on first use, has the latest saved version, and erases."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_engine import MemoryEngine

from bollard.host.errors import KnowledgeUnavailable, ModelFailed, NotFound
from bollard.host.knowledge.bases import KnowledgeBaseRepository
from bollard.host.knowledge.boundary import NewDocument, Question
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store
from bollard.protocol import RerankScore

PATIENCE_S = 30.0
LEAVE = NewDocument(
    document_id="leave",
    name="leave.md",
    mime_type="text/markdown",
    content=b"Thirty days.\n\nAsk your manager for days.",
)


class Shaky(MemoryEngine):
    """An engine that can be away."""

    away = False

    async def drop_base(self, workspace: str, kb_id: str) -> None:
        if self.away:
            raise KnowledgeUnavailable("the knowledge process does not answer", reason="test", hint="try again")
        await super().drop_base(workspace, kb_id)


class Desk:
    """A library over a store, and the engine that it opened."""

    def __init__(self, store: Store, journal: Journal, clock: ManualClock, engine: Shaky | None = None) -> None:
        self.store = store
        self.opened = 0
        self.engine = engine or Shaky(clock)
        self.library = Library(KnowledgeBaseRepository(journal, clock), journal, clock, self._open)

    def _open(self) -> MemoryEngine:
        self.opened += 1
        return self.engine

    async def save(self, kb_id: str = "handbook", workspace: str = "w", **body: Any) -> None:
        await self.library.save(body, workspace, kb_id, by="ann", edited=None)

    async def ask(self, query: str, workspace: str = "w", top_k: int = 5, **filters: Any) -> list[str]:
        found = await self.library.retrieve(workspace, "handbook", Question(query=query, top_k=top_k, filters=filters))
        return [chunk.text for chunk in found]


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not await true():  # noqa: ASYNC110 -- only the store shows the condition
            await asyncio.sleep(0.01)


@pytest.fixture
async def desk(memory_store: Store, open_journal: Callable[..., Journal], clock: ManualClock) -> Desk:
    return Desk(memory_store, open_journal(memory_store), clock)


async def test_an_engine_is_opened_once_on_demand(desk: Desk) -> None:
    await desk.save()
    await desk.save(name="Handbook")
    desk.library.start()
    with pytest.raises(NotFound):
        await desk.library.documents("w", "other", "", 10)
    assert desk.opened == 0
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    assert await desk.ask("days") == ["Thirty days.", "Ask your manager for days."]
    assert desk.opened == 1
    assert desk.engine.bases["w", "handbook"].name == "Handbook"
    await desk.library.close()


async def test_a_chunk_change_reaches_the_engine_at_once_and_others_with_the_next_use(desk: Desk) -> None:
    await desk.save()
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    await desk.save(description="How we work.")
    assert desk.engine.bases["w", "handbook"].description == ""
    await desk.save(description="How we work.", chunk_tokens=100)
    assert desk.engine.bases["w", "handbook"].chunk_tokens == 100


async def test_documents_of_another_workspace_are_not_found(desk: Desk) -> None:
    await desk.save()
    await desk.save(workspace="v")
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    assert await desk.ask("days", workspace="v") == []
    for asked in (desk.library.document, desk.library.content):
        with pytest.raises(NotFound):
            await asked("v", "handbook", "leave")


async def test_the_log_names_the_actor_of_a_document_change_but_not_its_text(desk: Desk) -> None:
    await desk.save()
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    await desk.library.drop("w", "handbook", "leave", by="bob")
    with pytest.raises(NotFound):
        await desk.library.drop("w", "handbook", "leave", by="bob")
    rows = [row for row in desk.store.records(0, 100) if row.type == "knowledge.changed"]
    told = [msgspec.json.decode(row.data or b"") for row in rows]
    assert [(each["document_id"], each["action"], each["by"]) for each in told] == [
        ("leave", "saved", "ann"),
        ("leave", "deleted", "bob"),
    ]
    assert b"manager" not in b"".join(row.data or b"" for row in desk.store.records(0, 100))


async def test_a_deleted_base_is_erased_and_a_new_one_of_its_name_is_empty(desk: Desk) -> None:
    await desk.save()
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    assert await desk.library.delete("w", "handbook", by="ann", edited=None)
    assert desk.engine.bases == {}
    with pytest.raises(NotFound):
        await desk.ask("days")
    await desk.save()
    assert await desk.ask("days") == []


async def test_a_failed_erasure_is_repeated_at_the_next_start(
    store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    first = Desk(store, open_journal(store), clock)
    await first.save()
    await first.library.put("w", "handbook", LEAVE, by="ann")
    first.engine.away = True
    assert not await first.library.delete("w", "handbook", by="ann", edited=None)
    assert await first.engine.content("w", "handbook", "leave")
    first.engine.away = False
    second = Desk(store, open_journal(store, "i2"), clock, first.engine)
    await second.library.book.load(store)
    second.library.start()

    async def erased() -> bool:
        return not second.library.book.erasing

    await until(erased)
    assert second.engine.bases == {}
    await second.library.close()


async def test_a_new_base_has_no_content_of_a_base_pending_erasure(desk: Desk) -> None:
    await desk.save()
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    desk.engine.away = True
    assert not await desk.library.delete("w", "handbook", by="ann", edited=None)
    await desk.save()
    with pytest.raises(KnowledgeUnavailable):
        await desk.ask("days")
    desk.engine.away = False
    assert await desk.ask("days") == []
    assert desk.library.book.erasing == set()


async def test_reindexing_a_base_takes_every_document_again(desk: Desk, clock: ManualClock) -> None:
    await desk.save()
    for number in range(3):
        document = NewDocument(document_id=f"d{number}", name="d", mime_type="text/plain", content=b"some days")
        await desk.library.put("w", "handbook", document, by="ann")
    before = {each.document_id: each for each in await desk.library.documents("w", "handbook", "", 10)}
    clock.advance(5)
    await desk.library.index_anew("w", "handbook")

    async def taken_again() -> bool:
        now = await desk.library.documents("w", "handbook", "", 10)
        return all(each.updated_ms > before[each.document_id].updated_ms for each in now)

    await until(taken_again)
    now = await desk.library.documents("w", "handbook", "", 10)
    assert [each.sha256 for each in now] == [each.sha256 for each in before.values()]
    await desk.library.close()


async def test_a_rerank_model_orders_more_chunks_than_requested(desk: Desk) -> None:
    asked: list[tuple[str, str, str, int]] = []

    async def rerank(workspace: str, model: str, query: str, texts: Sequence[str]) -> Sequence[RerankScore]:
        asked.append((workspace, model, query, len(texts)))
        return [RerankScore(index=index, score=float("manager" in text)) for index, text in enumerate(texts)]

    desk.library.rerank = rerank
    await desk.save(rerank_model="sorter")
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    assert await desk.ask("thirty days", top_k=1) == ["Ask your manager for days."]
    assert asked == [("w", "sorter", "thirty days", 2)]


async def test_a_failed_rerank_model_keeps_the_order(desk: Desk) -> None:
    async def rerank(*_: Any) -> Sequence[RerankScore]:
        raise ModelFailed("the provider is down", hint="try later", reason="overloaded")

    desk.library.rerank = rerank
    await desk.save(rerank_model="sorter")
    await desk.library.put("w", "handbook", LEAVE, by="ann")
    assert await desk.ask("thirty days", top_k=1) == ["Thirty days."]
