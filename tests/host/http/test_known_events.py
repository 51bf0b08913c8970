"""A repeated event gets its first outcome, also while the disk is full."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from tests.new_events import new_event
from tests.replacement import replace

from bollard.host.errors import HostError, StorageFull
from bollard.host.events.acceptance import Accepted
from bollard.host.http.answers import BODY_BYTES
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.event_data import LargeData
from bollard.host.http.events.incoming import IncomingEvent, Sender, format_of, read_one
from bollard.host.http.events.message_inputs import MessageInputs
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.http.events.reception import EventReception
from bollard.host.limits import EVENT_BYTES
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms, terms_of
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

Stages = Callable[..., Awaitable[Any]]


class FillableBlobs(BlobStore):
    """Contents on a disk that may be full."""

    full = False

    def append(self, upload_id: str, offset: int, content: bytes, **more: Any) -> int:
        if self.full:
            raise StorageFull("the disk is full", reason="test", hint="free some space")
        return super().append(upload_id, offset, content, **more)


def reception(stage: Any, payloads: Payloads, store: Store, terms: ArtifactTerms) -> EventReception:
    inputs = MessageInputs(
        reach=ArtifactReach(store, stage.clock),
        known=stage.intake.deduplication,
        blobs=BlobStore(Path("unused")),
        clock=stage.clock,
        terms=terms,
        redactor=Redactor(),
    )
    return EventReception(
        intake=stage.intake, payloads=payloads, store=store, clock=stage.clock, terms=terms, inputs=inputs
    )


def incoming(event_id: str, source: str = "ci", *, caller: str = "key:1", **more: Any) -> IncomingEvent:
    data = {} if "large" in more else {"a": 1}
    event = new_event(source=source, source_id=event_id, event_type="build.failed", data=data, caller=caller)
    return IncomingEvent(event=event, **more)


CONTENT = LargeData(b"\0\1" * 100, "application/octet-stream")


EVENTS = {
    "with a run": incoming("1", agent="parrot"),
    "for nobody": incoming("2", source="nobody"),
    "that had expired": incoming("3", agent="parrot", expires_ms=1),
    "with a content": incoming("4", agent="parrot", large=CONTENT),
    "with a content, for nobody": incoming("5", source="nobody", large=CONTENT),
}


@pytest.mark.parametrize("kind", EVENTS)
async def test_a_duplicate_event_on_a_full_disk_gets_its_first_outcome(
    store: Store, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stage, blobs, event = await stages(store), FillableBlobs(tmp_path), EVENTS[kind]
    taking = reception(stage, Payloads(blobs, EVENT_BYTES), store, ANY_TERMS)
    body = Payload(size=0, held=b"")
    first = await taking.take(event, body)
    assert first.first
    blobs.full = True
    monkeypatch.setattr(Journal, "full", True)  # the run of the event commits meanwhile, and must not clear it
    again = await taking.take(event, body)
    assert again == replace(first, first=False)
    with pytest.raises(StorageFull):
        await taking.take(replace(event, event=replace(event.event, source_id="new")), body)


async def test_a_duplicate_event_is_recognised_even_if_its_content_is_no_longer_allowed(
    store: Store, stages: Stages, tmp_path: Path
) -> None:
    stage, payloads = await stages(store), Payloads(BlobStore(tmp_path), EVENT_BYTES)
    before, after = ANY_TERMS, terms_of(0, ["text/plain"])
    event, body = EVENTS["with a content"], Payload(size=0, held=b"")
    first = await reception(stage, payloads, store, before).take(event, body)
    strict = reception(stage, payloads, store, after)
    assert await strict.take(event, body) == replace(first, first=False)
    with pytest.raises(HostError) as refused:
        await strict.take(replace(event, event=replace(event.event, source_id="new")), body)
    assert isinstance(refused.value, UnsupportedMedia)


@pytest.mark.parametrize("form", ["native", "structured", "binary"])
async def test_a_large_duplicate_event_on_a_full_disk_gets_its_first_outcome(
    store: Store, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    stage, blobs = await stages(store), FillableBlobs(tmp_path)
    payloads = Payloads(blobs, EVENT_BYTES)
    taking = reception(stage, payloads, store, ANY_TERMS)
    large: JsonObject = {"text": "x" * (2 * BODY_BYTES)}

    async def send(event_id: str) -> Accepted:
        request = large_event(form, event_id, large)
        async with payloads.received(request, again=True) as payload:
            sender = Sender(workspace="default", caller="key:1", message_id=None)
            read = await read_one(format_of(request.headers), request.headers, payload, payloads, sender)
            return await taking.take(replace(read, agent="parrot"), payload)

    first = await send("1")
    assert first.first
    blobs.full = True
    monkeypatch.setattr(Journal, "full", True)
    assert await send("1") == replace(first, first=False)
    with pytest.raises(StorageFull):
        await send("2")


def large_event(form: str, event_id: str, data: JsonObject) -> Request:
    named: JsonObject = {"specversion": "1.0", "id": event_id, "source": "ci", "type": "build.failed"}
    headers = {"content-type": "application/json"}
    body: JsonObject = {**named, "data": data}
    if form == "structured":
        headers = {"content-type": "application/cloudevents+json"}
    elif form == "native":
        del body["specversion"]
    else:
        headers |= {f"ce-{name}": str(value) for name, value in named.items()}
        body = data
    sent = json.dumps(body).encode()

    async def receive() -> Any:
        return {"type": "http.request", "body": sent, "more_body": False}

    return Request(
        {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}, receive
    )


async def test_an_event_is_recorded_with_its_caller_and_duplicates_ignore_the_caller(
    store: Store, stages: Stages, tmp_path: Path
) -> None:
    stage, body = await stages(store), Payload(size=0, held=b"")
    taking = reception(stage, Payloads(BlobStore(tmp_path), EVENT_BYTES), store, ANY_TERMS)
    event = EVENTS["with a run"]
    first = await taking.take(event, body, keyed=True)
    (received,) = [row for row in store.records(0, 100) if row.type == "event.received"]
    assert data_of(received)["caller"] == "key:1"
    again = await taking.take(incoming("1", caller="key:2", agent="parrot"), body, keyed=True)
    assert again == replace(first, first=False)
