"""Every format over a real connection: the same answer at any cut, and no answer that only looks like one."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.host.models.answers import CALLS, SPOKEN, TEXT, THOUGHT, USAGE, Spoken
from tests.host.models.conftest import Open
from tests.host.models.provider import KEY, PATIENCE_S, Provider, Reply, bytewise, call, events, whole

from bollard.host.errors import ModelFailed
from bollard.host.models.boundary import ModelBackend
from bollard.protocol import MessageChunk, Usage

STYLES = pytest.mark.parametrize("spoken", SPOKEN, ids=lambda spoken: spoken.style)


async def gathered(chunks: AsyncIterator[MessageChunk]) -> list[MessageChunk]:
    async with asyncio.timeout(PATIENCE_S):
        return [chunk async for chunk in chunks]


async def failure(backend: ModelBackend) -> tuple[list[MessageChunk], ModelFailed]:
    """The chunks before the failure, and the failure."""
    came: list[MessageChunk] = []

    async def gather() -> None:
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in backend.stream(call(), KEY):
                came.append(chunk)  # noqa: PERF401 -- those before the failure count

    with pytest.raises(ModelFailed) as told:
        await gather()
    return came, told.value


def assembled(chunks: Sequence[MessageChunk]) -> list[tuple[str, str, str]]:
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        for each in chunk.tool_calls or ():
            at = calls.setdefault(each.index, ["", "", ""])
            at[0] += each.id or ""
            if each.function is not None:
                at[1] += each.function.name or ""
                at[2] += each.function.arguments or ""
    return [(a, b, c) for _, (a, b, c) in sorted(calls.items())]


def check_stream(chunks: Sequence[MessageChunk], spoken: Spoken) -> None:
    assert "".join(str(chunk.content) for chunk in chunks) == TEXT
    assert "".join(chunk.reasoning or "" for chunk in chunks) == THOUGHT
    assert [(a, b, json.loads(c)) for a, b, c in assembled(chunks)] == [(a, b, json.loads(c)) for a, b, c in CALLS]
    assert all(chunk.finish_reason is None and chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].finish_reason == "tool_calls"
    assert chunks[-1].usage == Usage(prompt_tokens=USAGE[0], completion_tokens=USAGE[1], total_tokens=USAGE[2])
    assert chunks[-1].metadata == spoken.metadata
    assert not any(chunk == MessageChunk() for chunk in chunks)


@STYLES
async def test_a_stream_is_the_same_in_any_pieces_and_line_ends(
    spoken: Spoken, there: Provider, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bollard.host.egress.connections.EGRESS_SETTLE_S", PATIENCE_S)
    backend = opened(style=spoken.style)
    crlf = spoken.stream.replace(b"\n", b"\r\n")
    there.say(
        Reply([spoken.stream]),
        Reply(bytewise(spoken.stream)),
        Reply(bytewise(crlf)),
        Reply([spoken.stream.replace(b"\n", b"\r")], framing="length"),
        Reply([spoken.stream.rstrip(b"\n")], framing="close"),
    )
    for _ in range(5):
        check_stream(await gathered(backend.stream(call(), KEY)), spoken)
    assert [asked.path for asked in there.asked] == [spoken.path] * 5
    assert there.connections == 1, "an answer that ends properly leaves its connection to the next"


@STYLES
async def test_a_whole_answer_is_one_message(spoken: Spoken, there: Provider, opened: Open) -> None:
    there.say(whole(spoken.whole), Reply(bytewise(json.dumps(spoken.whole).encode()), kind="application/json"))
    backend = opened(style=spoken.style)
    for _ in range(2):
        message = await backend.invoke(call(), KEY)
        assert (message.content, message.reasoning, message.finish_reason) == (TEXT, THOUGHT, "tool_calls")
        found = [
            (each.id, each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls or ()
        ]
        assert found == [(a, b, json.loads(c)) for a, b, c in CALLS]
        assert message.usage == Usage(prompt_tokens=USAGE[0], completion_tokens=USAGE[1], total_tokens=USAGE[2])
        assert message.metadata == spoken.metadata
    assert "stream" not in there.asked[0].body


@STYLES
async def test_a_whole_answer_to_a_stream_request_is_understood(spoken: Spoken, there: Provider, opened: Open) -> None:
    there.say(whole(spoken.whole))
    check_stream(await gathered(opened(style=spoken.style).stream(call(), KEY)), spoken)


@STYLES
async def test_a_chunk_is_passed_on_as_soon_as_its_bytes_arrive(spoken: Spoken, there: Provider, opened: Open) -> None:
    cut = spoken.stream.index(THOUGHT[:3].encode())
    cut = spoken.stream.index(b"\n\n", cut) + 2
    gate = asyncio.Event()
    there.say(Reply([spoken.stream[:cut], spoken.stream[cut:]], gate=gate))
    chunks = opened(style=spoken.style).stream(call(), KEY)
    async with asyncio.timeout(PATIENCE_S):
        first = await anext(chunks)
    assert first.reasoning
    assert THOUGHT.startswith(first.reasoning)
    gate.set()
    check_stream([first, *await gathered(chunks)], spoken)


@STYLES
async def test_an_interrupted_answer_is_an_error(spoken: Spoken, there: Provider, opened: Open) -> None:
    backend = opened(style=spoken.style)
    text = spoken.stream.index(TEXT[-5:].encode())
    middle = spoken.stream.index(b"\n\n", text) + 2
    half = spoken.stream.index("北".encode()) + 1
    there.say(
        Reply([spoken.stream[:middle]], end="cut"),
        Reply([spoken.stream[:middle]]),
        Reply([spoken.stream[:half]], framing="close"),
        Reply([spoken.stream[:middle], b'data: {"broken": \n\n', spoken.stream[middle:]]),
        Reply([spoken.stream[:middle], b"data: \xe4\xb8\n\n", spoken.stream[middle:]]),
        Reply([spoken.stream[:middle], b'data: {"a": 1, "a": 2}\n\n', spoken.stream[middle:]]),
    )
    for _ in range(6):
        came, error = await failure(backend)
        assert "".join(str(chunk.content) for chunk in came) == TEXT
        assert (error.details["reason"], error.details["emitted"]) == ("broken_answer", True)
        assert not error.retryable


@STYLES
async def test_an_empty_answer_fails_before_the_first_chunk(spoken: Spoken, there: Provider, opened: Open) -> None:
    there.say(Reply([b": hello\n\n", events("[DONE]") if spoken.style != "anthropic" else b""]), Reply([b": x\n\n"]))
    for _ in range(2):
        came, error = await failure(opened(style=spoken.style))
        assert came == []
        assert (error.details["reason"], error.details["emitted"]) == ("broken_answer", False)


@pytest.mark.parametrize(
    ("style", "said", "reason"),
    [
        ("openai-chat", {"error": {"message": f"busy with {KEY}", "type": "server_error"}}, "overloaded"),
        ("openai-chat", {"error": {"message": "maximum context length"}, "choices": []}, "context_length"),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, "rate_limited"),
        ("anthropic", {"type": "error", "error": {"type": "invalid_request_error"}}, "invalid_request"),
        ("openai-responses", {"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limited"),
        (
            "openai-responses",
            {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}},
            "overloaded",
        ),
    ],
)
async def test_an_error_inside_a_stream_has_its_reason(
    style: str, said: dict[str, Any], reason: str, there: Provider, opened: Open
) -> None:
    there.say(Reply([events(said)]))
    came, error = await failure(opened(style=style))
    assert came == []
    assert error.details["reason"] == reason
    assert KEY not in error.message


@STYLES
async def test_a_whole_answer_without_content_is_broken(spoken: Spoken, there: Provider, opened: Open) -> None:
    there.say(whole({"choices": []}), whole({}), whole(b"<html>"), whole(b"[]"), whole(b'{"choices": 7, "output": 7}'))
    backend = opened(style=spoken.style)
    for _ in range(5):
        with pytest.raises(ModelFailed) as told:
            await backend.invoke(call(), KEY)
        assert told.value.details["reason"] == "broken_answer"


async def test_the_key_and_the_headers_are_sent_in_the_form_of_each_vendor(there: Provider, opened: Open) -> None:
    there.say(*(Reply([spoken.stream]) for spoken in SPOKEN))
    for spoken in SPOKEN:
        backend = opened(style=spoken.style, headers={"X-Team": "blue", "User-Agent": "own"})
        await gathered(backend.stream(call(), KEY))
    chat, anthropic, responses = there.asked
    assert chat.headers["authorization"] == responses.headers["authorization"] == f"Bearer {KEY}"
    assert anthropic.headers["x-api-key"] == KEY
    assert anthropic.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in anthropic.headers
    for asked in there.asked:
        assert (asked.headers["x-team"], asked.headers["user-agent"]) == ("blue", "own")
        assert asked.headers["accept-encoding"] == "identity"


async def test_a_missing_key_is_not_sent_and_an_invalid_key_is_refused(there: Provider, opened: Open) -> None:
    backend = opened()
    there.say(Reply([SPOKEN[0].stream]))
    await gathered(backend.stream(call(), None))
    assert "authorization" not in there.asked[0].headers
    for bad in ("two\r\nlines: x", "ключ", ""):
        with pytest.raises(ModelFailed) as told:
            await backend.invoke(call(), bad)
        assert told.value.details["reason"] == "unauthorized"
        assert not bad or bad not in told.value.message
    assert len(there.asked) == 1


async def test_almost_compatible_servers_are_understood(there: Provider, opened: Open) -> None:
    def tool(**body: Any) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": [body]}, "finish_reason": ""}]}

    calls = [
        tool(index=0, id="x", function={"name": "a", "arguments": {"n": 1}}),
        tool(index=0, id="y", function={"name": "b", "arguments": "{}"}),
        tool(id="z", function={"name": "c"}),
        tool(id="z", function={"name": "c", "arguments": '{"k"'}),
        tool(function={"arguments": ":2}"}),
        tool(function={"name": "d", "arguments": "{}"}),
    ]
    end = {"choices": [{"delta": None, "finish_reason": "stop"}]}
    there.say(Reply([events(*calls, end)]))
    chunks = await gathered(opened().stream(call(), KEY))
    *first, last = assembled(chunks)
    assert first == [("x", "a", '{"n":1}'), ("y", "b", "{}"), ("z", "c", '{"k":2}')]
    assert last[0].startswith("call_")
    assert last[1:] == ("d", "{}")
    assert (chunks[-1].finish_reason, chunks[-1].usage) == ("stop", None)


async def test_reasoning_in_a_list_of_content_is_separated(there: Provider, opened: Open) -> None:
    pieces = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    there.say(Reply([events({"choices": [{"delta": {"content": pieces}, "finish_reason": "model_length"}]})]))
    chunks = await gathered(opened().stream(call(), KEY))
    assert chunks == [MessageChunk(reasoning="hm"), MessageChunk(content="yes"), MessageChunk(finish_reason="length")]


async def test_an_excessive_number_of_tool_calls_is_refused(there: Provider, opened: Open) -> None:
    calls = [{"choices": [{"delta": {"tool_calls": [{"function": {"name": "x"}}]}}]}] * 300
    there.say(Reply([events(*calls)]))
    came, error = await failure(opened())
    assert len(came) == 256
    assert error.details["reason"] == "broken_answer"


async def test_an_operation_of_another_model_type_is_not_supported(opened: Open) -> None:
    talker, embedder = opened(), opened(style="openai-embeddings")
    for refused in (talker.rerank("q", ["d"], None, KEY), talker.embed(["t"], KEY), embedder.invoke(call(), KEY)):
        with pytest.raises(ModelFailed) as told:
            await refused
        assert told.value.details["reason"] == "not_supported"
    with pytest.raises(ModelFailed, match="does not chat"):
        await gathered(embedder.stream(call(), KEY))


async def test_closing_a_stream_closes_the_connection(there: Provider, opened: Open) -> None:
    there.say(Reply([SPOKEN[0].stream[: SPOKEN[0].stream.index(TEXT[-3:].encode())]], end="silent"))
    async with contextlib.aclosing(opened().stream(call(), KEY)) as chunks, asyncio.timeout(PATIENCE_S):
        await anext(chunks)
    async with asyncio.timeout(PATIENCE_S):
        await there.gone.wait()


async def test_cancelling_a_call_closes_the_connection(there: Provider, opened: Open) -> None:
    there.say(Reply(end="nothing"))
    asking = asyncio.create_task(opened().invoke(call(), KEY))
    await there.until_asked()
    async with asyncio.timeout(PATIENCE_S):
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await there.gone.wait()
