"""Pictures and files on their way to a model."""

import base64

import pytest
from tests.local_agent.context_kit import called, memory, prepared, shown
from tests.replacement import replace

from bollard.sdk import (
    AgentInput,
    ArtifactContent,
    ArtifactRef,
    FileBase64Content,
    FileUrlContent,
    ImageBase64Content,
    ImageUrl,
    ImageUrlContent,
    Message,
    TextContent,
)
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.media import BLIND, has_images, history_content, input_content, without_images
from bollard.sdk.agent.model_request import _load_history
from bollard.sdk.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PICTURE = ArtifactRef(artifact_id="pic", artifact_type="image", mime_type="image/png", name="cat.png", size_bytes=3)
PAPER = ArtifactRef(artifact_id="doc", artifact_type="file", mime_type="application/pdf", name="a]b\n.pdf")
NOTES = ArtifactRef(artifact_id="txt", artifact_type="file", mime_type="text/plain", name="notes.txt")
URL = ImageUrlContent(image_url=ImageUrl(url="https://example.test/a.png"))
INLINE = ImageBase64Content(image_base64="AAAA")


async def content_of(given: AgentInput, *, vision: bool, host=None, file_tokens: int = 1000):
    async def then(ctx, _):
        return await input_content(ctx, given, vision=vision, file_tokens=file_tokens)

    found, outcome = await prepared(host or memory(), "x", then=then)
    return (*found, outcome)


async def test_a_vision_model_gets_pictures_in_their_places():
    contents = (TextContent(text="this"), ArtifactContent(artifact_id="pic"), TextContent(text="or this"), URL, INLINE)
    given = AgentInput(contents=contents, attachments=(PICTURE,))
    content, notes, _ = await content_of(given, vision=True)
    assert content == contents
    assert notes == []


async def test_a_model_without_vision_reads_a_line_instead():
    contents = (TextContent(text="this"), ArtifactContent(artifact_id="pic"), URL, INLINE)
    given = AgentInput(contents=contents, attachments=(PICTURE,))
    content, notes, _ = await content_of(given, vision=False)
    assert content == (
        f"this\n[image: cat.png, image/png, 3 bytes]\n[image: https://example.test/a.png]\n[image: inline]\n{BLIND}"
    )
    assert len(notes) == 3


async def test_text_and_contents_are_sent_once():
    doubled = AgentInput(text="look", contents=(TextContent(text="look"), URL))
    assert (await content_of(doubled, vision=True))[0] == (TextContent(text="look"), URL)
    apart = AgentInput(text="look", contents=(URL,), attachments=(PICTURE,))
    assert (await content_of(apart, vision=True))[0] == (
        TextContent(text="look"),
        URL,
        ArtifactContent(artifact_id="pic"),
    )


async def test_a_text_file_is_inserted_in_its_place_within_the_limit():
    host = memory(artifacts={"txt": "第一行\n```\nsecond line".encode()})
    given = AgentInput(text="read this", attachments=(NOTES,))
    content, notes, outcome = await content_of(given, vision=False, host=host)
    assert content == "read this\n[file: notes.txt, text/plain]\n````\n第一行\n```\nsecond line\n````"
    assert notes == []
    assert len(called(outcome, "artifacts.read")) == 1
    short, _, _ = await content_of(given, vision=False, host=host, file_tokens=6)
    assert "second line" not in short
    assert "…" in short


async def test_missing_metadata_of_an_artifact_are_requested():
    host = memory(artifacts={"txt": b"plain words"})
    content, _, outcome = await content_of(
        AgentInput(contents=(ArtifactContent(artifact_id="txt"), ArtifactContent(artifact_id="gone"))),
        vision=True,
        host=host,
    )
    assert len(called(outcome, "artifacts.metadata")) == 2
    assert "[file: unnamed]" in content


async def test_a_name_cannot_close_its_note():
    content, _, _ = await content_of(AgentInput(text="see", attachments=(PAPER,)), vision=True)
    assert content == "see\n[file: a)b .pdf, application/pdf]"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (FileBase64Content(file_base64=base64.b64encode(b"a,b").decode(), file_name="t.csv"), "a,b"),
        (FileBase64Content(file_base64=base64.b64encode(b"\xff\x00").decode(), file_name="t.csv"), "[file: t.csv]"),
        (FileBase64Content(file_base64="AAAA", file_name="t.bin"), "[file: t.bin]"),
        (FileUrlContent(file_url="https://example.test/f", file_name="f"), "[file: f https://example.test/f]"),
    ],
)
async def test_a_file_in_the_message_is_text_or_a_line(part, told):
    content, _, _ = await content_of(AgentInput(contents=(part,)), vision=True)
    assert told in content


def test_earlier_contents_are_shown_again_by_reference_only():
    contents = (TextContent(text="see"), ArtifactContent(artifact_id="pic"), ArtifactContent(artifact_id="doc"), INLINE)
    refs = (PICTURE, PAPER)
    seen = history_content(contents, refs, vision=True)
    assert seen[1] == ArtifactContent(artifact_id="pic")
    assert [part.text for part in seen[2:]] == ["[file: a)b .pdf, application/pdf]", "[image: inline]"]
    assert "[image: cat.png" in history_content(contents, refs, vision=False)


def test_a_fallback_without_vision_gets_text():
    messages = [Message(role="user", content=(TextContent(text="see"), URL)), Message(role="assistant", content="yes")]
    assert has_images(messages)
    blind = without_images(messages)
    assert not has_images(blind)
    assert blind[0].content == f"see\n[image: https://example.test/a.png]\n{BLIND}"
    assert blind[1] is messages[1]


async def test_a_document_is_named_with_its_id_where_a_tool_reads_it():
    def reading(document: str) -> str:
        """Read a document."""
        return document

    host = memory(tools={"read_document": reading})
    content, _, _ = await content_of(AgentInput(text="see", attachments=(PAPER, PICTURE)), vision=False, host=host)
    assert "[file: a)b .pdf, application/pdf, artifact_id doc]" in content
    assert "artifact_id pic" not in content


async def test_an_unsupported_picture_is_named():
    large = PICTURE.model_copy(update={"size_bytes": 30_000_000})
    content, notes, _ = await content_of(AgentInput(text="see", attachments=(large,)), vision=True)
    assert content == "see\n[image: cat.png, image/png, 30000000 bytes]"
    assert len(notes) == 1


async def test_only_the_newest_pictures_of_a_conversation_are_shown_again():
    said = [Message(role="user", content=(TextContent(text=f"{at}"), URL)) for at in range(12)]
    host = memory({"default": ScriptedModel(context_window=100_000)}, history=said)

    async def then(ctx, question):
        seeing = replace(question.budget, vision=True)
        return (await _load_history(ctx, ctx.config, seeing, 50_000, Guard(ctx.config)))[2]

    shown_again, _ = await prepared(host, "and?", then=then)
    assert [has_images([each.message]) for each in shown_again] == [False] * 4 + [True] * 8


async def test_an_unreadable_file_is_named():
    host = memory(artifacts={"txt": b"secret words"})
    host.deny("artifacts.read")
    given = AgentInput(text="read", attachments=(NOTES,))
    content, notes, _ = await content_of(given, vision=False, host=host)
    assert content == "read\n[file: notes.txt, text/plain]"
    assert notes == ["[file: notes.txt, text/plain]"]


async def test_the_question_of_a_run_contains_its_files():
    host = memory(artifacts={"txt": b"forty-two"})
    question, _ = await prepared(host, "what does it say?", {"prompt": ""}, attachments=[NOTES])
    assert "forty-two" in shown(question)[-1][1]
