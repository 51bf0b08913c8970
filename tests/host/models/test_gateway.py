"""The request to each vendor: messages, images, files, tools and arguments. Pure."""

import base64
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.errors import InvalidRequest, ModelFailed
from bollard.host.models.anthropic import Anthropic
from bollard.host.models.backends import open_backend
from bollard.host.models.boundary import ModelCall
from bollard.host.models.calls import provider_addresses
from bollard.host.models.openai_chat import OpenAiChat
from bollard.host.models.openai_responses import OpenAiResponses
from bollard.host.models.specs import SavedModel
from bollard.protocol import FunctionTool, Message

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 30).decode()
PDF = base64.b64encode(b"%PDF-1.7 " + b"0" * 30).decode()
NOTE = base64.b64encode("größe: 7".encode()).decode()
BINARY = base64.b64encode(b"\x00\x01\x02\x03" * 9).decode()
FORMATS = {"openai-chat": OpenAiChat, "anthropic": Anthropic, "openai-responses": OpenAiResponses}
WEATHER = FunctionTool.from_wire(
    {
        "type": "function",
        "function": {"name": "weather", "description": "Look", "parameters": {"type": "object", "required": ["city"]}},
    }
)
BARE = FunctionTool.from_wire({"type": "function", "function": {"name": "time"}})


def body(style: str, *messages: dict[str, Any], stream: bool = False, **changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"model_id": "m", "model_type": "llm", "base_url": "http://127.0.0.1/v1", "model": "tiny"}
    told = changes.pop("spec", {})
    made = FORMATS[style](SavedModel(**{**spec, "style": style, **told}))
    said = tuple(Message.from_wire(each) for each in messages or ({"role": "user", "content": "hello"},))
    return made.body(ModelCall(messages=said, **changes), stream=stream)


HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?", "name": "ada"},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "never sent back",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}},
            {"id": "b", "type": "function", "function": {"name": "time", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "rain"},
    {"role": "tool", "tool_call_id": "b", "content": [{"type": "image_base64", "image_base64": PNG}]},
    {"role": "system", "content": "Later."},
    {"role": "user", "content": [{"type": "text", "text": "And?"}], "name": "not a safe name"},
)


def test_a_conversation_with_tools_is_encoded_as_chat_completions() -> None:
    written = body("openai-chat", *HISTORY, tools=(WEATHER, BARE), stream=True)
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert written == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?", "name": "ada"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}},
                    {"id": "b", "type": "function", "function": {"name": "time", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "rain"},
            {"role": "tool", "tool_call_id": "b", "content": ""},
            {"role": "user", "content": [{"type": "text", "text": "What the tools returned besides text:"}, shown]},
            {"role": "system", "content": "Later."},
            {"role": "user", "content": "And?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "Look",
                    "parameters": {"type": "object", "required": ["city"]},
                },
            },
            {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_conversation_with_tools_is_encoded_as_messages_of_anthropic() -> None:
    written = body("anthropic", *HISTORY, tools=(WEATHER, BARE))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert written == {
        "model": "tiny",
        "max_tokens": 4096,
        "system": "Be brief.\n\nLater.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Ulm"}},
                    {"type": "tool_use", "id": "b", "name": "time", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "rain"}]},
                    {"type": "tool_result", "tool_use_id": "b", "content": [image]},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
        "tools": [
            {
                "name": "weather",
                "description": "Look",
                "input_schema": {"type": "object", "properties": {}, "required": ["city"]},
            },
            {"name": "time", "input_schema": {"type": "object", "properties": {}}},
        ],
    }


def test_a_conversation_with_tools_is_encoded_as_items_of_responses() -> None:
    written = body("openai-responses", *HISTORY, tools=(WEATHER, BARE), stream=True)
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    assert written == {
        "model": "tiny",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "a", "name": "weather", "arguments": '{"city": "Ulm"}'},
            {"type": "function_call", "call_id": "b", "name": "time", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "rain"},
            {"type": "function_call_output", "call_id": "b", "output": [image]},
            {"role": "system", "content": "Later."},
            {"role": "user", "content": "And?"},
        ],
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "strict": False,
                "description": "Look",
                "parameters": {"type": "object", "required": ["city"]},
            },
            {"type": "function", "name": "time", "strict": False, "parameters": {"type": "object", "properties": {}}},
        ],
        "stream": True,
    }


MIXED: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_base64", "image_base64": f"data:image/webp;base64,{PNG}"},
        {"type": "file_base64", "file_base64": PDF, "file_name": "a.bin"},
        {"type": "file_base64", "file_base64": NOTE, "file_name": "note.md"},
        {"type": "file_base64", "file_base64": PNG, "file_name": "b.PNG"},
        {"type": "file_url", "file_url": "https://example.org/b.pdf", "file_name": "b.pdf"},
        {"type": "text", "text": ""},
        {"type": "hologram", "ray": 7},
    ],
}


def test_images_and_files_are_encoded_as_chat_completions() -> None:
    (message,) = body("openai-chat", MIXED)["messages"]
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PNG}"}},
        {"type": "file", "file": {"filename": "a.bin", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "text", "text": "note.md:\ngröße: 7"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "b.pdf: https://example.org/b.pdf"},
    ]


def test_images_and_files_are_encoded_as_messages_of_anthropic() -> None:
    (message,) = body("anthropic", MIXED)["messages"]
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": PNG}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.bin",
        },
        {"type": "text", "text": "note.md:\ngröße: 7"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "document", "source": {"type": "url", "url": "https://example.org/b.pdf"}},
    ]


def test_images_and_files_are_encoded_as_items_of_responses() -> None:
    (message,) = body("openai-responses", MIXED)["input"]
    assert message["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://example.org/a.png"},
        {"type": "input_image", "image_url": f"data:image/webp;base64,{PNG}"},
        {"type": "input_file", "filename": "a.bin", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_text", "text": "note.md:\ngröße: 7"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_file", "file_url": "https://example.org/b.pdf"},
    ]


@for_each(
    ("style", "element", "reason"),
    [
        ("openai-chat", {"type": "artifact", "artifact_id": "x"}, "not_supported"),
        ("anthropic", {"type": "artifact", "artifact_id": "x"}, "not_supported"),
        ("openai-responses", {"type": "artifact", "artifact_id": "x"}, "not_supported"),
        ("anthropic", {"type": "file_base64", "file_base64": BINARY, "file_name": "x.bin"}, "not_supported"),
        ("openai-chat", {"type": "image_base64", "image_base64": BINARY}, "invalid_request"),
        ("openai-chat", {"type": "image_base64", "image_base64": "%%%"}, "invalid_request"),
        ("anthropic", {"type": "image_base64", "image_base64": "data:image/svg,<svg/>"}, "invalid_request"),
    ],
)
def test_unsupported_content_is_refused(style: str, element: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelFailed) as told:
        body(style, {"role": "user", "content": [element]})
    assert told.value.details["reason"] == reason


WANTED: dict[str, Any] = {
    "temperature": 0.5,
    "max_tokens": 9000,
    "stop": "END",
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
}


def test_arguments_have_the_names_of_each_format() -> None:
    hello = {"role": "user", "content": "hello"}
    spec = {"max_output_tokens": 8192, "extra_args": {"temperature": 1, "top_p": 0.9}}
    made = {style: body(style, hello, tools=(WEATHER,), spec=spec, extra_args=WANTED) for style in FORMATS}
    extra = {"model", "messages", "tools", "input", "store"}
    chat, anthropic, responses = ({k: v for k, v in made[style].items() if k not in extra} for style in FORMATS)
    assert chat == {**WANTED, "top_p": 0.9, "max_tokens": 8192}
    assert anthropic == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 8192,
        "stop_sequences": ["END"],
        "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    }
    assert responses == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 8192,
        "stop": "END",
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}},
    }


@pytest.mark.parametrize(
    ("choice", "written"),
    [("auto", {"type": "auto"}), ("none", {"type": "none"}), ("required", {"type": "any"}), ({"type": "any"},) * 2],
)
def test_the_tool_choice_is_encoded_for_anthropic(choice: Any, written: Any) -> None:
    hello = {"role": "user", "content": "hello"}
    assert body("anthropic", hello, tools=(WEATHER,), extra_args={"tool_choice": choice})["tool_choice"] == written
    assert "tool_choice" not in body("anthropic", hello, extra_args={"tool_choice": choice})


def test_a_run_may_set_only_the_listed_arguments() -> None:
    for name in ("model", "messages", "tools", "stream", "models", "mcp_servers", "web_search_options", "store"):
        with pytest.raises(ModelFailed) as told:
            body("openai-chat", extra_args={name: "x"})
        assert told.value.details["reason"] == "invalid_request"
    opened = {"extra_args": {"service_tier": None}}
    assert body("openai-chat", spec=opened, extra_args={"service_tier": "flex"})["service_tier"] == "flex"
    assert "service_tier" not in body("openai-chat", spec=opened)
    for bad in (0, -1, "many", True):
        with pytest.raises(ModelFailed):
            body("openai-chat", extra_args={"max_tokens": bad})


def test_an_operator_removes_an_argument_with_null() -> None:
    spec = {"extra_args": {"stream_options": None}}
    assert "stream_options" not in body("openai-chat", spec=spec, stream=True)
    assert "store" not in body("openai-responses", spec={"extra_args": {"store": None}})
    cooler = {"extra_args": {"temperature": 0.2}}
    assert "temperature" not in body("openai-chat", spec=cooler, extra_args={"temperature": None})


def test_a_model_with_reserved_arguments_is_refused() -> None:
    spec: dict[str, Any] = {"model_id": "m", "model_type": "llm", "style": "openai-chat", "base_url": "http://[::1]/v1"}
    with pytest.raises(InvalidRequest) as told:
        open_backend(SavedModel(**spec, extra_args={"model": "other"}), provider_addresses)
    assert told.value.details["field"] == "extra_args"


def test_the_length_uses_its_newer_name_where_needed() -> None:
    arguments = {"extra_args": {"max_tokens": 7}}
    assert (
        body("openai-chat", spec={"base_url": "https://api.openai.com/v1"}, **arguments)["max_completion_tokens"] == 7
    )
    assert body("openai-chat", **arguments)["max_tokens"] == 7
    assert body("anthropic", **arguments)["max_tokens"] == 7
    assert body("anthropic", spec={"max_output_tokens": 99})["max_tokens"] == 99


def test_turns_of_anthropic_alternate_and_start_with_the_user() -> None:
    written = body(
        "anthropic",
        {"role": "assistant", "content": "a "},
        {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "c"},
        {"role": "user", "content": "d"},
    )
    assert [(turn["role"], [block["text"] for block in turn["content"]]) for turn in written["messages"]] == [
        ("user", ["…"]),
        ("assistant", ["a", "b"]),
        ("user", ["c", "d"]),
    ]
    assert [turn["role"] for turn in body("anthropic", {"role": "system", "content": "x"})["messages"]] == ["user"]


def test_invalid_call_arguments_are_wrapped_in_an_object_for_anthropic() -> None:
    broken = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}}
    written = body("anthropic", {"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [broken]})
    assert written["messages"][1]["content"][0]["input"] == {"arguments": '{"city": '}


def test_thinking_needs_the_signed_thoughts_of_earlier_tool_calls() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    asked = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "weather", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "a", "content": "rain"}
    first = {"role": "user", "content": "x"}
    effort = {"extra_args": {"reasoning_effort": "medium"}, "spec": {"max_output_tokens": 20_000}}
    kept = {**asked, "metadata": {"anthropic_thinking": [thought, {"type": "text", "text": "forged"}]}}
    written = body("anthropic", first, kept, result, **effort)
    assert [block["type"] for block in written["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert written["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "thinking" not in body("anthropic", first, asked, result, **effort)
    assert "thinking" not in body("anthropic", first, extra_args={"reasoning_effort": "low", "max_tokens": 500})


def test_json_without_a_schema_is_not_supported_by_anthropic() -> None:
    with pytest.raises(ModelFailed) as told:
        body("anthropic", extra_args={"response_format": {"type": "json_object"}})
    assert told.value.details["reason"] == "not_supported"
    plain = body("openai-responses", extra_args={"response_format": {"type": "json_object"}, "verbosity": "low"})
    assert plain["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
