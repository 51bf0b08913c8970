"""The size of a question, and the scale learned from the counts of providers."""

import pytest
from tests.local_agent.context_kit import memory, prepared
from tests.tables import for_each

from bollard.sdk import Message, Usage
from bollard.sdk.agent.token_budget import SCALE_KEY, PreparedRequest, budget_of, learned_scale, nears_budget
from bollard.sdk.agent.tokens import count
from bollard.sdk.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ASKED = [Message(role="user", content="word " * 1000)]


async def looked_at(then, window=None, config=None, **more):
    async def work(ctx, _):
        return then(ctx)

    return (await prepared(memory({"default": ScriptedModel(context_window=window)}, **more), "x", config, work))[0]


@for_each(
    ("window", "config", "tokens"),
    [
        (10_000, {}, 10_000 - 2500 - 400),
        (100_000, {}, 100_000 - 4096 - 4000),
        (10_000, {"max_tokens": 1000}, 10_000 - 1000 - 400),
        (10_000, {"max_tokens": 9999}, 10_000 - 5000 - 400),
        (None, {"context_window": 20_000}, 20_000 - 4096 - 800),
        (300, {}, 256),
        (2_000_000, {}, 160_000),
    ],
)
async def test_a_budget_is_the_window_without_the_answer(window, config, tokens):
    budget = await looked_at(lambda ctx: budget_of(ctx, ctx.config), window, config)
    assert budget.tokens == tokens
    assert budget.vision is False


async def test_a_token_count_of_the_provider_is_saved_for_the_next_run():
    told = Usage(prompt_tokens=count(ASKED) // 2)
    kept = await looked_at(lambda ctx: learned_scale(ctx, budget_of(ctx, ctx.config), ASKED, (), told))
    assert kept.data == {"scope": "conversation", "key": SCALE_KEY, "value": {"default": pytest.approx(0.75, abs=0.01)}}


@pytest.mark.parametrize("share", [1.0, 0.95, 1.08])
async def test_a_provider_with_the_same_count_changes_no_scale(share):
    told = Usage(prompt_tokens=round(count(ASKED) * share))
    assert await looked_at(lambda ctx: learned_scale(ctx, budget_of(ctx, ctx.config), ASKED, (), told)) is None


@pytest.mark.parametrize("told", [None, Usage(), Usage(completion_tokens=5)])
async def test_an_unknown_usage_is_not_zero(told):
    assert await looked_at(lambda ctx: learned_scale(ctx, budget_of(ctx, ctx.config), ASKED, (), told)) is None


async def test_the_models_of_a_conversation_have_separate_scales_with_a_limit():
    known = {f"model-{at}": 0.5 for at in range(8)}
    told = Usage(prompt_tokens=count(ASKED) * 2)
    kept = await looked_at(
        lambda ctx: learned_scale(ctx, budget_of(ctx, ctx.config), ASKED, (), told),
        state={"conversation": {SCALE_KEY: known}},
    )
    assert len(kept.data["value"]) == 8
    assert "model-0" not in kept.data["value"]
    assert kept.data["value"]["default"] == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize(("used", "near"), [(1000, False), (6300, False), (6500, True), (90_000, True)])
async def test_a_run_knows_if_the_next_turn_may_not_fit(used, near):
    assert await looked_at(lambda ctx: nears_budget(ctx, ctx.config, used), 10_000) is near


def test_an_unprepared_request_is_empty():
    assert PreparedRequest().messages == []
    assert PreparedRequest().prefix_tokens == 0
