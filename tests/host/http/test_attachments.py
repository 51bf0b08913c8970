"""Attachments of messages: the run gets them, and artifacts out of reach are refused."""

from itertools import count
from typing import Any

import pytest

AGENT = "workshop.carrier"
ADA = {"actor": {"id": "ada"}}
_rooms = count()


@pytest.fixture
def room() -> str:
    return f"attached-{next(_rooms)}"


def make(shop: Any, **place: Any) -> str:
    """The id of an artifact that was made there."""
    events = shop.read(shop.tell(AGENT, "make", **place, **ADA).json["run_id"])
    (made,) = [event.data["data"]["artifact_id"] for event in events if event.type == "artifact.created"]
    return made


def attach(shop: Any, *artifact_ids: str, text: str = "read it", **place: Any) -> Any:
    attached = [
        {"artifact_id": each, "artifact_type": "file", "name": "a lie", "size_bytes": 1} for each in artifact_ids
    ]
    return shop.post("/api/v1/runs", {"agent": AGENT, "input": {"text": text, "attachments": attached}, **place, **ADA})


def said(shop: Any, run_id: str) -> list[str]:
    events = [event.data["data"] for event in shop.read(run_id) if event.type == "message.completed"]
    return [event["message"]["content"] for event in events if event["message"]["content"] != "carrying "]


def test_a_run_reads_the_attachments_of_its_message(shop: Any, room: str) -> None:
    artifact_id = make(shop, conversation=room)
    answer = attach(shop, artifact_id, conversation=room)
    assert answer.status == 202, answer.body
    assert said(shop, answer.json["run_id"]) == ["note.txt 13: what was made"], "the host adds the facts"


def test_a_steering_message_brings_its_attachments(shop: Any, room: str) -> None:
    artifact_id = make(shop, conversation=room)
    run_id = shop.tell(AGENT, "wait", conversation=room, **ADA).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    steered = {"text": "this", "attachments": [{"artifact_id": artifact_id, "artifact_type": "file"}]}
    answer = shop.post(f"/api/v1/runs/{run_id}/steer", {"input": steered})
    assert (answer.status, answer.json["steering"]["claimed_by_run_id"]) == (202, run_id)
    list(stream)
    assert said(shop, run_id) == ["note.txt 13: what was made"]


def test_a_repeated_message_has_its_first_outcome_also_without_its_attachments(shop: Any, room: str) -> None:
    artifact_id = make(shop, conversation=room)
    said = {"text": "read it", "attachments": [{"artifact_id": artifact_id, "artifact_type": "file"}]}
    told = {"agent": AGENT, "input": said, "conversation": room, **ADA}
    created = shop.post("/api/v1/runs", told, idempotency_key=f"{room}-0")
    shop.ended(created.json["run_id"])
    run_id = shop.tell(AGENT, "wait", conversation=room, **ADA).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    steered = shop.post(f"/api/v1/runs/{run_id}/steer", {"input": said}, idempotency_key=f"{room}-1")
    list(stream)
    requests = [("/api/v1/runs", told, created), (f"/api/v1/runs/{run_id}/steer", {"input": said}, steered)]
    assert shop.delete(f"/api/v1/artifacts/{artifact_id}").status == 200
    for number, (path, body, first) in enumerate(requests):
        again = shop.post(path, body, idempotency_key=f"{room}-{number}")
        assert (first.status, again.status, again.json) == (202, 200, {**first.json, "first": False})
        other = {**body, "input": {**said, "text": "something else"}}
        assert shop.post(path, other, idempotency_key=f"{room}-{number}").status == 422
        assert shop.post(path, body, idempotency_key=f"{room}-{number}-new").status == 400


def test_an_artifact_out_of_reach_is_refused_with_its_field(shop: Any, room: str) -> None:
    here, elsewhere = make(shop, conversation=room), make(shop, conversation=f"{room}-other")
    threaded, nowhere = make(shop, conversation=room, thread="t"), make(shop)
    for absent in ("art_absent", elsewhere, threaded, nowhere, "x" * 5000, "a\0b", ""):
        refused = attach(shop, here, absent, conversation=room)
        assert (refused.status, refused.error["code"]) == (400, "invalid_argument"), absent
        assert refused.error["details"]["field"] == "input.attachments.1.artifact_id"
    assert attach(shop, here).status == 400, "a message of no conversation has nothing to attach"
    many = attach(shop, *[here] * 33, conversation=room)
    assert (many.status, many.error["details"]["field"]) == (400, "input.attachments")
    assert len(shop.get(f"/api/v1/runs?conversation={room}").json["items"]) == 2, "nothing was begun"
