"""`read_document` with the real knowledge process: the text of attached documents, and documents made to hurt."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.knowledge.test_extraction import DOCX, docx, paragraph, pdf

from bollard.host.capabilities.capability import Flow
from bollard.host.knowledge.engine import ProcessEngine
from bollard.host.tools.builtin import BuiltinTools
from bollard.host.tools.files import Workspaces
from bollard.wire.knowledge_frames import DOCUMENT_BYTES


@pytest.fixture
async def read(artifacts: Any, make_call: Any, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    engine = ProcessEngine(data=tmp_path, database="")
    call = make_call(
        BuiltinTools(
            clock=ManualClock(), workspaces=Workspaces(tmp_path / "runs"), artifacts=artifacts, documents=engine
        )
    )

    async def read(content: bytes, mime_type: str, name: str = "a", **more: int) -> Any:
        artifacts.kept["art"] = (name, mime_type, content)
        return await call("read_document", artifact_id="art", **more)

    yield read
    await engine.close()


async def test_the_text_of_documents_is_read_in_parts(read: Callable[..., Any], artifacts: Any) -> None:
    artifacts.flow = Flow(reads_private=True, brings_untrusted=True, sends_out=False)
    whole = await read(pdf("The harbour opens at six."), "application/pdf")
    assert whole.content[0]["text"] == "The harbour opens at six."
    assert whole.flow == artifacts.flow
    part = await read(docx(paragraph("0123456789")), DOCX, offset=2, limit=3)
    assert part.content[0]["text"] == "234\n[characters 2 to 5 of 11]"
    assert (await read(b"<h1>A</h1>", "application/octet-stream", "a.html")).content[0]["text"] == "# A\n"
    assert (await read(b"plain", "text/plain", offset=99)).content[0]["text"] == "\n[characters 99 to 99 of 5]"


async def test_a_document_that_cannot_be_read_is_a_sentence_and_the_next_one_is_read(read: Callable[..., Any]) -> None:
    bomb = docx(paragraph("A" * 80_000_000))
    hostile = [(bomb, DOCX), (b"PK\3\4 no", DOCX), (b"%PDF-1.4 cut", "application/pdf"), (b"\0", "image/png")]
    for content, mime_type in hostile:
        refused = await read(content, mime_type)
        assert refused.is_error, mime_type
        assert refused.content[0]["text"].startswith("the document cannot be read: "), refused.content
    large = await read(b"x" * (DOCUMENT_BYTES + 1), "text/plain")
    assert large.is_error
    assert (await read(pdf("Still here."), "application/pdf")).content[0]["text"] == "Still here."
