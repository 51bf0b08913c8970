"""The registry of models: the models of the environment, the alias `default`, the round trip of a saved model, and the
pace and the price of calls."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import Conflict, InvalidRequest, NotFound, Overloaded, SettingsError
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.models.pacing import Bucket, ModelPace
from bollard.host.models.pricing import CallCost, added, cost_of, guess_text, spent_of
from bollard.host.models.registry import ModelRegistry, models_of_environment
from bollard.host.models.source import ModelSource
from bollard.host.models.specs import SavedModel, SavedPrice
from bollard.protocol import Usage

SMALL: dict[str, Any] = {"style": "openai-chat", "base_url": "https://example.org/v1/", "model": "tiny"}


class NoJournal:
    """Where nothing is saved."""


def book(environment: dict[str, str] | None = None, default_model: str = "") -> ModelRegistry:
    changes = SavedChanges(NoJournal(), ManualClock())  # type: ignore[arg-type]
    return ModelRegistry(changes, environment=models_of_environment(environment or {}), default_model=default_model)


def test_the_environment_names_models_by_the_usual_variables() -> None:
    found = models_of_environment(
        {
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1/",
            "OPENAI_API_KEY": "sk-1",
            "OPENAI_MODEL": "tiny",
            "ANTHROPIC_API_KEY": "sk-2",
        }
    )
    assert [(each.spec.model_id, each.spec.style, each.key) for each in found] == [
        ("openai", "openai-chat", "sk-1"),
        ("anthropic", "anthropic", "sk-2"),
    ]
    assert (found[0].spec.base_url, found[0].spec.model) == ("http://127.0.0.1:9/v1", "tiny")
    assert "sk-1" not in repr(found)


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": "sk-1"}, {"OPENAI_BASE_URL": "  "}])
def test_an_incomplete_environment_names_no_model(environment: dict[str, str]) -> None:
    assert models_of_environment(environment) == ()


def test_an_invalid_environment_is_refused_with_its_variable() -> None:
    with pytest.raises(SettingsError) as refused:
        models_of_environment({"OPENAI_BASE_URL": "http://169.254.169.254/v1"})
    assert refused.value.details["field"] == "OPENAI_BASE_URL"


def test_default_is_the_model_of_the_settings_the_environment_or_the_demo() -> None:
    there = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "ANTHROPIC_API_KEY": "sk-2"}
    assert book().get("w", "default").alias_of == "demo"
    assert book(there).get("w", "default").alias_of == "openai"
    assert book(there, "anthropic").get("w", "default").alias_of == "anthropic"
    assert book(there, "nowhere").get("w", "default").alias_of == "openai"
    assert book({}, "default").get("w", "default").alias_of == "demo"


def test_default_means_nothing_in_a_workspace_that_lacks_the_model_of_the_settings() -> None:
    assert book().missing_default("w") is None
    assert book({}, "demo").missing_default("w") is None
    missing = book({}, "nowhere").missing_default("w")
    assert missing is not None
    assert missing.command == "BOLLARD_WORKSPACE=w bollard models add nowhere --preset NAME"
    assert book({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "nowhere").missing_default("w") is None
    about = {each.name: each.about for each in ModelSource(book({}, "nowhere")).capabilities("w")}
    assert about["default"]["missing_default"] == missing.command
    assert "missing_default" not in about["demo"]


async def test_builtin_models_and_models_of_the_environment_cannot_be_edited() -> None:
    models = book({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    for model_id in ("demo", "default", "openai"):
        with pytest.raises(Conflict):
            await models.save(SMALL, "w", model_id, by="ann", edited=None)
        with pytest.raises(Conflict):
            await models.delete("w", model_id, by="ann", edited=None)
    with pytest.raises(NotFound):
        models.get("w", "nowhere")


def test_every_model_of_a_workspace_is_offered_but_not_as_a_tool() -> None:
    source = ModelSource(book({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}))
    offered = source.capabilities("w")
    assert [each.id for each in offered] == ["model:default", "model:demo", "model:openai"]
    assert {each.kind for each in offered} == {"model"}
    assert source.capabilities("w") is offered


def test_a_saved_model_reads_back_the_same() -> None:
    spec = SavedModel.read(
        {
            **SMALL,
            "model_id": "a",
            "secret": "KEY",
            "headers": {"X-Tenant": "one"},
            "context_window": 10,
            "price": {"input": 1.5, "cached_input": 0.1, "currency": "EUR"},
            "extra_args": {"temperature": 0},
            "tokens_per_minute": 100,
        }
    )
    assert spec.base_url == "https://example.org/v1"
    assert spec.price == SavedPrice(input=1.5, cached_input=0.1, currency="EUR")
    assert SavedModel.read(spec.to_wire()) == spec


@pytest.mark.parametrize(
    ("style", "kind"), [("openai-responses", "llm"), ("openai-embeddings", "embedding"), ("rerank", "rerank")]
)
def test_the_style_determines_the_type_of_a_model(style: str, kind: str) -> None:
    assert SavedModel.read({**SMALL, "model_id": "a", "style": style}).model_type == kind


def test_a_chat_model_cannot_have_a_rerank_style() -> None:
    with pytest.raises(InvalidRequest):
        SavedModel.read({**SMALL, "model_id": "a", "style": "rerank", "model_type": "llm"})


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), max_size=60))
def test_a_bucket_never_exceeds_its_rate_and_capacity(asked: list[tuple[float, int]]) -> None:
    bucket, now, taken = Bucket(60), 0.0, 0
    for after, amount in asked:
        now += after
        if bucket.wait_s(now, amount) is None:
            bucket.take(now, amount)
            taken += amount
    assert taken <= 60 + now + 1e-6


def test_a_wait_as_long_as_the_bucket_requires_succeeds() -> None:
    bucket = Bucket(60)
    bucket.take(0.0, 60)
    wait_s = bucket.wait_s(0.0, 10)
    assert wait_s == pytest.approx(10.0)
    assert bucket.wait_s(10.001, 10) is None
    assert bucket.wait_s(10.001, 1000) == pytest.approx(60 - 10.001)  # never longer than until it is full


async def test_unused_tokens_are_returned_and_excess_tokens_are_owed() -> None:
    clock = ManualClock()
    pace = ModelPace(SavedModel(model_id="a", model_type="llm", style="demo", tokens_per_minute=60), clock)
    async with pace.place(60):
        pass
    with pytest.raises(Overloaded) as refused:
        async with pace.place(10):
            pass
    assert refused.value.details["retry_after_s"] == pytest.approx(10)
    pace.settle(60, 10)
    async with pace.place(50):
        pass
    pace.settle(50, 110)
    with pytest.raises(Overloaded) as owing:
        async with pace.place(1):
            pass
    assert float(str(owing.value.details["retry_after_s"])) > 60


async def test_a_cancelled_waiter_returns_its_slot() -> None:
    pace = ModelPace(SavedModel(model_id="a", model_type="llm", style="demo", at_once=1), ManualClock())

    async def hold(until: asyncio.Event) -> None:
        async with pace.place(1):
            await until.wait()

    done = asyncio.Event()
    holding = asyncio.create_task(hold(done))
    waiting = asyncio.create_task(hold(done))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    done.set()
    await holding
    async with asyncio.timeout(30), pace.place(1):
        pass


def test_a_token_is_about_one_chinese_character_or_four_letters() -> None:
    assert guess_text("") == 0
    assert guess_text("abcdefgh") == 2
    assert guess_text("系泊柱") == 3
    assert guess_text("系泊 bollard") == 2 + 2


def test_reported_usage_is_used_and_missing_usage_is_estimated_and_marked() -> None:
    price = SavedPrice(input=1.0, output=2.0, cached_input=0.5)
    told = spent_of(Usage(prompt_tokens=100, completion_tokens=10), price, prompt=5, completion=5, cached=40)
    assert (told.tokens, told.estimated) == (110, False)
    assert told.cost == pytest.approx((60 * 1.0 + 40 * 0.5 + 10 * 2.0) / 1_000_000)
    whole = spent_of(Usage(prompt_tokens=100, total_tokens=130), None, prompt=5, completion=5)
    assert (whole.completion_tokens, whole.estimated, whole.cost) == (30, False, None)
    guessed = spent_of(None, price, prompt=5, completion=7)
    assert (guessed.tokens, guessed.estimated) == (12, True)
    assert cost_of(SavedPrice(input=1.0), 1_000_000, 0, 2_000_000) == 1.0


def test_costs_of_two_currencies_are_separate() -> None:
    one = CallCost(prompt_tokens=1, completion_tokens=1, cost=0.1, currency="USD", estimated=False)
    two = CallCost(prompt_tokens=1, completion_tokens=1, cost=0.2, currency="CNY", estimated=True)
    total = added(added(added(None, one), two), one)
    assert total["cost"] == {"USD": 0.2, "CNY": 0.2}
    assert (total["model_calls"], total["total_tokens"], total["estimated"]) == (3, 6, True)
