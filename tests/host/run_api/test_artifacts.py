"""`artifacts.*`: the reach of a run, ranged reads, and uploads in pieces."""

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.run_api.artifacts import UPLOADS_PER_RUN, Uploads
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.store.artifact_terms import ArtifactTerms, MimeTypes
from bollard.protocol import ArtifactsAppend, ArtifactsBegin, limits


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def uploaded(house: Any, run: Any, *pieces: bytes) -> dict[str, Any]:
    begun = await house.ask(run, "artifacts.begin", name="report.txt", mime_type="text/plain")
    upload, offset = begun["upload_id"], 0
    for piece in pieces:
        answer = await house.ask(run, "artifacts.append", upload_id=upload, offset=offset, content_base64=text64(piece))
        offset = answer["offset"]
    return await house.ask(run, "artifacts.finish", upload_id=upload, sha256=digest_of(b"".join(pieces)))


async def test_an_upload_gives_an_artifact_that_is_on_disk_before_the_answer(house: Any) -> None:
    run = await house.begin()

    made = await uploaded(house, run, b"hello ", b"world")

    row = house.store.artifact("default", made["artifact_id"])
    assert (row.sha256, row.size_bytes, row.conversation) == (digest_of(b"hello world"), 11, "room")
    assert made["name"] == "report.txt"
    assert made["run_id"] == run.facts.run_id
    assert made["created_at"] == house.clock.now_ms() / 1000
    assert await house.ask(run, "artifacts.metadata", artifact_id=made["artifact_id"]) == made


async def test_an_artifact_is_read_in_ranges_by_later_runs_of_its_conversation(house: Any) -> None:
    first = await house.begin(thread="aside")
    made = await uploaded(house, first, b"0123456789")
    await house.end(first)
    run = await house.begin(thread="aside")

    middle = await house.ask(run, "artifacts.read", artifact_id=made["artifact_id"], offset=3, length=4)
    tail = await house.ask(run, "artifacts.read", artifact_id=made["artifact_id"], offset=7)
    behind = await house.ask(run, "artifacts.read", artifact_id=made["artifact_id"], offset=99)

    assert base64.b64decode(middle["content_base64"]) == b"3456"
    assert (middle["length"], middle["size_bytes"], middle["has_more"]) == (4, 10, True)
    assert (base64.b64decode(tail["content_base64"]), tail["has_more"]) == (b"789", False)
    assert (behind["length"], behind["has_more"]) == (0, False)


async def test_one_read_returns_at_most_a_mebibyte(memory_house: Any) -> None:
    run = await memory_house.begin()
    memory_house.put_artifact("big", b"x" * (limits.READ_BYTES + 5), of=run)

    piece = await memory_house.ask(run, "artifacts.read", artifact_id="big", length=limits.READ_BYTES)
    refused = await memory_house.refusal(run, "artifacts.read", artifact_id="big", length=limits.READ_BYTES + 1)

    assert (piece["length"], piece["has_more"]) == (limits.READ_BYTES, True)
    assert refused.code == "invalid_argument"


@pytest.mark.requirement("P05-32")
async def test_an_artifact_of_a_result_is_in_the_namespace_of_its_run(house: Any) -> None:
    run = await house.begin()
    data = {"artifact_type": "file", "artifact_id": "chart", "content_base64": text64(b"inline")}
    house.result(run, "artifact.created", data)

    piece = await house.ask(run, "artifacts.read", artifact_id=f"art_{run.facts.run_id}_chart")

    assert base64.b64decode(piece["content_base64"]) == b"inline"


async def test_a_result_with_a_digest_only_reaches_no_foreign_content(house: Any) -> None:
    other = await uploaded(house, await house.begin(conversation="other"), b"secret")
    run = await house.begin()
    claims = {"artifact_type": "file", "sha256": other["sha256"], "size_bytes": 6}
    house.result(run, "artifact.created", {**claims, "artifact_id": "mine"})
    house.result(run, "artifact.created", {**claims, "artifact_id": other["artifact_id"]})

    refused = await house.refusal(run, "artifacts.read", artifact_id=f"art_{run.facts.run_id}_mine")
    known = await house.ask(run, "artifacts.metadata", artifact_id=f"art_{run.facts.run_id}_mine")

    assert (refused.code, refused.message) == ("not_found", "the artifact has no content here")
    assert known.keys().isdisjoint({"sha256", "size_bytes"})
    row = house.store.artifact("default", other["artifact_id"])
    assert (row.run_id, row.conversation, row.sha256) == (other["run_id"], "other", other["sha256"])
    assert (await house.refusal(run, "artifacts.metadata", artifact_id=other["artifact_id"])).code == "not_found"


async def test_a_result_that_names_an_upload_does_not_change_it(house: Any) -> None:
    run = await house.begin()
    made = await uploaded(house, run, b"hello")

    house.result(run, "artifact.created", {"artifact_type": "image", "artifact_id": made["artifact_id"]})
    piece = await house.ask(run, "artifacts.read", artifact_id=made["artifact_id"])

    assert base64.b64decode(piece["content_base64"]) == b"hello"
    assert await house.ask(run, "artifacts.metadata", artifact_id=made["artifact_id"]) == made


async def test_the_artifacts_of_another_bots_conversation_of_the_same_name_are_foreign(house: Any) -> None:
    made = await uploaded(house, await house.begin(bot="second"), b"secret")
    run = await house.begin()

    refused = await house.refusal(run, "artifacts.read", artifact_id=made["artifact_id"])

    assert refused.bytes == (await house.refusal(run, "artifacts.read", artifact_id="art_never")).bytes


async def test_a_run_without_a_conversation_has_only_its_own_artifacts(house: Any) -> None:
    first, second = await house.begin(conversation=None), await house.begin(conversation=None)
    made = await uploaded(house, first, b"mine")

    assert await house.ask(first, "artifacts.metadata", artifact_id=made["artifact_id"]) == made
    assert (await house.refusal(second, "artifacts.metadata", artifact_id=made["artifact_id"])).code == "not_found"


async def test_an_expired_artifact_is_not_found(house: Any) -> None:
    run = await house.begin()
    house.put_artifact("brief", b"x", of=run, expires_ms=house.clock.now_ms() + 1000)
    assert (await house.ask(run, "artifacts.metadata", artifact_id="brief"))["expires_at"]

    house.clock.advance(1)

    assert (await house.refusal(run, "artifacts.metadata", artifact_id="brief")).code == "not_found"


async def test_an_artifact_without_content_is_not_found(house: Any) -> None:
    run = await house.begin()
    house.put_artifact("bare", None, of=run)
    house.put_artifact("lost", None, of=run, sha256="0" * 64)

    for artifact_id in ("bare", "lost"):
        refused = await house.refusal(run, "artifacts.read", artifact_id=artifact_id)
        assert (refused.code, refused.message) == ("not_found", "the artifact has no content here")


async def test_pieces_at_a_wrong_offset_are_refused_with_the_right_offset(memory_house: Any) -> None:
    house, run = memory_house, await memory_house.begin()
    upload = (await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]

    async def append(offset: int, content: bytes) -> Any:
        return await house.ask(run, "artifacts.append", upload_id=upload, offset=offset, content_base64=text64(content))

    first, again = await append(0, b"abc"), await append(0, b"abc")
    gap = await house.refusal(run, "artifacts.append", upload_id=upload, offset=5, content_base64=text64(b"x"))
    other = await house.refusal(run, "artifacts.append", upload_id=upload, offset=0, content_base64=text64(b"abX"))

    assert (first["offset"], again["offset"]) == (3, 3)
    assert (gap.code, gap.details) == ("invalid_argument", {"field": "offset", "offset": 3})
    assert "3" in gap.message
    assert (other.code, other.details) == ("invalid_argument", {"field": "offset", "offset": 3})


async def test_a_wrong_digest_is_refused_and_the_upload_continues(memory_house: Any) -> None:
    house, run = memory_house, await memory_house.begin()
    upload = (await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]
    await house.ask(run, "artifacts.append", upload_id=upload, offset=0, content_base64=text64(b"abc"))

    refused = await house.refusal(run, "artifacts.finish", upload_id=upload, sha256=digest_of(b"abcd"))
    await house.ask(run, "artifacts.append", upload_id=upload, offset=3, content_base64=text64(b"d"))
    made = await house.ask(run, "artifacts.finish", upload_id=upload, sha256=digest_of(b"abcd"))
    again = await house.refusal(run, "artifacts.finish", upload_id=upload, sha256=digest_of(b"abcd"))

    assert (refused.code, refused.details) == ("invalid_argument", {"field": "sha256"})
    assert made["size_bytes"] == 4
    assert again.code == "not_found"
    assert len(house.records(run, "artifact.created")) == 1


async def test_two_concurrent_finishes_make_one_artifact(memory_house: Any) -> None:
    house, run = memory_house, await memory_house.begin()
    upload = (await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]

    finishes = [house.ask(run, "artifacts.finish", upload_id=upload, sha256=digest_of(b"")) for _ in range(2)]
    outcomes = await asyncio.gather(*finishes, return_exceptions=True)

    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert len(house.records(run, "artifact.created")) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 256),
        ("name", "a\0b"),
        ("name", "a\nb"),
        ("artifact_type", "x" * 256),
        ("mime_type", "text"),
        ("mime_type", "text/plain;" + "x" * 300),
    ],
)
async def test_an_upload_needs_a_valid_name(memory_house: Any, field: str, value: str) -> None:
    run = await memory_house.begin()
    params = {"name": "a", "mime_type": "text/plain", field: value}

    refused = await memory_house.refusal(run, "artifacts.begin", **params)

    assert (refused.code, refused.details["field"]) == ("invalid_argument", field)


async def test_a_run_has_a_limited_number_of_open_uploads(memory_house: Any) -> None:
    house, run, other = memory_house, await memory_house.begin(), await memory_house.begin()

    begins = [house.ask(run, "artifacts.begin", name="a", mime_type="text/plain") for _ in range(UPLOADS_PER_RUN + 5)]
    outcomes = await asyncio.gather(*begins, return_exceptions=True)

    refused = [outcome for outcome in outcomes if not isinstance(outcome, dict)]
    assert [refusal.code for refusal in refused] == ["rate_limited"] * 5
    assert await house.ask(other, "artifacts.begin", name="a", mime_type="text/plain")


async def test_forbidden_types_and_sizes_are_refused(memory_house: Any, clock: ManualClock) -> None:
    run = await memory_house.begin()
    reach = ArtifactReach(memory_house.store, clock)
    images = MimeTypes(allow=frozenset({"image/*"}))
    uploads = Uploads(memory_house.blobs, reach.find, terms=ArtifactTerms(mime_types=images), max_bytes=4)

    with pytest.raises(ApiRefused, match="is not accepted; allowed are image") as refused:
        await uploads.begin(run, ArtifactsBegin(name="a", mime_type="text/plain"))
    assert (refused.value.error.code, refused.value.error.details) == ("invalid_argument", {"field": "mime_type"})
    upload = await uploads.begin(run, ArtifactsBegin(name="a", mime_type="image/png"))
    with pytest.raises(ApiRefused) as caught:
        await uploads.append(
            run, ArtifactsAppend(upload_id=upload.upload_id, offset=0, content_base64=text64(b"12345"))
        )
    assert caught.value.error.code == "payload_too_large"


async def test_the_open_uploads_of_a_run_are_removed_at_its_end(memory_house: Any, tmp_path: Path) -> None:
    house, run = memory_house, await memory_house.begin()
    upload = (await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]
    file = tmp_path / "blobs" / "uploads" / upload
    assert file.exists()

    await house.end(run)
    async with asyncio.timeout(30):
        while file.exists():
            await asyncio.to_thread(lambda: None)

    other = await house.begin()
    assert (await house.refusal(other, "artifacts.finish", upload_id=upload, sha256="0" * 64)).code == "not_found"
