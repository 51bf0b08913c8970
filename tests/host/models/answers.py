"""The same answer in the words of three vendors: thoughts, text in two scripts, two tool calls, usage."""

from dataclasses import dataclass
from typing import Any

from tests.host.models.provider import events

THOUGHT = "先想一想 — hm."
TEXT = "Grüße, 世界 🎈 done."
CALLS = (("call_a", "weather", '{"city": "北京"}'), ("call_b", "time", '{"zone":"UTC"}'))
USAGE = (120, 30, 150)


def _chat() -> bytes:
    def delta(**said: Any) -> dict[str, Any]:
        return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said}]}

    def tool(index: int, **function: Any) -> dict[str, Any]:
        return {"index": index, "function": function}

    bodies: list[Any] = [
        {"choices": [], "prompt_filter_results": []},
        delta(role="assistant", content=""),
        delta(reasoning_content=THOUGHT[:3]),
        delta(reasoning=THOUGHT[3:]),
        delta(content=TEXT[:6]),
        delta(content=TEXT[6:9]),
        delta(content=TEXT[9:]),
        delta(tool_calls=[{"id": "call_a", "type": "function", **tool(0, name="weather", arguments="")}]),
        delta(tool_calls=[tool(0, arguments='{"city": ')]),
        delta(tool_calls=[{"id": "call_b", "type": "function", **tool(1, name="time", arguments='{"zo')}]),
        delta(tool_calls=[tool(0, arguments='"北京"}'), tool(1, arguments='ne":"UTC"}')]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": None},
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 120,
                "completion_tokens": 30,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 100},
            },
        },
        "[DONE]",
    ]
    return b": keep-alive\n\n" + events(*bodies)


def _anthropic() -> bytes:
    def block(index: int, **body: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": body}

    def delta(index: int, kind: str, **body: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **body}}

    def stop(index: int) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": index}

    usage = {"input_tokens": 15, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1}
    return events(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
        block(0, type="thinking", thinking="", signature=""),
        {"type": "ping"},
        delta(0, "thinking_delta", thinking=THOUGHT[:4]),
        delta(0, "thinking_delta", thinking=THOUGHT[4:]),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        block(1, type="text", text=""),
        delta(1, "text_delta", text=TEXT[:7]),
        delta(1, "text_delta", text=TEXT[7:]),
        delta(1, "citations_delta", citation={}),
        stop(1),
        block(2, type="tool_use", id="call_a", name="weather", input={}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"city": "北'),
        delta(2, "input_json_delta", partial_json='京"}'),
        stop(2),
        {"type": "something_new", "index": 9},
        block(3, type="tool_use", id="call_b", name="time", input={"zone": "UTC"}),
        stop(3),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
        named=True,
    )


def _responses() -> bytes:
    def item(index: int, word: str, **body: Any) -> dict[str, Any]:
        return {"type": f"response.output_item.{word}", "output_index": index, "item": body}

    def text(kind: str, index: int, delta: str) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": index, "delta": delta}

    first = {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": ""}
    second = {"type": "function_call", "call_id": "call_b", "name": "time"}
    usage = {
        "input_tokens": 120,
        "output_tokens": 30,
        "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 100},
    }
    return events(
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.in_progress", "response": {"status": "in_progress"}},
        item(0, "added", type="reasoning", summary=[]),
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
        text("reasoning_summary_text", 0, THOUGHT[:5]),
        text("reasoning_summary_text", 0, THOUGHT[5:]),
        item(1, "added", type="message", content=[]),
        {"type": "response.content_part.added", "output_index": 1, "part": {"type": "output_text"}},
        text("output_text", 1, TEXT[:5]),
        text("output_text", 1, TEXT[5:]),
        {"type": "response.output_text.done", "output_index": 1, "text": TEXT},
        item(2, "added", **first),
        item(3, "added", **second),
        text("function_call_arguments", 2, '{"city": "北京'),
        text("function_call_arguments", 2, '"}'),
        {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": CALLS[0][2]},
        item(2, "done", **{**first, "arguments": CALLS[0][2]}),
        item(3, "done", **{**second, "arguments": CALLS[1][2]}),
        {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}},
        named=True,
    )


def _chat_whole() -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": TEXT, "reasoning_content": THOUGHT}
    said["tool_calls"] = [
        {"id": each, "type": "function", "function": {"name": name, "arguments": arguments}}
        for each, name, arguments in CALLS
    ]
    counted = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
    cached = {"prompt_tokens_details": {"cached_tokens": 100}}
    return {"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}], "usage": {**counted, **cached}}


def _anthropic_whole() -> dict[str, Any]:
    return {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"},
            {"type": "text", "text": TEXT},
            {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "北京"}},
            {"type": "tool_use", "id": "call_b", "name": "time", "input": {"zone": "UTC"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 30},
    }


def _responses_whole() -> dict[str, Any]:
    return {
        "status": "completed",
        "error": None,
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]},
            *({"type": "function_call", "call_id": a, "name": b, "arguments": c} for a, b, c in CALLS),
        ],
        "usage": {
            "input_tokens": 120,
            "output_tokens": 30,
            "total_tokens": 150,
            "input_tokens_details": {"cached_tokens": 100},
        },
    }


@dataclass(frozen=True)
class Spoken:
    """One style, and the answer in it."""

    style: str
    path: str
    stream: bytes
    whole: dict[str, Any]
    metadata: dict[str, Any]


_CACHED = {"cached_tokens": 100}
_SIGNED = {"anthropic_thinking": [{"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"}]}
SPOKEN = (
    Spoken("openai-chat", "/v1/chat/completions", _chat(), _chat_whole(), _CACHED),
    Spoken("anthropic", "/v1/messages", _anthropic(), _anthropic_whole(), {**_CACHED, **_SIGNED}),
    Spoken("openai-responses", "/v1/responses", _responses(), _responses_whole(), _CACHED),
)
