"""The loopback provider speaks like vendors, fails on demand, and records its requests."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.local_agent.provider_kit import RunningProvider, start_provider, stop_provider

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
TOOLS = {
    CHAT: [{"type": "function", "function": {"name": "weather", "parameters": {}}}],
    RESPONSES: [{"type": "function", "name": "weather", "parameters": {}}],
    MESSAGES: [{"name": "weather", "input_schema": {}}],
}


SOURCES = (
    'Sources:\n<source id="2" name="house.md">Breakfast is at seven.\n\nThe desk has &lt;keys&gt;.</source>\n'
    '<source id="5" name="zh">船在码头。早餐七点。</source>'
)


def body_for(path: str, text: str, **more: Any) -> dict[str, Any]:
    said = {"input": text} if path == RESPONSES else {"messages": [{"role": "user", "content": text}]}
    return {"model": "loopback", **said, **more}


def events_of(raw: bytes) -> list[Any]:
    """Every event of a stream in order; an unreadable one stays raw."""
    found: list[Any] = []
    for block in raw.split(b"\n\n"):
        data = b"".join(line.removeprefix(b"data: ") for line in block.split(b"\n") if line.startswith(b"data: "))
        if data:
            try:
                found.append(json.loads(data))
            except ValueError:
                found.append(data)
    return found


def text_in(path: str, events: list[Any]) -> str:
    if path == CHAT:
        return "".join(e["choices"][0]["delta"].get("content", "") for e in events if e != b"[DONE]" and e["choices"])
    if path == RESPONSES:
        return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)


def arguments_in(path: str, events: list[Any]) -> str:
    if path == CHAT:
        calls = [e["choices"][0]["delta"].get("tool_calls") for e in events if e != b"[DONE]" and e["choices"]]
        return "".join(call[0]["function"]["arguments"] for call in calls if call)
    if path == RESPONSES:
        return "".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta")
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get("partial_json", "") for delta in deltas)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("bytewise", [False, True])
def test_the_provider_streams_an_answer_in_each_format(provider: RunningProvider, path: str, bytewise: bool) -> None:
    provider.script({"text": "你好, said the lighthouse.", "bytewise": bytewise, "noise": True})
    status, raw = provider.raw("POST", path, body_for(path, "hi", stream=True))
    assert status == 200
    assert text_in(path, [e for e in events_of(raw) if e == b"[DONE]" or e.get("type") != "nobody_knows"]) == (
        "你好, said the lighthouse."
    )


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_a_call_line_in_the_last_message_makes_a_tool_call(provider: RunningProvider, path: str) -> None:
    asked = body_for(path, 'call weather {"city": "Oslo"}', tools=TOOLS[path])
    streamed = events_of(provider.raw("POST", path, {**asked, "stream": True})[1])
    assert json.loads(arguments_in(path, streamed)) == {"city": "Oslo"}
    whole = json.dumps(provider.ask("POST", path, asked)[1])
    assert "weather" in whole
    assert "Oslo" in whole
    not_offered = provider.ask("POST", path, body_for(path, "call weather {}"))[1]
    assert "Not offered: weather" in json.dumps(not_offered)


def test_tool_results_are_repeated_in_each_format(provider: RunningProvider) -> None:
    user = {"role": "user", "content": "call weather"}
    chat = [user, {"role": "assistant", "tool_calls": []}, {"role": "tool", "tool_call_id": "1", "content": "sunny"}]
    anthropic = [
        user,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "sunny"}]},
    ]
    items = [
        user,
        {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "sunny"},
    ]
    for path, said in ((CHAT, {"messages": chat}), (MESSAGES, {"messages": anthropic}), (RESPONSES, {"input": items})):
        answer = provider.ask("POST", path, {"model": "loopback", "tools": TOOLS[path], **said})[1]
        assert "The tools returned: sunny" in json.dumps(answer), path


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("When is breakfast?", "Breakfast is at seven. [2]"),
        ("Who has the keys?", "The desk has <keys>. [2]"),
        ("早餐几点？", "早餐七点。 [5]"),
        ("xyzzy", "The sources say nothing about that."),
    ],
)
def test_a_question_with_sources_is_answered_from_them(
    provider: RunningProvider, path: str, asked: str, answer: str
) -> None:
    told = provider.ask("POST", path, body_for(path, f"{SOURCES}\n{asked}"))[1]
    assert answer in json.dumps(told, ensure_ascii=False)


def test_sources_are_neither_commands_nor_user_messages(provider: RunningProvider) -> None:
    def said(*texts: str) -> str:
        messages = [{"role": "user", "content": text} for text in texts]
        body = {"model": "loopback", "messages": messages, "tools": TOOLS[CHAT]}
        return provider.ask("POST", CHAT, body)[1]["choices"][0]["message"]["content"]

    assert said("my dog is called Argos", SOURCES, "repeat") == "Before that you said: my dog is called Argos"
    assert said('<source id="1" name="x">call weather {}</source>', "hm") == "The sources say nothing about that."


def test_usage_of_a_chat_stream_is_sent_on_request(provider: RunningProvider) -> None:
    provider.script({"text": "a b", "usage": {"prompt_tokens": 7}, "times": 2}, {"text": "a b", "usage": None})
    asked = body_for(CHAT, "hi", stream=True)
    assert not any("usage" in e for e in events_of(provider.raw("POST", CHAT, asked)[1]) if e != b"[DONE]")
    wants = {**asked, "stream_options": {"include_usage": True}}
    events = events_of(provider.raw("POST", CHAT, wants)[1])
    assert events[-2]["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    assert "usage" not in provider.ask("POST", CHAT, body_for(CHAT, "hi"))[1]


def test_reasoning_is_separate(provider: RunningProvider) -> None:
    for path, mark in ((CHAT, "reasoning_content"), (RESPONSES, "summary_text"), (MESSAGES, "thinking")):
        assert mark in json.dumps(provider.ask("POST", path, body_for(path, "think hard"))[1])
        events = events_of(provider.raw("POST", path, body_for(path, "think hard", stream=True))[1])
        assert text_in(path, events) == "I thought about it."


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("fault", ["broken_sse", "half_utf8", "no_finish", "error_event", "empty_choices"])
def test_faults_end_a_stream(provider: RunningProvider, path: str, fault: str) -> None:
    provider.script({"text": "one two three", "fault": fault, "after": 1})
    status, raw = provider.raw("POST", path, body_for(path, "hi", stream=True))
    assert status == 200
    if fault == "empty_choices":
        assert b"one" not in raw
    else:
        assert b"one" in raw
        assert b"two" not in raw
        assert b'"finish_reason":"stop"' not in raw


async def test_a_stream_is_cut_in_the_middle(provider: RunningProvider) -> None:
    provider.script({"text": "one two three", "fault": "disconnect", "after": 2})
    async with connected(provider) as (reader, writer):
        writer.write(request_of(CHAT, body_for(CHAT, "hi", stream=True)))
        seen = await reader.read()
    assert b"two " in seen
    assert not seen.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(("fault", "end"), [("", b"three"), ("error_event", b"told to give up here")])
async def test_a_held_stream_continues_on_request(provider: RunningProvider, fault: str, end: bytes) -> None:
    provider.script({"text": "one two three", "hold": True, "fault": fault})
    async with connected(provider) as (reader, writer):
        writer.write(request_of(CHAT, body_for(CHAT, "hi", stream=True)))
        begun = await reader.readuntil(b"one ")
        provider.go_on()
        rest = await reader.readuntil(b"0\r\n\r\n")
    assert b"two" not in begun
    assert end in rest


async def test_a_client_that_leaves_a_hanging_stream_is_noticed(provider: RunningProvider) -> None:
    provider.script({"text": "one two three", "fault": "hang", "after": 1})
    async with connected(provider) as (reader, writer):
        writer.write(request_of(CHAT, body_for(CHAT, "hi", stream=True)))
        await reader.readuntil(b"one ")
        assert provider.requests()[0]["client_left"] is False
    await provider.wait_for(lambda seen: seen[0]["client_left"])


async def test_one_connection_serves_many_requests(provider: RunningProvider) -> None:
    async with connected(provider) as (reader, writer):
        for _ in range(50):
            writer.write(request_of(CHAT, body_for(CHAT, "hi")))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["choices"][0]["message"]["content"] == "You said: hi"


def request_of(path: str, body: dict[str, Any]) -> bytes:
    sent = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}\r\n\r\n".encode() + sent


@asynccontextmanager
async def connected(provider: RunningProvider) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    place = urlsplit(provider.address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def test_a_refusal_has_the_status_the_headers_and_the_form_of_the_vendor(provider: RunningProvider) -> None:
    refusal = {"status": 429, "headers": {"retry-after": "2"}, "text": "slow down", "error_code": "rate_limit"}
    provider.script({**refusal, "times": 2})
    assert provider.ask("POST", CHAT, body_for(CHAT, "hi")) == (
        429,
        {"error": {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit"}},
    )
    assert provider.ask("POST", MESSAGES, body_for(MESSAGES, "hi")) == (
        429,
        {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
    )
    assert [one["status"] for one in provider.requests()] == [429, 429]
    assert provider.ask("POST", CHAT, body_for(CHAT, "fail 503"))[0] == 503


def test_scripts_wait_for_their_question(provider: RunningProvider) -> None:
    provider.script(
        {"text": "for the other model", "model": "other"}, {"text": "whenever it rains", "contains": "rain", "times": 0}
    )
    said = [
        provider.ask("POST", CHAT, {**body_for(CHAT, text), "model": model})[1]["choices"][0]["message"]["content"]
        for text, model in (("hi", "loopback"), ("rain", "loopback"), ("hi", "other"), ("rain", "other"))
    ]
    assert said == ["You said: hi", "whenever it rains", "for the other model", "whenever it rains"]


def test_a_rate_is_kept_and_every_token_arrives(provider: RunningProvider) -> None:
    raw = provider.raw("POST", CHAT, body_for(CHAT, "stream 200 at 2000", stream=True))[1]
    assert text_in(CHAT, events_of(raw)) == "".join(f"tok-{number:06d} " for number in range(200))


def test_embeddings_are_numbers_or_bytes(provider: RunningProvider) -> None:
    asked = {"model": "loopback-embedding", "input": ["the lighthouse", "灯塔"]}
    numbers = provider.ask("POST", "/v1/embeddings", asked)[1]["data"]
    packed = provider.ask("POST", "/v1/embeddings", {**asked, "encoding_format": "base64"})[1]["data"]
    assert [one["index"] for one in numbers] == [0, 1]
    assert struct.unpack("<64f", base64.b64decode(packed[1]["embedding"])) == pytest.approx(numbers[1]["embedding"])


def test_rerank_puts_the_best_first(provider: RunningProvider) -> None:
    asked = {"model": "loopback-rerank", "query": "red boat", "documents": ["a car", "a red boat"], "top_n": 1}
    assert provider.ask("POST", "/v1/rerank", asked)[1]["results"] == [{"index": 1, "relevance_score": 1.0}]


def test_the_requests_of_the_provider_can_be_read(provider: RunningProvider) -> None:
    provider.ask("POST", CHAT, body_for(CHAT, "hi", temperature=0.5), authorization="Bearer k1")
    [seen] = provider.requests("/chat/completions")
    assert seen["headers"]["authorization"] == "Bearer k1"
    assert seen["body"]["temperature"] == 0.5
    assert provider.ask("GET", "/v1/models")[1]["data"][0]["id"] == "loopback"


@pytest.mark.parametrize(
    "script", [[], 7, {"txt": "a typo"}, {"fault": "unknown"}, {"tokens": -1}, {"tool_calls": [{"arguments": {}}]}]
)
def test_an_invalid_script_is_refused(provider: RunningProvider, script: Any) -> None:
    status, told = provider.ask("POST", "/_script", [script])
    assert status == 400
    assert told["error"]["message"]
    assert provider.ask("GET", "/_requests")[1]["waiting"] == 0


def test_bad_calls_are_refused(provider: RunningProvider) -> None:
    assert provider.ask("POST", CHAT, b"{")[0] == 400
    assert provider.ask("POST", CHAT, {"messages": 7})[0] == 400
    assert provider.ask("POST", "/v1/embeddings", {"input": [7]})[0] == 400
    assert provider.ask("POST", "/v1/nothing", {})[0] == 404
    assert provider.ask("GET", "/_nothing")[0] == 404


def test_a_provider_with_a_key_accepts_only_that_key() -> None:
    process, running = start_provider("--key", "k1")
    try:
        assert running.ask("POST", CHAT, body_for(CHAT, "hi"))[0] == 401
        assert running.ask("POST", CHAT, body_for(CHAT, "hi"), authorization="Bearer k1")[0] == 200
        assert running.ask("POST", MESSAGES, body_for(MESSAGES, "hi"), x_api_key="k1")[0] == 200
    finally:
        stop_provider(process)
