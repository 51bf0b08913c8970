"""Uploads for messages on every store: expiry, interruptions, concurrent pieces, and media types that lie."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.errors import Conflict, HostError, NotFound
from bollard.host.files.media_types import fits, type_of
from bollard.host.files.message_file import MessageFile
from bollard.host.files.uploads import MessageUploads, NewUpload
from bollard.host.limits import UPLOAD_LIFE_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.rebuild import rebuild
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.scope import Scope
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store

HERE = Scope(workspace="w", conversation="c")
TEXT = b"quarter,revenue\n1,12\n"
SHA256 = hashlib.sha256(TEXT).hexdigest()
NEW = NewUpload(place=HERE, by="key:1", name="a.csv", mime_type="text/csv", size_bytes=len(TEXT))
LONG_MS = 36_000 * 24 * 3600 * 1000
"""Beyond the time of any database that a test is run on, because a rebuild asks for that."""


@pytest.fixture
def open_uploads(open_journal: Callable[..., Journal], clock: ManualClock, tmp_path: Path) -> Callable[..., Any]:
    def opened(store: Store, incarnation: str = "i1") -> tuple[MessageUploads, Journal]:
        journal = open_journal(store, incarnation)
        uploads = MessageUploads(
            journal=journal,
            store=store,
            blobs=BlobStore(tmp_path, clock=clock),
            clock=clock,
            terms=ANY_TERMS,
            redactor=Redactor(),
        )
        return uploads, journal

    return opened


async def test_a_file_that_no_message_uses_expires_and_one_in_use_is_never_shortened(
    open_uploads: Any, store: Store, clock: ManualClock
) -> None:
    uploads, journal = open_uploads(store)
    reach = ArtifactReach(store, clock)
    file: MessageFile = await uploads.add(NEW, SHA256, len(TEXT))
    assert reach.made_in(HERE, file.artifact_id) is not None
    assert reach.made_in(Scope(workspace="w", conversation="other"), file.artifact_id) is None
    clock.advance(UPLOAD_LIFE_S)
    assert reach.made_in(HERE, file.artifact_id) is None
    file = await uploads.add(NEW, SHA256, len(TEXT))
    lasting_ms = clock.now_ms() + LONG_MS
    used = replace(file, expires_ms=lasting_ms).record(clock.now_ms(), event_id="evt_1")
    again = file.record(clock.now_ms())  # the upload of the same file may be written later
    await journal.commit(Entry(records=[used, again], size=len(used.data) + len(again.data)))
    row = store.artifact("w", file.artifact_id)
    assert row is not None
    assert row.expires_ms == lasting_ms
    before = store.dump_projections()["artifacts"]
    rebuild(store)
    assert store.dump_projections()["artifacts"] == before


async def test_an_interrupted_upload_goes_on_after_a_restart_and_expires(
    open_uploads: Any, store: Store, clock: ManualClock
) -> None:
    uploads, _ = open_uploads(store)
    begun = await uploads.begin(NEW)
    await uploads.append(begun, 0, TEXT[:5])
    uploads, _ = open_uploads(store, "i2")
    found = await uploads.find("w", "key:1", begun.upload_id)
    assert (found.offset, found.new) == (5, NEW)
    await uploads.append(found, 5, TEXT[5:])
    made = await uploads.finish(await uploads.find("w", "key:1", begun.upload_id), SHA256)
    assert (made.sha256, made.size_bytes) == (SHA256, len(TEXT))
    left = await uploads.begin(NEW)
    clock.advance(UPLOAD_LIFE_S)
    for caller, upload_id in (("key:1", left.upload_id), ("key:2", left.upload_id), ("key:1", "absent")):
        with pytest.raises(NotFound):
            await uploads.find("w", caller, upload_id)


async def test_an_upload_is_finished_again_after_a_lost_answer_or_a_crash(
    open_uploads: Any, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException): ...

    points = list[str]()

    def killed(name: str) -> None:
        if name in points:
            points.remove(name)
            raise Killed

    monkeypatch.setattr("bollard.host.files.uploads.kill_point", killed)
    for number, point in enumerate(("uploads.before_blob", "uploads.after_blob", "nowhere")):
        points.append(point)
        uploads, _ = open_uploads(store, f"i{number}")
        content = TEXT * (number + 1)
        digest = hashlib.sha256(content).hexdigest()
        begun = await uploads.begin(replace(NEW, size_bytes=len(content)))
        await uploads.append(begun, 0, content)

        async def finish(uploads: MessageUploads, upload_id: str, sha256: str) -> MessageFile:
            return await uploads.finish(await uploads.find("w", "key:1", upload_id), sha256)

        with pytest.raises(Conflict):
            await finish(uploads, begun.upload_id, "0" * 64)
        first = None
        try:
            first = await finish(uploads, begun.upload_id, digest)
        except Killed:
            uploads, _ = open_uploads(store, f"again{number}")
        made = [await finish(uploads, begun.upload_id, digest) for _ in range(2)]
        assert {each.artifact_id for each in (*made, first or made[0])} == {made[0].artifact_id}
        assert store.artifact("w", made[0].artifact_id) is not None
        with pytest.raises(Conflict):
            await finish(uploads, begun.upload_id, "0" * 64)
        with pytest.raises(NotFound):
            await uploads.append(begun, 0, content)
    assert points == ["nowhere"]
    clock.advance(UPLOAD_LIFE_S)
    with pytest.raises(NotFound):
        await uploads.find("w", "key:1", begun.upload_id)


async def test_the_uploads_of_erased_callers_are_forgotten(open_uploads: Any, store: Store) -> None:
    uploads, _ = open_uploads(store)
    left, finished, other = [await uploads.begin(replace(NEW, by=by)) for by in ("user:ann", "key:ann", "user:bob")]
    await uploads.append(left, 0, TEXT[:3])
    await uploads.append(finished, 0, TEXT)
    await uploads.finish(await uploads.find("w", "key:ann", finished.upload_id), SHA256)
    await uploads.forget("w", {"user:ann", "key:ann"})
    for each in (left, finished):
        with pytest.raises(NotFound):
            await uploads.find("w", each.new.by, each.upload_id)
    assert (await uploads.find("w", "user:bob", other.upload_id)).offset == 0


async def test_concurrent_pieces_leave_one_content(open_uploads: Any, memory_store: Store) -> None:
    uploads, _ = open_uploads(memory_store)
    begun = await uploads.begin(NEW)
    pieces = [(0, TEXT[:8]), (0, TEXT[:8]), (0, b"other by"), (8, TEXT[8:]), (8, TEXT[8:])]
    outcomes = await asyncio.gather(*(uploads.append(begun, *each) for each in pieces), return_exceptions=True)
    assert all(isinstance(each, int | Conflict) for each in outcomes)
    found = await uploads.find("w", "key:1", begun.upload_id)
    assert 8 <= found.offset <= len(TEXT)
    refused: Any = None
    try:
        await uploads.finish(found, SHA256)
    except HostError as error:
        refused = error
    assert refused is None or refused.reason in ("digest_differs", "upload_incomplete")


SHOWN = {
    "a PNG": ("image/png", b"\x89PNG\r\n\x1a\n", True),
    "a PNG that is a JPEG": ("image/png", b"\xff\xd8\xff\xe0", False),
    "HTML as an image": ("image/png", b"<html>", False),
    "a WebP": ("image/webp; q=1", b"RIFF\0\0\0\0WEBP", True),
    "a WAV as WebP": ("image/webp", b"RIFF\0\0\0\0WAVE", False),
    "a program as a PDF": ("application/pdf", b"MZ\x90", False),
    "a zip as DOCX": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", b"PK\3\4", True),
    "text": ("TEXT/plain", "grüße".encode(), True),
    "text of Windows": ("text/plain", "grüße".encode("utf-16"), True),
    "bytes as text": ("text/plain", b"a\0b", False),
    "a type that is not known": ("application/x-own", b"\0", True),
}


@for_each("case", SHOWN)
def test_the_first_bytes_fit_the_declared_type_or_not(case: str) -> None:
    declared, head, is_fitting = SHOWN[case]
    assert fits(declared, head) is is_fitting


def test_a_type_that_nobody_declares_follows_from_the_name_if_the_bytes_fit() -> None:
    assert type_of("a.csv", b"1,2") == "text/csv"
    assert type_of("a.png", b"GIF89a") == "image/gif"
    assert type_of(None, b"%PDF-1.4") == "application/pdf"
    assert type_of("a.own", b"\0\1") == "application/octet-stream"
