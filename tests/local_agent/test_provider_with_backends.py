"""The host's backends and the loopback provider were written apart: they understand each other in every format."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from tests.local_agent.provider_kit import RunningProvider

from bollard.host.errors import ModelFailed
from bollard.host.models.backends import open_backend
from bollard.host.models.boundary import ModelCall, Style
from bollard.host.models.calls import provider_addresses
from bollard.host.models.specs import SavedModel
from bollard.protocol import FunctionTool, Message, MessageChunk

pytestmark = pytest.mark.anyio

STYLES: tuple[Style, ...] = ("openai-chat", "openai-responses", "anthropic")
WEATHER = FunctionTool.model_validate({"function": {"name": "weather", "parameters": {"type": "object"}}})


def spec_of(provider: RunningProvider, style: Style, **fields: Any) -> SavedModel:
    return SavedModel(
        model_id="m", style=style, base_url=provider.url, model="loopback", **{"model_type": "llm", **fields}
    )


def asking(text: str) -> ModelCall:
    spoken = (Message(role="system", content="be kind"), Message(role="user", content=text))
    return ModelCall(messages=spoken, tools=(WEATHER,))


async def streamed(provider: RunningProvider, style: Style, text: str) -> list[MessageChunk]:
    backend = open_backend(spec_of(provider, style, tries=1), provider_addresses)
    try:
        return [chunk async for chunk in backend.stream(asking(text), "the-key")]
    finally:
        await backend.close()


async def invoked(provider: RunningProvider, style: Style, text: str, **fields: Any) -> Message:
    backend = open_backend(spec_of(provider, style, **fields), provider_addresses)
    try:
        return await backend.invoke(asking(text), "the-key")
    finally:
        await backend.close()


@pytest.mark.parametrize("style", STYLES)
async def test_text_reasoning_and_usage_reach_the_backend(provider: RunningProvider, style: Style) -> None:
    script = {"reasoning": "well then", "text": "你好, boats.", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    provider.script(script, {**script, "bytewise": True, "noise": True})
    whole = await invoked(provider, style, "hi")
    chunks = await streamed(provider, style, "hi")
    assert whole.content == "".join(str(chunk.content) for chunk in chunks) == "你好, boats."
    assert (whole.reasoning or "").strip() == "".join(chunk.reasoning or "" for chunk in chunks).strip() == "well then"
    assert whole.finish_reason == chunks[-1].finish_reason == "stop"
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (5, 2)
    assert chunks[-1].usage == whole.usage


@pytest.mark.parametrize("style", STYLES)
async def test_tool_calls_reach_the_backend_whole_and_in_increments(provider: RunningProvider, style: Style) -> None:
    text = 'call weather {"city": "Oslo"}\ncall weather {}'
    whole = await invoked(provider, style, text)
    assert whole.tool_calls is not None
    assert [json.loads(call.function.arguments) for call in whole.tool_calls] == [{"city": "Oslo"}, {}]
    written = {0: "", 1: ""}
    for chunk in await streamed(provider, style, text):
        for part in chunk.tool_calls or ():
            written[part.index] += (part.function.arguments if part.function else None) or ""
    assert [json.loads(text) for text in written.values()] == [{"city": "Oslo"}, {}]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("fault", ["broken_sse", "half_utf8", "no_finish", "disconnect", "error_event"])
async def test_a_broken_stream_fails_after_its_first_words(provider: RunningProvider, style: Style, fault: str) -> None:
    provider.script({"text": "one two three", "fault": fault, "after": 1})
    with pytest.raises(ModelFailed) as failure:
        await streamed(provider, style, "hi")
    assert failure.value.details["emitted"] is True
    assert failure.value.details["reason"] in {"broken_answer", "overloaded"}


@pytest.mark.parametrize("style", STYLES)
async def test_a_busy_provider_is_retried_before_the_first_word(provider: RunningProvider, style: Style) -> None:
    provider.script({"status": 429, "headers": {"retry-after": "0"}}, {"status": 529}, {"text": "at last"})
    answer = await invoked(provider, style, "hi", tries=3)
    assert answer.content == "at last"
    assert [seen["status"] for seen in provider.requests()] == [429, 529, 200]


async def test_the_key_is_sent_in_the_form_of_each_vendor(provider: RunningProvider) -> None:
    for style in STYLES:
        await invoked(provider, style, "hi")
    headers = [seen["headers"] for seen in provider.requests()]
    assert [one.get("authorization", one.get("x-api-key")) for one in headers] == [
        "Bearer the-key",
        "Bearer the-key",
        "the-key",
    ]


async def test_a_closed_stream_closes_the_connection_to_the_provider(provider: RunningProvider) -> None:
    provider.script({"text": "one two", "fault": "hang", "after": 1})
    backend = open_backend(spec_of(provider, "openai-chat"), provider_addresses)
    async with aclosing(backend.stream(asking("hi"), None)) as stream:
        assert (await anext(stream)).content == "one "
    await provider.wait_for(lambda seen: seen[0]["client_left"])
    await backend.close()


async def test_many_concurrent_calls_stay_separate(provider: RunningProvider) -> None:
    backend = open_backend(spec_of(provider, "openai-chat", at_once=8), provider_addresses)
    answers = await asyncio.gather(*(backend.invoke(asking(f"number {n}"), None) for n in range(40)))
    await backend.close()
    assert [answer.content for answer in answers] == [f"You said: number {n}" for n in range(40)]


async def test_rerank_and_embeddings_reach_the_backend(provider: RunningProvider) -> None:
    reranker = open_backend(spec_of(provider, "rerank", model_type="rerank"), provider_addresses)
    best = await reranker.rerank("red boat", ["a car", "a red boat"], 1, None)
    await reranker.close()
    assert [(score.index, score.score) for score in best] == [(1, 1.0)]
    embedder = open_backend(spec_of(provider, "openai-embeddings", model_type="embedding"), provider_addresses)
    vectors = await embedder.embed(["a", "b"], None)
    await embedder.close()
    assert vectors.dimensions == 64
    assert [len(content) for content in vectors.content] == [256, 256]
