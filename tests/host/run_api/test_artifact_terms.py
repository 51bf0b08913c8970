"""The rules for artifacts apply to every way in which an artifact is created."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.actions.call_records import LiveLedger
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import SettingsError, ToolFailed
from bollard.host.log.rebuild import rebuild
from bollard.host.run_api.artifacts import RunArtifacts
from bollard.host.store.artifact_terms import NAME_CHARACTERS, ArtifactTerms, MimeTypes, name_problem, terms_of

CONTENT = b"what was made"
TEXT = "text/plain"
DAY_MS = 24 * 3600 * 1000
LONG = 36_000
"""Days: beyond the time of any database that a test is run on, because a rebuild asks for that."""
IMAGES = ArtifactTerms(mime_types=MimeTypes(allow=frozenset({"image/*"})))


async def upload(house: Any, run: Any) -> None:
    begun = await house.ask(run, "artifacts.begin", name="n", mime_type=TEXT)
    piece = {"upload_id": begun["upload_id"], "offset": 0, "content_base64": base64.b64encode(CONTENT).decode()}
    await house.ask(run, "artifacts.append", **piece)
    await house.ask(run, "artifacts.finish", upload_id=begun["upload_id"], sha256=hashlib.sha256(CONTENT).hexdigest())


async def inline(house: Any, run: Any) -> None:
    said = {"artifact_type": "file", "mime_type": TEXT, "content_base64": base64.b64encode(CONTENT).decode()}
    house.result(run, "artifact.created", said)


async def tool(house: Any, run: Any) -> None:
    await writer_of(house, run).write(context_of(run), call_id="c", name="n", mime_type=TEXT, content=CONTENT)


async def output(house: Any, run: Any) -> None:
    await BlobArtifacts(house.blobs).keep(run.session, LiveLedger(run), CONTENT, mime_type=TEXT, name="n")


def writer_of(house: Any, run: Any, terms: ArtifactTerms | None = None) -> RunArtifacts:
    return RunArtifacts(lambda _: run, lambda *_: None, house.blobs, *([] if terms is None else [terms]))


def context_of(run: Any) -> CallContext:
    return CallContext(run_id=run.facts.run_id, workspace=run.facts.workspace, agent_id="a")


@pytest.mark.parametrize("make", [upload, inline, tool, output])
async def test_an_artifact_expires_at_the_time_of_its_record(house: Any, make: Callable[..., Any]) -> None:
    house.take_artifacts(terms_of(LONG, ["*/*"]))
    run = await house.begin()
    await make(house, run)
    assert await run.written()
    (said,) = house.records(run, "artifact.created")
    artifact_id = said["artifact_id"]
    row = house.store.artifact("default", artifact_id)
    assert said["expires_ms"] == row.expires_ms == row.created_ms + LONG * DAY_MS
    known = await house.ask(run, "artifacts.metadata", artifact_id=artifact_id)
    assert known["expires_at"] * 1000 == row.expires_ms
    rebuild(house.store)
    assert house.store.artifact("default", artifact_id) == row

    house.clock.advance(LONG * DAY_MS / 1000)
    for action in ("artifacts.metadata", "artifacts.read"):
        gone = await house.refusal(run, action, artifact_id=artifact_id)
        never = await house.refusal(run, action, artifact_id="never")
        assert gone.bytes == never.bytes


async def test_an_artifact_without_an_expiry_has_none_in_its_record(house: Any) -> None:
    house.take_artifacts(terms_of(0, ["*/*"]))
    run = await house.begin()
    await upload(house, run)
    (said,) = house.records(run, "artifact.created")
    assert "expires_ms" not in said
    assert house.store.artifact("default", said["artifact_id"]).expires_ms is None


async def test_the_raw_payload_of_an_event_expires_at_the_time_of_its_record(house: Any) -> None:
    ends = house.clock.now_ms() + LONG * DAY_MS
    raw = house.raw(b"x" * 10, expires_ms=ends)
    run = await house.begin(raw=raw)
    row = house.store.artifact("default", raw.artifact_id)
    rebuild(house.store)
    assert house.store.artifact("default", raw.artifact_id) == row
    assert row.expires_ms == ends
    shown = await house.ask(run, "events.get", event_id=run.facts.event_id)
    assert shown["raw_ref"]["artifact_id"] == raw.artifact_id

    house.clock.advance(LONG * DAY_MS / 1000)
    assert "raw_ref" not in await house.ask(run, "events.get", event_id=run.facts.event_id)
    assert (await house.refusal(run, "artifacts.read", artifact_id=raw.artifact_id)).code == "not_found"


async def test_a_message_stays_after_its_artifact_expires(house: Any) -> None:
    house.take_artifacts(terms_of(LONG, ["*/*"]))
    run = await house.begin()
    await upload(house, run)
    (said,) = house.records(run, "artifact.created")
    content = [{"type": "text", "text": "look"}, {"type": "artifact", "artifact_id": said["artifact_id"]}]
    house.result(run, "message.completed", {"message": {"role": "assistant", "content": content}})
    assert await run.written()
    for refs in (1, 0):
        page = await house.ask(run, "history.page", include_artifacts=True)
        assert page["items"][-1]["content"] == "look"
        assert len(page["items"][-1]["artifact_refs"]) == refs
        house.clock.advance(LONG * DAY_MS / 1000)


async def test_a_tool_makes_no_artifact_of_a_forbidden_type(memory_house: Any) -> None:
    run = await memory_house.begin()
    writer = writer_of(memory_house, run, IMAGES)
    for name, mime_type in (("n", TEXT), ("n" * 256, "image/png"), ("n", "image/\npng")):
        with pytest.raises(ToolFailed) as refused:
            await writer.write(context_of(run), call_id="c", name=name, mime_type=mime_type, content=CONTENT)
        assert refused.value.hint
    assert memory_house.records(run, "artifact.created") == []


async def test_a_long_output_of_a_forbidden_type_is_not_stored(memory_house: Any) -> None:
    run = await memory_house.begin()
    repository, ledger = BlobArtifacts(memory_house.blobs, IMAGES), LiveLedger(run)
    assert await repository.keep(run.session, ledger, CONTENT, mime_type=TEXT, name="n") is None
    assert await repository.keep(run.session, ledger, CONTENT, mime_type="image/png", name="n") is not None


@for_each("wrong", ["text", "text/", "/plain", "text/pl ain", "*", "*/plain", "text/plain; charset=x"])
def test_a_setting_without_a_media_type_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError) as refused:
        terms_of(1, ["image/*", wrong])
    assert refused.value.details["field"] == "artifact_mime_types"


def test_the_artifact_terms_follow_the_settings() -> None:
    terms = terms_of(0.5, ["Image/*", TEXT])
    assert terms.expires_ms(1) == 1 + DAY_MS // 2
    assert terms.type_problem("IMAGE/png") is terms.type_problem("text/plain; charset=utf-8") is None
    assert terms.type_problem("text/html") == (
        "content of type 'text/html' is not accepted; allowed are image/*, text/plain"
    )
    assert terms_of(0, []).expires_ms(1) is None
    assert terms_of(1e-12, []).expires_ms(1) == 2  # as good as nothing is still no life for ever
    assert terms_of(0, []).type_problem("a/b") == "content of type 'a/b' is not accepted; allowed are none"


@for_each("name", ["", "  ", "a\nb", "a\x7f", "n" * (NAME_CHARACTERS + 1)])
def test_a_name_is_one_line_of_limited_length(name: str) -> None:
    assert name_problem(name) is not None
    assert name_problem("Grüße 世界.txt") is name_problem("n" * NAME_CHARACTERS) is None
