"""Channels over HTTP: saved by people, opened by a signature, and answered through the same channel."""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.host.http.chat_program import Program, bind, post, save
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.clock import SystemClock
from bollard.host.store.selection import choose_store


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def test_a_channel_is_saved_shown_changed_and_deleted(api: Any) -> None:
    made = api.put("/api/v1/channels/desk", {"url": "http://127.0.0.1:9/x", "abilities": {"dedupe": "native"}})
    assert (made.status, made.headers["etag"], made.json["revision"]) == (201, '"1"', 1)
    assert made.json["secret"].startswith("whsec_")
    shown = api.get("/api/v1/channels/desk").json
    assert shown == {**made.json, "secret": "__kept__"}
    assert "desk" in {item["channel_id"] for item in api.get("/api/v1/channels").json["items"]}
    again = api.put("/api/v1/channels/desk", {**shown, "enabled": False}, if_match='"1"')
    assert (again.status, again.json["enabled"], again.json["secret"]) == (200, False, "__kept__")
    late = api.put("/api/v1/channels/desk", shown)
    assert (late.status, late.error["code"]) == (409, "conflict")
    assert api.put("/api/v1/channels/desk", {}, if_match='"1"').status == 412
    assert api.delete("/api/v1/channels/desk").json == {"channel_id": "desk", "deleted": True}
    assert api.get("/api/v1/channels/desk").status == 404


def test_an_invalid_channel_is_refused_by_its_field(api: Any) -> None:
    answer = api.put("/api/v1/channels/bad", {"url": "http://example.org/"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "channel.url")
    assert api.get("/api/v1/channels/bad").status == 404


@for_each("host", ["10.0.0.1", "169.254.169.254", "[::ffff:a00:1]", "0x7f000001", "[fd00::1]"])
def test_a_channel_to_an_internal_address_is_refused_when_saved(api: Any, host: str) -> None:
    answer = api.put("/api/v1/channels/inside", {"url": f"https://{host}/hook"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "channel.url")
    assert answer.error["hint"]


@for_each(
    "binding",
    [
        {"filters": [{"field": "trigger", "values": ["platform"]}]},
        {"filters": [{"field": "surface", "values": ["http"]}]},
        {"filters": [{"field": "actor_type", "values": ["foyer"]}]},
        {"scope": {"channel": "foyer", "actor": "foyer:ann"}},
        {"scope": {"channel": "foyer", "bot": "porter"}},
    ],
)
def test_resolve_matches_the_dispatch_of_a_channel_event(api: Any, binding: Any) -> None:
    secret = save(api, "foyer", bot="porter")["secret"]
    answer = api.put("/api/v1/bindings/foyer", {"agent_id": "parrot", "scope": {"channel": "foyer"}, **binding})
    assert answer.status == 201, answer.body
    body = {"text": "hello", "conversation": "c-1", "actor": {"id": "ann"}}
    taken = post(api, "foyer", secret, body, number=secrets.token_hex(8)).json
    assert taken["first"]
    assert api.get(f"/api/v1/runs/{taken['run_id']}").json["binding_id"] == "foyer"
    found = api.post("/api/v1/bindings/resolve", {"source": "foyer", **body}).json
    assert (found["binding"], found["agent"]) == ("foyer", "parrot")
    for path in ("bindings/foyer", "channels/foyer"):
        assert api.delete(f"/api/v1/{path}").status == 200


def test_a_message_of_a_channel_is_answered_through_it(api: Any, program: Program) -> None:
    secret = save(api, "room", url=program.url, abilities={"dedupe": "native"})["secret"]
    bind(api, "room")
    body = {"text": "hello there", "conversation": "c-1", "actor": {"id": "ann"}}
    answer = post(api, "room", secret, body)
    assert answer.status == 202, answer.body
    (sent,) = program.until(1)
    assert (sent["text"], sent["target"], sent["type"]) == ("hello there ", "c-1", "message.sent")
    assert sent["event_id"] == answer.json["event_id"]
    delivery = api.until("/api/v1/deliveries?channel=room", lambda page: page["items"][0]["status"] == "sent")["items"]
    assert (delivery[0]["messages"], delivery[0]["run_id"]) == (["m1"], answer.json["run_id"])
    again = post(api, "room", secret, body)
    assert again.json == {**answer.json, "first": False}
    kept = api.get(f"/api/v1/events/{answer.json['event_id']}").json
    assert (kept["source"], kept["id"], kept["actor_type"], kept["actor_id"]) == ("room", "msg-1", "room", "ann")


def test_an_event_of_a_channel_may_have_another_type_than_a_message(api: Any, program: Program) -> None:
    secret = save(api, "bell", url=program.url)["secret"]
    bind(api, "bell")
    event = {"specversion": "1.0", "id": "e-1", "source": "whatever", "type": "group.member_joined", "subject": "ann"}
    raw = json.dumps(event).encode()
    headers = sign(secret_bytes(secret), "hook-1", int(time.time()), raw)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    sent = {"token": None, "content_type": "application/cloudevents+json", **named}
    answer = api.post("/api/v1/channels/bell/events", raw, **sent)
    assert answer.status == 202, answer.body
    kept = api.get(f"/api/v1/events/{answer.json['event_id']}").json
    assert (kept["source"], kept["type"], kept["subject_id"]) == ("bell", "group.member_joined", "ann")
    assert api.ended(answer.json["run_id"])["status"] == "completed"


def test_a_request_without_the_signature_of_the_channel_is_refused(api: Any) -> None:
    secret = save(api, "gate")["secret"]
    other = save(api, "other")["secret"]
    body = {"text": "hi"}
    for answer in (
        api.post("/api/v1/channels/gate/events", body, token=None),
        api.post("/api/v1/channels/gate/events", body),
        post(api, "gate", other, body),
        post(api, "nowhere", secret, body),
        post(api, "gate", secret, body, at=int(time.time()) - 3600),
    ):
        assert (answer.status, answer.error["code"]) == (401, "unauthenticated")
        assert answer.error["hint"]
    forged, absent = post(api, "gate", other, body), post(api, "nowhere", other, body)
    assert forged.body == absent.body
    shown = api.get("/api/v1/channels/gate").json
    save(api, "gate", **{**shown, "enabled": False})
    assert post(api, "gate", secret, body).status == 401


def test_headers_outside_the_signature_do_not_change_an_event(api: Any) -> None:
    """A recorded signed request must not make other events by added headers."""
    secret = save(api, "sealed")["secret"]
    raw = json.dumps({"text": "hi"}).encode()
    headers = sign(secret_bytes(secret), "msg-1", int(time.time()), raw)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    added = {
        "ce_specversion": "1.0",
        "ce_id": "2",
        "ce_source": "x",
        "ce_type": "message.received",
        "ce_actorid": "boss",
    }
    for kind in ("application/json", "text/plain"):
        answer = api.post("/api/v1/channels/sealed/events", raw, token=None, content_type=kind, **named, **added)
        assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")
        assert "application/cloudevents+json" in answer.error["hint"]
    assert post(api, "sealed", secret, {"text": "hi"}).json["first"]


def test_a_channel_cannot_choose_an_agent_and_no_caller_can_use_its_source(api: Any) -> None:
    secret = save(api, "own")["secret"]
    answer = post(api, "own", secret, {"text": "hi", "agent": "parrot"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "agent")
    spoof = api.post("/api/v1/events", {"source": "own", "id": "1", "type": "message.received", "text": "hi"})
    assert (spoof.status, spoof.error["code"]) == (403, "unauthorized")


def test_an_event_of_a_channel_without_a_binding_has_a_reason(api: Any) -> None:
    secret = save(api, "alone")["secret"]
    answer = post(api, "alone", secret, {"text": "is anybody there"})
    assert (answer.status, answer.json["reason"]["code"]) == (202, "no_binding")


def test_a_program_that_refuses_a_message_shows_in_the_deliveries(api: Any, program: Program) -> None:
    secret = save(api, "rude", url=program.url, abilities={"dedupe": "native"})["secret"]
    bind(api, "rude")
    program.statuses = [503, 404]
    assert post(api, "rude", secret, {"text": "hello", "conversation": "c"}).status == 202
    tried = program.until(2)
    assert tried[0]["key"] == tried[1]["key"]
    page = api.until("/api/v1/deliveries?channel=rude", lambda page: page["items"][0]["status"] == "failed")
    assert "404" in page["items"][0]["reason"]
    assert page["items"][0]["attempts"] == 1

    def degraded() -> list[str]:
        problems = api.get("/api/v1/overview").json["problems"]
        return [each["id"] for each in problems if each["reason"] == "channel_degraded"]

    assert "rude" in degraded()
    assert api.delete("/api/v1/channels/rude").status == 200
    assert "rude" not in degraded(), "nobody can mend a channel that is gone"
    save(api, "rude", url=program.url)
    assert "rude" not in degraded()


def test_the_secret_of_a_channel_is_not_in_the_log(api: Any, settings: Any) -> None:
    secret = save(api, "quiet")["secret"]
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    try:
        records = store.records(0, 10_000)
        assert any(b'"quiet"' in (record.data or b"") for record in records)
        assert not any(secret.encode() in (record.data or b"") for record in records)
    finally:
        store.close()


def test_a_channel_survives_a_restart(
    settings: Any, start_host: Any, client_of: Any, tmp_path: Any, program: Any
) -> None:
    own = replace(settings, data=tmp_path / "data", database="")
    first = start_host(own)
    client = client_of(first.port, first.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    secret = save(client, "kept", url=program.url)["secret"]
    bind(client, "kept")
    first.stop()
    second = start_host(own)
    again = client_of(second.port, first.token)
    again.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    assert post(again, "kept", secret, {"text": "still here", "conversation": "c"}).status == 202
    assert program.until(1)[0]["text"] == "still here "


def test_channels_of_one_name_in_two_workspaces_are_distinguished_by_their_signature(api: Any) -> None:
    there = {"bollard_workspace": "annex"}
    assert api.put("/api/v1/workspaces/annex", {}).status == 201
    ours = save(api, "shared")["secret"]
    answer = api.put("/api/v1/channels/shared", {}, **there)
    assert answer.status == 201, answer.body
    theirs = answer.json["secret"]
    first = post(api, "shared", ours, {"text": "here"}, number="one").json["event_id"]
    second = post(api, "shared", theirs, {"text": "there"}, number="one").json["event_id"]
    assert first != second
    assert api.get(f"/api/v1/events/{first}").status == 200
    assert api.get(f"/api/v1/events/{second}").status == 404
    assert api.get(f"/api/v1/events/{second}", **there).status == 200
    assert api.get("/api/v1/deliveries", **there).json["items"] == []
    assert api.delete("/api/v1/workspaces/annex").status == 200
    assert post(api, "shared", theirs, {"text": "closed"}, number="two").status == 401
    assert post(api, "shared", ours, {"text": "open"}, number="two").status == 202


def test_deliveries_of_a_run_are_listed_for_its_readers_only(api: Any, program: Program) -> None:
    api.save_agent("secretive", audience={"see": {"who": "participants"}})
    secret = save(api, "closet", url=program.url, abilities={"dedupe": "native"})["secret"]
    bind(api, "closet", "secretive")
    answer = post(api, "closet", secret, {"text": "psst", "conversation": "c-1", "actor": {"id": "ann"}})
    assert answer.status == 202, answer.body
    program.until(1)
    key = api.post("/api/v1/keys", {"name": "k", "rights": ["channels.read"]}).json["token"]
    path = "/api/v1/deliveries?channel=closet"
    assert [each["run_id"] for each in api.get(path).json["items"]] == [answer.json["run_id"]]
    assert api.get(path, token=key).json["items"] == []
    api.ended(answer.json["run_id"])
    assert api.delete("/api/v1/bindings/closet").status == 200
    assert api.delete("/api/v1/agents/secretive").status == 200
