"""Calls of models outside of `models.*`: those of a run's retrieval belong to the run, all others to the workspace."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.host.run_api.conftest import House
from tests.host.run_api.test_knowledge import PRIVATE, library_of
from tests.host.run_api.test_models import Shop, until
from tests.replacement import replace

from bollard.host.agents.policies import BudgetPolicy, ResourceRule, Spending
from bollard.host.errors import ModelFailed
from bollard.host.identity.caller import Caller
from bollard.host.knowledge.boundary import NewDocument, Question
from bollard.host.knowledge.library import Library
from bollard.host.models.trial import try_model
from bollard.host.runs.live_run import LiveRun
from bollard.host.saved import rerank_with

QUESTION = Question(query="days of leave")
RANKED, AS_FOUND = ["Days pass.", "Thirty days of leave."], ["Thirty days of leave.", "Days pass."]
ANN = Caller(workspace="default", kind="session", name="user:ann")


class Desk(Shop):
    """A house whose base has a rerank model, which would have the second passage first."""

    library: Library

    async def open(self) -> None:
        await self.save("ranker", style="rerank", price={"input": 1000.0, "output": 0.0, "currency": "EUR"})
        self.library = await library_of(self.house, models=self.models)
        self.library.rerank = rerank_with(self.desk)
        await self.library.save({"rerank_model": "ranker"}, "default", PRIVATE, by="ann", edited=None)
        more = NewDocument(document_id="e", name="e.md", mime_type="text/plain", content=b"Days pass.")
        await self.library.put("default", PRIVATE, more, by="ann")

    async def reader(self, base: Any, budget: BudgetPolicy | None = None) -> LiveRun:
        access = base.policy.access
        access = replace(access, resources={**access.resources, "knowledge_bases": ResourceRule(add=(PRIVATE,))})
        return await self.begin(replace(base, policy=replace(base.policy, access=access)), budget=budget)

    async def ask(self, run: LiveRun) -> list[str]:
        found = await self.house.ask(run, "knowledge.retrieve", kb_id=PRIVATE, query=QUESTION.query)
        return [chunk["text"] for chunk in found["chunks"]]

    async def of_nobody(self, count: int = 1) -> list[dict[str, Any]]:
        """Calls that no run made, once there are so many on disk."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            rows = self.house.store.records(0, 1000)
            found[:] = [msgspec.json.decode(row.data or b"") for row in rows if row.type == "model.called"]
            return len(found) >= count

        await until(there)
        assert all(row.run_id is None for row in self.house.store.records(0, 1000) if row.type == "model.called")
        return found


@pytest.fixture
async def desk(memory_house: House, tmp_path: Any) -> Desk:
    made = Desk(memory_house, tmp_path)
    await made.open()
    return made


async def test_the_rerank_of_a_base_is_a_call_of_the_asking_run(house: House, tmp_path: Any, make_agent: Any) -> None:
    desk = Desk(house, tmp_path)
    await desk.open()
    run = await desk.reader(make_agent())
    assert await desk.ask(run) == RANKED
    (called,) = await desk.called(run)
    assert {name: called[name] for name in ("model_id", "operation", "status", "estimated", "currency")} == {
        "model_id": "ranker",
        "operation": "rerank",
        "status": "completed",
        "estimated": True,
        "currency": "EUR",
    }
    assert called["usage"]["total_tokens"] > 0
    assert called["cost"] == pytest.approx(called["usage"]["total_tokens"] / 1000)
    assert called["run_usage"]["cost"] == {"EUR": called["cost"]}
    (span,) = [each for each in desk.spans if each.name == "rerank tiny"]
    assert run.span is not None
    assert (span.parent_id, span.attributes["bollard.run.id"]) == (run.span.context.span_id, run.facts.run_id)
    assert desk.counts.calls == {("ranker", "rerank", "completed"): 1}
    used = [row for row in house.store.records(0, 1000) if row.type == "secret.used"]
    assert [msgspec.json.decode(row.data or b"")["by"] for row in used] == [f"run:{run.facts.run_id}"]


@pytest.mark.parametrize("whose", ["per_run", "per_day", "per_actor_day", "workspace"])
async def test_an_exhausted_budget_keeps_the_order(desk: Desk, make_agent: Any, whose: str) -> None:
    calls = Spending(calls=1)
    if whose == "workspace":
        desk.of_workspace = calls
    run = await desk.reader(make_agent(), None if whose == "workspace" else BudgetPolicy(**{whose: calls}))
    assert await desk.ask(run) == RANKED
    assert await desk.ask(run) == AS_FOUND
    _, refused = await desk.called(run, 2)
    assert (refused["status"], refused["reason"], refused["usage"]["total_tokens"]) == ("refused", "budget_exceeded", 0)
    assert len(desk.opened[0].keys) == 1, "the provider was asked once"


async def test_a_failed_or_cancelled_rerank_has_its_record_too(desk: Desk, make_agent: Any) -> None:
    run = await desk.reader(make_agent())
    await desk.ask(run)
    backend = desk.opened[0]
    backend.failure = ModelFailed("the provider said no", reason="overloaded", emitted=False)
    assert await desk.ask(run) == AS_FOUND
    backend.hold = asyncio.Event()
    asking = asyncio.create_task(desk.ask(run))
    await until(lambda: len(backend.keys) == 3)
    await desk.house.end(run)
    statuses = [each["status"] for each in desk.house.records(run, "model.called")]
    assert statuses == ["completed", "failed", "cancelled"]
    asking.cancel()


async def test_a_retrieval_outside_a_run_is_charged_to_the_workspace(desk: Desk, make_agent: Any) -> None:
    run = await desk.reader(make_agent())
    desk.of_workspace = Spending(calls=1)
    found = await desk.library.retrieve("default", PRIVATE, QUESTION)
    assert [chunk.text for chunk in found] == RANKED
    (called,) = await desk.of_nobody()
    assert (called["by"], called["operation"], called["status"]) == ("knowledge", "rerank", "completed")
    assert "run_usage" not in called
    assert await desk.ask(run) == AS_FOUND, "the budget is the same one"


async def test_a_retrieval_after_a_run_is_not_charged_to_the_run(desk: Desk, make_agent: Any) -> None:
    run = await desk.reader(make_agent())
    await desk.ask(run)
    await desk.library.retrieve("default", PRIVATE, QUESTION)
    await until(lambda: sum(row.type == "model.called" for row in desk.house.store.records(0, 1000)) == 2)
    assert len(desk.house.records(run, "model.called")) == 1


async def test_a_model_test_is_charged_to_the_workspace_with_its_actor(desk: Desk) -> None:
    await desk.save("small", price={"input": 100.0, "output": 1000.0})
    desk.of_workspace = Spending(calls=2)
    tried = [await try_model(desk.desk, desk.house.clock, ANN, "small") for _ in range(3)]
    assert [each["ok"] for each in tried] == [True, True, False]
    assert tried[2]["reason"] == "budget_exceeded"
    first, _, refused = await desk.of_nobody(3)
    assert (first["by"], first["model_id"], first["operation"]) == ("user:ann", "small", "stream")
    assert (first["usage"]["total_tokens"], first["cost"], first["estimated"]) == (12, 0.003, False)
    assert (refused["status"], refused["reason"]) == ("refused", "budget_exceeded")
    assert desk.counts.calls == {("small", "stream", "completed"): 2, ("small", "stream", "refused"): 1}
    assert desk.counts.cost == {("small", "USD"): pytest.approx(0.006)}


async def test_a_test_of_every_model_type_is_counted_by_its_operation(desk: Desk) -> None:
    await desk.save("vectors", style="openai-embeddings")
    for model in ("ranker", "vectors"):
        assert (await try_model(desk.desk, desk.house.clock, ANN, model))["ok"]
    assert set(desk.counts.calls) == {("ranker", "rerank", "completed"), ("vectors", "embed", "completed")}
