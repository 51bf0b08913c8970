"""`models.*`: a run asks the models that it was granted, within its budgets, and each call leaves one record."""

import asyncio
import base64
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.host.run_api.conftest import House, Refused
from tests.replacement import replace

from bollard.host.actions.budgets import Budgets
from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import BudgetPolicy, ResourceRule, Spending
from bollard.host.capabilities.sources import Sources
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connections import Judge
from bollard.host.errors import ModelFailed
from bollard.host.grants.grant import resources_of
from bollard.host.grants.revocation import Revocation
from bollard.host.http.resources.run_rows import run_of
from bollard.host.log.rebuild import rebuild
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.models.boundary import ModelBackend, ModelCall, Vectors
from bollard.host.models.calls import ModelGateway, open_backend
from bollard.host.models.pricing import WorkspaceLedger
from bollard.host.models.registry import ModelRegistry
from bollard.host.models.source import ModelSource
from bollard.host.models.specs import SavedModel
from bollard.host.run_api.handlers import model_handlers
from bollard.host.run_api.models import ModelPorts, Models
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.runs.live_run import LiveRun
from bollard.host.secrets.sealing import Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.store.queries import InputFilter, RunQuery
from bollard.host.telemetry.counts import ModelCounts
from bollard.host.telemetry.tracer import Span, Tracer
from bollard.protocol import Message, MessageChunk, ModelResource, RerankScore, Usage

WAIT_S = 30
HELLO = [{"role": "user", "content": "hello"}]
SMALL = {"style": "openai-chat", "base_url": "https://models.example/v1", "model": "tiny", "secret": "KEY"}


class Scripted:
    """A backend with scripted answers that records its requests."""

    def __init__(self, spec: SavedModel) -> None:
        self.spec = spec
        self.calls: list[ModelCall] = []
        self.keys: list[str | None] = []
        self.chunks: list[MessageChunk] = [
            MessageChunk(content="hel"),
            MessageChunk(content="lo"),
            MessageChunk(finish_reason="stop", usage=Usage(prompt_tokens=10, completion_tokens=2, total_tokens=12)),
        ]
        self.usage: Usage | None = Usage(prompt_tokens=10, completion_tokens=2, total_tokens=12)
        self.failure: ModelFailed | None = None
        self.hold: asyncio.Event | None = None
        self.given_up = 0
        self.closed = False

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        self._asked(call, key)
        try:
            for chunk in self.chunks:
                yield chunk
                if self.hold is not None:
                    await self.hold.wait()
            if self.failure is not None:
                raise self.failure
        except (asyncio.CancelledError, GeneratorExit):
            self.given_up += 1
            raise

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        self._asked(call, key)
        if self.failure is not None:
            raise self.failure
        if self.hold is not None:
            await self.hold.wait()
        return Message(role="assistant", content="hello", finish_reason="stop", usage=self.usage)

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        del query, documents, top_k
        self.keys.append(key)
        if self.hold is not None:
            await self.hold.wait()
        if self.failure is not None:
            raise self.failure
        return (RerankScore(index=1, score=0.5),)

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:
        del key
        return Vectors(2, tuple(b"\0" * 8 for _ in texts))

    async def close(self) -> None:
        self.closed = True

    def _asked(self, call: ModelCall, key: str | None) -> None:
        self.calls.append(call)
        self.keys.append(key)


class Shop:
    """A house that has models."""

    def __init__(self, house: House, folder: Any) -> None:
        self.house = house
        self.redactor = house.redactor
        self.vault = Vault(
            journal=house.journal, clock=house.clock, sealer=Sealer(folder / "secrets.key"), redactor=self.redactor
        )
        self.opened: list[Scripted] = []
        self.spans: list[Span] = []
        self.counts = ModelCounts()
        self.of_workspace = Spending()
        """The daily spending of every workspace."""
        self.book = ModelRegistry(SavedChanges(house.journal, house.clock))
        ledger = WorkspaceLedger(house.journal, house.clock)
        self.desk = ModelGateway(
            self.book, self.vault, self.redactor, house.clock, self._open, egress=EgressClient(), ledger=ledger
        )
        self.tracer = Tracer(house.clock, self.spans.append)
        self.models = Models(
            ModelPorts(
                gateway=self.desk,
                budgets=Budgets(house.clock, lambda _: self.of_workspace),
                clock=house.clock,
                counts=self.counts,
                tracer=self.tracer,
                find=ArtifactReach(house.store, house.clock).find,
                blobs=house.blobs,
            )
        )
        house.handlers.update(model_handlers(self.models))
        house.streams["models.stream"] = self.models.stream
        house.offer(Sources([ModelSource(self.book)]))

    def _open(self, spec: SavedModel, judge: Judge) -> ModelBackend:
        if spec.style == "demo":
            return open_backend(spec, judge)
        self.opened.append(Scripted(spec))
        return self.opened[-1]

    async def save(self, model_id: str = "small", **more: Any) -> None:
        body = {**SMALL, **more}
        await self.book.save(body, "default", model_id, by="ann", edited=None)
        if body.get("secret") and self.vault.find("default", "KEY") is None:
            await self.vault.set("default", "KEY", "sk-not-for-anybody", by="ann")

    def agent(self, base: Agent, *models: str, budget: BudgetPolicy | None = None) -> Agent:
        resources = {**base.policy.access.resources, "models": ResourceRule(add=models)}
        policy = replace(
            base.policy, access=replace(base.policy.access, resources=resources), budget=budget or BudgetPolicy()
        )
        return replace(base, policy=policy)

    async def begin(self, base: Agent, *models: str, budget: BudgetPolicy | None = None) -> LiveRun:
        run = await self.house.begin(self.agent(base, *models, budget=budget))
        run.trace = self.tracer.run(run.facts.run_id, None)
        run.span = self.tracer.open_run(run.trace)
        return run

    async def called(self, run: LiveRun, count: int = 1) -> list[dict[str, Any]]:
        """The records of its calls, once there are so many on disk."""
        await until(lambda: len(self.house.records(run, "model.called")) >= count)
        return self.house.records(run, "model.called")


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 -- the condition has no notification
            await asyncio.sleep(0.005)


@pytest.fixture
def shop(memory_house: House, tmp_path: Any) -> Shop:
    return Shop(memory_house, tmp_path)


async def test_a_run_calls_a_granted_model_and_the_call_is_in_its_ledger_and_usage(
    house: House, tmp_path: Any, make_agent: Any
) -> None:
    shop = Shop(house, tmp_path)
    await shop.save(price={"input": 100.0, "output": 1000.0, "currency": "EUR"})
    run = await shop.begin(make_agent(), "small")

    answer = await house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    again = await house.ask(run, "models.invoke", model_id="small", messages=HELLO)

    assert (answer["content"], answer["usage"]["total_tokens"]) == ("hello", 12)
    assert again == answer
    first, second = await shop.called(run, 2)
    assert {name: first[name] for name in ("model_id", "provider", "model", "operation", "status")} == {
        "model_id": "small",
        "provider": "openai",
        "model": "tiny",
        "operation": "invoke",
        "status": "completed",
    }
    assert first["usage"] == {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    assert (first["cost"], first["currency"], first["estimated"]) == (0.003, "EUR", False)
    assert second["run_usage"]["cost"] == {"EUR": 0.006}
    await house.end(run)
    query = RunQuery(workspace=run.facts.workspace, limit=1)
    (listed,) = house.store.listed_runs(query, InputFilter(), 1).rows
    assert run_of(listed).usage == {
        "model_calls": 2,
        "prompt_tokens": 20,
        "completion_tokens": 4,
        "total_tokens": 24,
        "estimated": False,
        "cost": {"EUR": 0.006},
    }
    before = house.store.dump_projections()
    rebuild(house.store)
    assert house.store.dump_projections() == before
    assert house.records(run, "api.called")[0]["resource"] == "small"


async def test_an_ungranted_model_looks_absent(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "demo")
    foreign = await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)
    absent = await shop.house.refusal(run, "models.invoke", model_id="nowhere", messages=HELLO)
    assert foreign.code == "not_found"
    assert foreign.bytes == absent.bytes
    assert (await shop.house.refusal(run, "models.rerank", model_id="demo", query="q", documents=["d"])).code == (
        "capability_denied"
    )


async def test_the_resources_of_a_run_describe_its_models(shop: Shop, make_agent: Any) -> None:
    await shop.save(context_window=1000, vision=True)
    await shop.save("ranker", style="rerank")
    run = await shop.begin(make_agent(), "small", "ranker", "default", "nowhere")
    models = [ModelResource.from_wire(each) for each in resources_of(run.grant)["models"]]  # type: ignore[union-attr]
    assert [(each.model_id, each.model_type, each.provider, each.operations) for each in models] == [
        ("default", "llm", "openai", ("invoke", "stream")),
        ("ranker", "rerank", "rerank", ("rerank",)),
        ("small", "llm", "openai", ("invoke", "stream")),
    ]
    assert (models[2].context_window, models[2].vision, models[1].vision) == (1000, True, None)
    assert run.session.graph.get("model:small") is not None
    assert (await shop.house.refusal(run, "tools.call", name="model:small", parameters={})).code == "not_found"


async def test_the_demo_model_answers_offline_and_default_is_its_alias(shop: Shop, make_agent: Any) -> None:
    run = await shop.begin(make_agent(), "default")
    answer = await shop.house.ask(run, "models.invoke", model_id="default", messages=HELLO)
    assert answer["role"] == "assistant"
    assert answer["content"]
    (called,) = await shop.called(run)
    assert (called["model_id"], called["alias_of"], called["status"]) == ("default", "demo", "completed")


async def test_a_stream_passes_on_each_piece_and_writes_one_record(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    call = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    assert await asyncio.wait_for(call.outcome, WAIT_S) == {}
    assert [chunk.get("content") for chunk in call.chunks] == ["hel", "lo", ""]
    assert call.chunks[-1]["usage"]["total_tokens"] == 12
    (called,) = await shop.called(run)
    assert (called["operation"], called["status"], called["usage"]["total_tokens"]) == ("stream", "completed", 12)
    assert "first_token_ms" in called
    rows = shop.house.store.records_of_run(run.facts.run_id, 0, 1000)
    assert [row.type for row in rows].count("model.called") == 1
    assert len(rows) <= 6  # nothing was written for a piece


async def test_closing_a_stream_closes_the_provider_and_records_an_estimate(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    call = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    await until(call.outcome.done)
    shop.opened[0].hold = asyncio.Event()
    call2 = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    await until(lambda: call2.chunks)
    call2.give_up()
    await until(lambda: shop.opened[0].given_up)
    called = await shop.called(run, 2)
    cut = next(each for each in called if each["status"] == "cancelled")
    assert cut["estimated"] is True
    assert cut["usage"]["prompt_tokens"] > 0


async def test_a_run_stopped_during_a_call_still_has_its_record(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    shop_call = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    await until(shop_call.outcome.done)
    shop.opened[0].hold = asyncio.Event()
    held = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    await until(lambda: held.chunks)
    await shop.house.end(run)
    assert [each["status"] for each in shop.house.records(run, "model.called")] == ["completed", "cancelled"]
    held.give_up()  # as the channel does
    await until(lambda: shop.opened[0].given_up)


@pytest.mark.parametrize(
    ("reason", "emitted", "code", "retryable"),
    [
        ("rate_limited", False, "rate_limited", True),
        ("timeout", False, "deadline_exceeded", True),
        ("context_length", False, "payload_too_large", False),
        ("overloaded", False, "runtime_error", True),
        ("overloaded", True, "runtime_error", False),
        ("unauthorized", False, "runtime_error", False),
    ],
)
async def test_a_failure_of_the_provider_reaches_the_runner_with_its_reason(
    shop: Shop, make_agent: Any, reason: str, emitted: bool, code: str, retryable: bool
) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    shop.opened[0].failure = ModelFailed("the provider said no", reason=reason, emitted=emitted, status=429)
    refused = await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)
    assert (refused.code, refused.details["reason"], refused.details["status"]) == (code, reason, 429)
    assert (b'"retryable":true' in refused.bytes) is retryable
    _, failed = await shop.called(run, 2)
    assert (failed["status"], failed["reason"], failed["usage"]["total_tokens"]) == ("failed", reason, 0)
    assert shop.counts.errors == {reason: 1}


async def test_a_token_budget_refuses_a_call_beyond_it(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    budget = BudgetPolicy(per_run=Spending(tokens=25))
    run = await shop.begin(make_agent(), "small", budget=budget)
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    beyond = await shop.house.refusal(
        run, "models.invoke", model_id="small", messages=HELLO, extra_args={"max_tokens": 100}
    )
    assert beyond.code == "budget_exceeded"
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    assert (await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)).code == "budget_exceeded"
    statuses = [each["status"] for each in await shop.called(run, 4)]
    assert statuses == ["completed", "refused", "completed", "refused"]
    assert shop.house.records(run, "model.called")[1]["reason"] == "budget_exceeded"


async def test_a_cost_budget_covers_all_runs_of_the_agent_and_unknown_usage_is_estimated(
    shop: Shop, make_agent: Any
) -> None:
    await shop.save(price={"input": 1_000_000.0, "output": 0.0})
    budget = BudgetPolicy(per_day=Spending(cost=30))
    run = await shop.begin(make_agent(), "small", budget=budget)
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)  # 10 as reported by the provider
    shop.opened[0].usage = None
    await shop.house.ask(run, "models.invoke", model_id="small", messages=[{"role": "user", "content": "x" * 60}])
    _, guessed = await shop.called(run, 2)
    assert (guessed["estimated"], guessed["usage"]["prompt_tokens"]) == (True, 19)
    other = await shop.begin(make_agent(), "small", budget=budget)
    assert (
        await shop.house.refusal(other, "models.invoke", model_id="small", messages=HELLO)
    ).code == "budget_exceeded"


async def test_concurrent_calls_cannot_spend_the_same_budget(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small", budget=BudgetPolicy(per_run=Spending(tokens=60)))
    asked = [
        shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO, extra_args={"max_tokens": 20})
        for _ in range(5)
    ]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Refused) for each in done) >= 3


async def test_a_model_has_a_limit_of_concurrent_calls_and_the_others_wait(shop: Shop, make_agent: Any) -> None:
    await shop.save(at_once=1)
    run = await shop.begin(make_agent(), "small")
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    backend = shop.opened[0]
    backend.hold = asyncio.Event()
    calls = [
        asyncio.create_task(shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)) for _ in range(3)
    ]
    await until(lambda: len(backend.calls) == 2)
    await asyncio.sleep(0)
    assert len(backend.calls) == 2
    backend.hold.set()
    assert len(await asyncio.gather(*calls)) == 3


async def test_an_exhausted_rate_gives_a_retry_time(shop: Shop, make_agent: Any) -> None:
    await shop.save(requests_per_minute=2)
    run = await shop.begin(make_agent(), "small")
    for _ in range(2):
        await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    refused = await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)
    assert refused.code == "rate_limited"
    assert 0 < float(refused.details["retry_after_s"]) <= 30  # type: ignore[arg-type]
    shop.house.clock.advance(31)
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)


async def test_the_key_is_read_from_the_vault_once_per_run_and_never_logged(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    for _ in range(2):
        await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    assert shop.opened[0].keys == ["sk-not-for-anybody"] * 2
    used = [row for row in shop.house.store.records(0, 1000) if row.type == "secret.used"]
    assert [msgspec.json.decode(row.data or b"")["by"] for row in used] == [f"run:{run.facts.run_id}"]
    await shop.vault.set("default", "KEY", "sk-another-for-nobody", by="ann")
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    assert shop.opened[0].keys[-1] == "sk-another-for-nobody"
    log = b"".join(row.data or b"" for row in shop.house.store.records(0, 1000))
    assert b"sk-not-for" not in log
    assert b"sk-another-for" not in log


async def test_a_model_with_a_deleted_key_is_unauthorized_and_names_its_secret(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    await shop.vault.delete("default", "KEY", by="ann")
    run = await shop.begin(make_agent(), "small")
    refused = await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)
    assert (refused.code, refused.details["reason"]) == ("runtime_error", "unauthorized")
    assert refused.message.endswith("there is no secret KEY")


CAT = b"\x89PNG" + b"\0" * 1_500_000
"""An image beyond the part of a blob that is read at once."""


async def test_artifacts_of_the_conversation_are_sent_as_images_and_files(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    shop.house.put_artifact("cat", CAT, of=run, mime_type="image/png", flow=2)
    shop.house.put_artifact("note", b"words", of=run)
    shop.house.put_artifact("foreign", b"words", of=await shop.house.begin(make_agent(), conversation="elsewhere"))
    parts = [{"type": "text", "text": "look"}, {"type": "artifact", "artifact_id": "cat"}]
    parts.append({"type": "artifact", "artifact_id": "note"})
    await shop.house.ask(run, "models.invoke", model_id="small", messages=[{"role": "user", "content": parts}])
    sent = shop.opened[0].calls[0].messages[0].to_wire()["content"]
    assert sent == [
        {"type": "text", "text": "look"},
        {"type": "image_base64", "image_base64": "data:image/png;base64," + base64.b64encode(CAT).decode()},
        {"type": "file_base64", "file_base64": base64.b64encode(b"words").decode(), "file_name": "note.txt"},
    ]
    assert run.flow & 2
    hidden = [{"role": "user", "content": [{"type": "artifact", "artifact_id": "foreign"}]}]
    assert (await shop.house.refusal(run, "models.invoke", model_id="small", messages=hidden)).code == "not_found"
    run.revoked = Revocation(operations=frozenset({"artifacts.read"}))
    seen = [{"role": "user", "content": parts}]
    assert (await shop.house.refusal(run, "models.invoke", model_id="small", messages=seen)).code == "revoked"


async def test_too_many_artifacts_are_refused_before_the_first_read(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    parts = [{"type": "artifact", "artifact_id": f"a{number}"} for number in range(33)]
    many = [{"role": "user", "content": parts}]
    assert (await shop.house.refusal(run, "models.invoke", model_id="small", messages=many)).code == "payload_too_large"


@pytest.mark.parametrize("name", ["model", "Messages", "stream", "tools", "n"])
async def test_an_argument_that_changes_the_call_is_refused(shop: Shop, make_agent: Any, name: str) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    refused = await shop.house.refusal(
        run, "models.invoke", model_id="small", messages=HELLO, extra_args={name: "another"}
    )
    assert (refused.code, refused.details["field"]) == ("invalid_argument", f"extra_args.{name}")
    assert not shop.opened


async def test_rerank_and_embed_answer_in_the_shapes_of_the_protocol(shop: Shop, make_agent: Any) -> None:
    await shop.save("ranker", style="rerank")
    await shop.save("vectors", style="openai-embeddings")
    run = await shop.begin(make_agent(), "ranker", "vectors")
    ranked = await shop.house.ask(run, "models.rerank", model_id="ranker", query="q", documents=["a", "b"])
    assert ranked["results"] == [{"index": 1, "score": 0.5}]
    embedded = await shop.house.ask(run, "models.embed", model_id="vectors", texts=["a", "b"])
    assert (embedded["dimensions"], len(embedded["vectors_base64"])) == (2, 2)
    assert [each["operation"] for each in await shop.called(run, 2)] == ["rerank", "embed"]


async def test_a_call_is_a_span_under_its_run_with_the_conventional_attributes(shop: Shop, make_agent: Any) -> None:
    await shop.save(price={"input": 100.0, "output": 1000.0})
    run = await shop.begin(make_agent(), "small")
    call = shop.house.begin_stream(run, "models.stream", model_id="small", messages=HELLO)
    await asyncio.wait_for(call.outcome, WAIT_S)
    (span,) = [each for each in shop.spans if each.name == "chat tiny"]
    assert run.span is not None
    assert span.parent_id == run.span.context.span_id
    assert span.kind == "client"
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.attributes["gen_ai.usage.input_tokens"] == 10
    assert span.attributes["gen_ai.usage.output_tokens"] == 2
    assert span.attributes["bollard.model.cost"] == 0.003
    assert not [each for each in shop.spans if each.name.startswith("api models")]


async def test_a_changed_model_gets_another_backend_and_the_old_one_is_closed(shop: Shop, make_agent: Any) -> None:
    await shop.save()
    run = await shop.begin(make_agent(), "small")
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    await shop.save(model="larger")
    await shop.house.ask(run, "models.invoke", model_id="small", messages=HELLO)
    assert [each.spec.model for each in shop.opened] == ["tiny", "larger"]
    await until(lambda: shop.opened[0].closed)
    await shop.book.delete("default", "small", by="ann", edited=None)
    assert (await shop.house.refusal(run, "models.invoke", model_id="small", messages=HELLO)).code == "not_found"
    await shop.desk.close()
    assert shop.opened[1].closed


async def test_the_model_modules_are_loaded_on_first_use() -> None:
    """In another process, because this one has loaded everything."""
    script = (
        "import sys; import bollard.host.app; "
        "late = ('numpy', 'bollard.host.models.backends', 'bollard.host.models.demo', 'bollard.host.models.trial', "
        "'bollard.host.run_api.model_calls'); print([name for name in late if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.decode().strip() == "[]"
