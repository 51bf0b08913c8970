"""Answers of MCP servers, in the shapes of our protocol."""

from typing import Any

from pydantic import TypeAdapter
from tests.tables import for_each

from bollard.mcp_bridge.translation import translate_result
from bollard.protocol import ContentElement

ELEMENT = TypeAdapter(ContentElement)


def one(block: dict[str, Any]) -> dict[str, Any]:
    """The only element of an answer; it is one that the protocol knows."""
    (element,) = translate_result(7, {"content": [block]}).content
    ELEMENT.validate_python(element)
    return element


@for_each(
    ("block", "element"),
    [
        ({"type": "text", "text": "hé\u202e"}, {"type": "text", "text": "hé\u202e"}),
        (
            {"type": "image", "data": "aGk=", "mimeType": "image/webp"},
            {"type": "image_base64", "image_base64": "data:image/webp;base64,aGk="},
        ),
        (
            {"type": "image", "data": "aGk=", "mimeType": "image/png;base64,evil"},
            {"type": "image_base64", "image_base64": "data:image/png;base64,aGk="},
        ),
        (
            {"type": "audio", "data": "aGk=", "mimeType": "audio/ogg"},
            {"type": "file_base64", "file_base64": "aGk=", "file_name": "audio.ogg"},
        ),
        (
            {"type": "resource_link", "uri": "file:///etc/passwd", "name": ""},
            {"type": "file_url", "file_url": "file:///etc/passwd"},
        ),
        ({"type": "resource", "resource": {"uri": "a://b/c", "text": "words"}}, {"type": "text", "text": "words"}),
        (
            {"type": "resource", "resource": {"uri": "a://b/c.bin", "blob": "aGk="}},
            {"type": "file_base64", "file_base64": "aGk=", "file_name": "c.bin"},
        ),
    ],
)
def test_each_kind_of_content_has_its_element(block: dict[str, Any], element: dict[str, Any]) -> None:
    assert one(block) == element


@for_each(
    "block",
    [
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
        {"type": "audio", "data": 7, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": "%%%"}},
        {"type": "hologram"},
        {},
    ],
)
def test_unreadable_content_is_reported_and_not_passed_on(block: dict[str, Any]) -> None:
    element = one(block)
    assert element["type"] == "text"
    assert "cannot be read" in element["text"]


def test_structured_content_is_always_an_object() -> None:
    assert translate_result(7, {"content": [], "structuredContent": {"a": 1}}).structured == {"a": 1}
    assert translate_result(7, {"content": [], "structuredContent": [1, 2]}).structured == {"result": [1, 2]}
    assert translate_result(7, {"content": []}).structured is None
    assert translate_result(7, {"content": [], "isError": True}).is_error
    assert not translate_result(7, {"content": [], "isError": "maybe"}).is_error


def test_an_answer_that_is_invalid_for_a_runner_is_an_error() -> None:
    nested: Any = {}
    for _ in range(200):
        nested = {"x": nested}
    for answer in (
        {"structuredContent": nested},
        {"structuredContent": {"n": 2**70}},
        {"structuredContent": {"n": float("nan")}},
        {"structuredContent": {"k" * 1000: 1}},
        {"structuredContent": [0] * 20_000},
        {"content": [{"type": "text", "text": "\ud800"}]},
        {"resultType": "input_required", "inputRequests": {}},
    ):
        said = translate_result(7, answer)
        assert said.is_error, answer
        assert said.structured is None
        assert len(said.content) == 1
