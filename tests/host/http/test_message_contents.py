"""Contents of messages in a whole host: inline files become artifacts on every entry, and bad ones are refused."""

import base64
import json
import time
from itertools import count
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.clock import SystemClock
from bollard.host.log.rebuild import rebuild
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store

AGENT = "workshop.carrier"
TEXT = b"quarter,revenue\n1,12\n"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
_rooms = count()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


FILE = {"type": "file_base64", "file_base64": encoded(TEXT), "file_name": "notes.txt"}
READ = [f"notes.txt {len(TEXT)}: {TEXT.decode()}"]


@pytest.fixture
def room() -> str:
    return f"contents-{next(_rooms)}"


def said(shop: Any, run_id: str) -> list[str]:
    events = [event.data["data"] for event in shop.read(run_id) if event.type == "message.completed"]
    return [event["message"]["content"] for event in events if event["message"]["content"] != "carrying "]


def tell(shop: Any, *contents: Any, **more: Any) -> Any:
    return shop.post("/api/v1/runs", {"agent": AGENT, "input": {"text": "read", "contents": [*contents]}, **more})


def content_of(shop: Any, event_id: str) -> Any:
    return shop.get(f"/api/v1/events/{event_id}").json["content"]


def test_a_file_in_a_message_becomes_an_artifact_that_its_run_reads(shop: Any, room: str) -> None:
    answer = tell(shop, {"type": "text", "text": "read"}, FILE, conversation=room)
    assert answer.status == 202, answer.body
    assert said(shop, answer.json["run_id"]) == READ
    text, file = content_of(shop, answer.json["event_id"])["contents"]
    assert (text["type"], file["type"]) == ("text", "artifact"), "no content is in the log"
    held = shop.get(f"/api/v1/artifacts/{file['artifact_id']}").json
    assert (held["name"], held["mime_type"], held["conversation_id"]) == ("notes.txt", "text/plain", room)
    assert shop.get(f"/api/v1/artifacts/{file['artifact_id']}/content").body == TEXT


def test_a_message_without_a_conversation_has_files_for_its_run_alone(shop: Any) -> None:
    first, second = tell(shop, FILE), tell(shop, FILE)
    assert said(shop, first.json["run_id"]) == said(shop, second.json["run_id"]) == READ
    ids = [content_of(shop, each.json["event_id"])["contents"][0]["artifact_id"] for each in (first, second)]
    assert ids[0] != ids[1]


def test_a_message_that_steers_brings_its_files(shop: Any, room: str) -> None:
    run_id = shop.tell(AGENT, "wait", conversation=room, actor={"id": "ada"}).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    steered = shop.post(f"/api/v1/runs/{run_id}/steer", {"input": {"text": "this", "contents": [FILE]}})
    assert (steered.status, steered.json["steering"]["claimed_by_run_id"]) == (202, run_id)
    list(stream)
    assert said(shop, run_id) == READ


def event(room: str, contents: Any) -> Any:
    return {
        "source": "mail",
        "id": room,
        "type": "message.received",
        "agent": AGENT,
        "conversation": room,
        "text": "read",
        "contents": contents,
    }


def test_events_and_cloudevents_have_contents(shop: Any, room: str) -> None:
    native = shop.post("/api/v1/events", event(room, [FILE]))
    assert native.status == 202, native.body
    assert said(shop, native.json["run_id"]) == READ
    cloud = {
        "specversion": "1.0",
        "id": "1",
        "source": room,
        "type": "message.received",
        "agent": AGENT,
        "conversation": room,
        "data": {"text": "read", "contents": [FILE], "more": 1},
    }
    sent = shop.post("/api/v1/events", json.dumps(cloud).encode(), content_type="application/cloudevents+json")
    assert sent.status == 202, sent.body
    assert said(shop, sent.json["run_id"]) == READ
    kept = content_of(shop, sent.json["event_id"])
    assert (kept["data"], kept["contents"][0]["type"]) == ({"text": "read", "more": 1}, "artifact")


def test_an_event_of_a_channel_has_contents(shop: Any, room: str) -> None:
    secret = shop.put(f"/api/v1/channels/{room}", {}).json["secret"]
    shop.put(f"/api/v1/bindings/{room}", {"agent_id": AGENT, "scope": {"channel": room}})
    body = json.dumps({"id": "1", "conversation": "c", "text": "read", "contents": [FILE]}).encode()
    headers = sign(secret_bytes(secret), "m", int(time.time()), body)
    sent = shop.post(
        f"/api/v1/channels/{room}/events", body, token=None, **{k.replace("-", "_"): v for k, v in headers.items()}
    )
    assert sent.status == 202, sent.body
    assert said(shop, sent.json["run_id"]) == READ


@for_each("path", ["/api/v1/runs", "/api/v1/events"])
def test_a_repeated_message_gets_its_first_outcome_and_another_file_is_another_message(shop: Any, path: str) -> None:
    room = f"again-{next(_rooms)}"
    runs = {"agent": AGENT, "input": {"text": "read", "contents": [FILE]}, "conversation": room}
    body = runs if path.endswith("runs") else {**event(room, [FILE]), "id": None}
    first, again = (shop.post(path, body, idempotency_key=room) for _ in range(2))
    assert (first.status, again.status, again.json) == (202, 200, {**first.json, "first": False}), again.body
    other = json.loads(json.dumps(body).replace(encoded(TEXT), encoded(b"another file")))
    assert shop.post(path, other, idempotency_key=room).status == 422


BAD = {
    "no base64": ({**FILE, "file_base64": "%%%"}, 400),
    "cut base64": ({"type": "image_base64", "image_base64": encoded(PNG)[:-2]}, 400),
    "an image that is none": ({"type": "image_base64", "image_base64": encoded(TEXT)}, 400),
    "an image that lies": ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(TEXT)}"}}, 400),
    "a data URL that is no image": (
        {"type": "image_url", "image_url": {"url": f"data:text/plain;base64,{encoded(TEXT)}"}},
        400,
    ),
    "a data URL without base64": ({"type": "file_url", "file_url": "data:text/plain,hello"}, 400),
    "an empty file": ({**FILE, "file_base64": ""}, 400),
    "a name with a folder": ({**FILE, "file_name": "../x"}, 400),
    "an artifact of nobody": ({"type": "artifact", "artifact_id": "art_absent"}, 400),
}


@for_each("case", BAD)
def test_a_bad_element_is_refused_with_its_field_and_nothing_begins(shop: Any, case: str) -> None:
    element, status = BAD[case]
    room = f"bad-{next(_rooms)}"
    for refused in (tell(shop, FILE, element, conversation=room), shop.post("/api/v1/events", event(room, [element]))):
        assert refused.status == status, refused.body
        assert "contents." in refused.error["details"]["field"]
    assert shop.get(f"/api/v1/runs?conversation={room}").json["items"] == []


def test_images_of_every_form_are_artifacts(shop: Any, room: str) -> None:
    url = f"data:image/png;base64,{encoded(PNG)}"
    answer = tell(
        shop,
        {"type": "image_base64", "image_base64": encoded(PNG)},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        conversation=room,
    )
    assert answer.status == 202, answer.body
    kinds = [(each["type"], each.get("artifact_id")) for each in content_of(shop, answer.json["event_id"])["contents"]]
    assert [kind for kind, _ in kinds] == ["artifact", "artifact", "image_url"]
    assert kinds[0] == kinds[1], "the same image is stored once"
    assert shop.get(f"/api/v1/artifacts/{kinds[0][1]}").json["artifact_type"] == "image"


def test_a_rebuild_makes_the_same_artifacts(workshop: Any, start_host: Any, client_of: Any, tmp_path: Any) -> None:
    own = Settings(data=tmp_path / "data", plugins=(workshop,), builtin_plugins=False, port=0, grace_s=0.5)
    host = start_host(own)
    shop = client_of(host.port, host.token)
    shop.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    answers = [tell(shop, FILE, conversation="rebuilt"), tell(shop, FILE)]
    made = shop.post("/api/v1/artifacts?conversation=rebuilt", TEXT, content_type="text/plain").json["artifact_id"]
    given = {"attachments": [{"artifact_id": made, "artifact_type": "file"}], "text": "read"}
    answers.append(shop.post("/api/v1/runs", {"agent": AGENT, "input": given, "conversation": "rebuilt"}))
    for answer in answers:
        shop.ended(answer.json["run_id"])
    host.stop()
    store = choose_store("", own.data, SystemClock())
    store.open()
    before = store.dump_projections()
    assert len(before["artifacts"]) == 3
    rebuild(store)
    assert store.dump_projections() == before
    store.close()


# --- messages that are larger than other bodies ---

MIB = 1024 * 1024
PHOTO = PNG + b"\1" * (3 * MIB)
INLINE = {"type": "image_base64", "image_base64": encoded(PHOTO)}


def brought(shop: Any, event_id: str) -> list[int]:
    """The sizes of the files of an event."""
    contents = content_of(shop, event_id)["contents"]
    return [shop.get(f"/api/v1/artifacts/{each['artifact_id']}").json["size_bytes"] for each in contents]


def test_a_message_has_a_photo_inside_on_every_entry(shop: Any, room: str) -> None:
    told = tell(shop, INLINE, conversation=room, data={"mood": "calm"})
    native = shop.post("/api/v1/events", {**event(room, [INLINE]), "data": {"mood": "calm"}})
    attributes = {"specversion": "1.0", "id": "1", "source": room, "type": "message.received", "agent": AGENT}
    data = {"text": "read", "contents": [INLINE], "mood": "calm"}
    cloud = json.dumps({**attributes, "data": data}).encode()
    structured = shop.post("/api/v1/events", cloud, content_type="application/cloudevents+json")
    headers = {f"ce_{name}": value for name, value in {**attributes, "id": "2"}.items()}
    binary = shop.post("/api/v1/events", json.dumps(data).encode(), content_type="application/json", **headers)
    for answer in (told, native, structured, binary):
        assert answer.status == 202, answer.body
        assert brought(shop, answer.json["event_id"]) == [len(PHOTO)]
        assert content_of(shop, answer.json["event_id"])["data"]["mood"] == "calm"


def test_a_message_that_steers_has_a_photo_inside(shop: Any, room: str) -> None:
    run_id = shop.tell(AGENT, "wait", conversation=room, actor={"id": "ada"}).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    steered = shop.post(f"/api/v1/runs/{run_id}/steer", {"input": {"text": "this", "contents": [INLINE]}})
    assert steered.status == 202, steered.body
    list(stream)
    assert brought(shop, steered.json["event_id"]) == [len(PHOTO)]


def test_a_message_that_is_too_large_is_refused_with_the_way_to_upload(shop: Any, room: str) -> None:
    other = {"type": "image_base64", "image_base64": encoded(PNG + b"\1" * (5 * MIB + 400_000))}
    many = tell(shop, INLINE, other, conversation=room)
    assert (many.status, many.error["details"]["reason"]) == (413, "inline_files")
    huge = shop.send("POST", "/api/v1/runs", b"", content_length=str(16 * MIB))  # refused before the body is sent
    assert (huge.status, huge.error["details"]["reason"]) == (413, "message_body")
    data = tell(shop, conversation=room, data={"much": "x" * (2 * MIB)})
    assert (data.status, data.error["details"]["reason"]) == (413, "message_data")
    for refused in (many, huge, data):
        assert "POST /api/v1/artifacts" in refused.error["hint"]
    assert shop.get(f"/api/v1/runs?conversation={room}").json["items"] == []
    broken = shop.post("/api/v1/runs", b'{"agent": ' + b" " * 2 * MIB + b"}")
    assert (broken.status, broken.error["details"]["reason"]) == (400, "not_json")


def test_a_text_that_is_too_long_is_refused_wherever_it_stands(shop: Any, room: str) -> None:
    long = "x" * (256 * 1024 + 1)
    for reason, message in (
        ("text_too_long", {"text": long}),
        ("contents_too_long", {"contents": [{"type": "text", "text": long}]}),
        ("contents_too_long", {"contents": [{"type": "text", "text": long[: len(long) // 2]}] * 2}),
        ("contents_too_long", {"contents": [{"type": "image_url", "image_url": {"url": f"https://a.test/{long}"}}]}),
    ):
        refused = shop.post("/api/v1/runs", {"agent": AGENT, "conversation": room, "input": message})
        assert (refused.status, refused.error["details"]["reason"]) == (400, reason), message.keys()
    assert shop.get(f"/api/v1/runs?conversation={room}").json["items"] == []
