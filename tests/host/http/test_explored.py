"""Regressions that exploration of the API found."""

from typing import Any

import pytest

STRUCTURED = "application/cloudevents+json"
EVENT = {"specversion": "1.0", "source": "explored", "type": "build.failed", "agent": "parrot"}


def test_an_empty_workspace_header_is_not_found(api: Any) -> None:
    """Not the first one: a client with an empty header must not reach another workspace."""
    answer = api.get("/api/v1/agents", bollard_workspace="")
    absent = api.get("/api/v1/agents", bollard_workspace="absent")
    assert (answer.status, answer.body) == (absent.status, absent.body)
    assert answer.status == 404


@pytest.mark.parametrize("time", [1e17, 253_402_300_800, -1])
def test_a_time_out_of_range_is_refused_by_name(api: Any, time: float) -> None:
    body = {"source": "explored", "id": f"time-{time}", "type": "build.failed", "agent": "parrot", "time": time}
    answer = api.post("/api/v1/events", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, "time")
    taken = api.post("/api/v1/events", {**body, "time": 253_402_300_799})
    assert taken.status == 202  # nothing of the first one was kept


def test_a_cloud_event_from_before_the_epoch_is_refused_by_name(api: Any) -> None:
    """No runner could get it: in the protocol times start with the epoch."""
    body = {**EVENT, "id": "old", "time": "1960-01-01T00:00:00Z"}
    answer = api.send("POST", "/api/v1/events", body, content_type=STRUCTURED)
    assert (answer.status, answer.error["details"]["field"]) == (400, "time")


def test_a_null_attribute_of_a_cloud_event_is_unset(api: Any) -> None:
    body = {**EVENT, "id": "nulls", "subject": None, "time": None, "conversation": None, "extension": None}
    answer = api.send("POST", "/api/v1/events", body, content_type=STRUCTURED)
    assert answer.status == 202, answer.body
    event = api.get(f"/api/v1/events/{answer.json['event_id']}").json
    assert (event["subject_id"], event["event_time"], event["conversation_id"]) == (None, None, None)
    needed = api.send("POST", "/api/v1/events", {**body, "id": None}, content_type=STRUCTURED)
    assert (needed.status, needed.error["details"]["field"]) == (400, "id")


def test_the_handshake_of_webhooks_names_every_method(api: Any) -> None:
    asked = api.send("OPTIONS", "/api/v1/events")
    refused = api.send("PATCH", "/api/v1/events")
    assert (asked.status, refused.status) == (204, 405)
    assert asked.headers["allow"] == refused.headers["allow"] == "GET, HEAD, OPTIONS, POST"


def test_a_request_without_a_token_learns_the_scheme(api: Any) -> None:
    assert api.get("/api/v1/runs", token=None).headers["www-authenticate"] == "Bearer"


def test_a_plain_request_to_a_socket_learns_the_upgrade(api: Any) -> None:
    answer = api.get(f"/api/v1/runs/{api.say('hello')}/socket")
    assert (answer.status, answer.headers["upgrade"]) == (426, "websocket")
