"""A run as a WebSocket: its records as frames, and the frames of the client."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.tables import for_each
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 120.0


@contextmanager
def opened(api: Any, path: str, *, token: str | None = "", **headers: str) -> Iterator[ClientConnection]:
    given = api.token if token == "" else token
    sent = dict(headers) if given is None else {"authorization": f"Bearer {given}", **headers}
    with connect(
        f"ws://127.0.0.1:{api.port}{path}", additional_headers=sent, open_timeout=PATIENCE_S, close_timeout=PATIENCE_S
    ) as socket:
        yield socket


@pytest.fixture(scope="module")
def api(shop: Any) -> Any:
    """The host with both plugins."""
    return shop


def path_of(run_id: str, query: str = "") -> str:
    return f"/api/v1/runs/{run_id}/socket{query}"


def frames(socket: ClientConnection) -> list[Any]:
    """Until the host closes."""
    found: list[Any] = []
    try:
        while True:
            found.append(json.loads(socket.recv(PATIENCE_S)))
    except ConnectionClosed:
        return found


def until(socket: ClientConnection, event: str) -> Any:
    while (frame := json.loads(socket.recv(PATIENCE_S)))["event"] != event:
        pass
    return frame


def say(socket: ClientConnection, **frame: Any) -> None:
    socket.send(json.dumps(frame))


def refusal(api: Any, path: str, **more: Any) -> Any:
    """The response instead of a socket."""
    with pytest.raises(InvalidStatus) as refused, opened(api, path, **more):
        pass
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"{}")["error"]


def without_time(frame: Any) -> Any:
    """Deltas that were stored as one row share one time."""
    return {**frame, "data": {**frame["data"], "created_at": 0}}


def test_the_frames_are_the_records_of_the_stream(api: Any) -> None:
    run_id = api.say("one two three")
    stream = api.read(run_id)
    with opened(api, path_of(run_id)) as socket:
        got = frames(socket)
        assert socket.close_code == 1000
    assert [(each["id"], each["event"]) for each in got] == [(each.id, each.type) for each in stream]
    assert [without_time(each)["data"] for each in got] == [{**each.data, "created_at": 0} for each in stream]


def test_a_reader_resumes_at_its_position(api: Any) -> None:
    run_id = api.say("one two three")
    stream = api.read(run_id)
    with opened(api, path_of(run_id, f"?after={stream[3].id}")) as socket:
        assert [each["id"] for each in frames(socket)] == [each.id for each in stream[4:]]


def test_a_run_is_followed_and_cancelled_from_its_socket(api: Any) -> None:
    run_id = api.say("wait")
    with opened(api, path_of(run_id)) as socket:
        until(socket, "message.delta")
        say(socket, type="ping", ref="1")
        assert until(socket, "pong") == {"event": "pong", "data": {}, "ref": "1"}
        say(socket, type="cancel", ref="2")
        rest = frames(socket)
    assert {"event": "done", "data": {"run_id": run_id, "cancelling": True}, "ref": "2"} in rest
    assert [each["data"]["data"]["status"] for each in rest if each["event"] == "run.ended"] == ["cancelled"]


def test_a_run_is_steered_from_its_socket(shop: Any) -> None:
    run_id = shop.tell("workshop.steady", "go", conversation="by socket", actor={"id": "ada"}).json["run_id"]
    with opened(shop, path_of(run_id)) as socket:
        until(socket, "message.delta")
        say(socket, type="steer", input={"text": "enough"}, id="enough-1")
        done = until(socket, "done")
        assert done["data"]["steering"] == {"status": "queued", "claimed_by_run_id": run_id}
        rest = frames(socket)
    assert rest[-1]["event"] == "run.ended"
    told = "".join(each["data"]["data"]["chunk"]["content"] for each in rest if each["event"] == "message.delta")
    assert "told: enough" in told


@for_each(
    ("sent", "field"),
    [
        ("no json", "frame"),
        ("[]", "frame"),
        ("{}", "type"),
        ('{"type": "dance"}', "type"),
        ('{"type": "ping", "extra": 1}', "extra"),
        ('{"type": "steer"}', "input"),
        ('{"type": "steer", "input": {"text": 3}}', "input.text"),
        (b"\x00\x01", "frame"),
    ],
)
def test_an_invalid_frame_is_refused_and_the_socket_stays_open(api: Any, sent: str | bytes, field: str) -> None:
    run_id = api.say("wait")
    with opened(api, path_of(run_id)) as socket:
        socket.send(sent)
        error = until(socket, "refused")["data"]
        assert (error["code"], error["details"]["field"]) == ("invalid_argument", field)
        assert error["hint"]
        say(socket, type="ping")
        assert until(socket, "pong")
        say(socket, type="cancel")
        assert frames(socket)[-1]["event"] in ("run.ended", "done")


def test_an_impossible_steering_frame_is_refused_with_its_code(api: Any) -> None:
    run_id = api.say("wait")
    with opened(api, path_of(run_id)) as socket:
        until(socket, "message.delta")
        say(socket, type="steer", input={"text": "x"})
        assert until(socket, "refused")["data"]["code"] == "conflict"
        say(socket, type="cancel")
        frames(socket)


def test_a_refusal_names_the_current_status_of_the_run(api: Any) -> None:
    room = f"stands-{api.port}"
    first = api.say("wait", conversation=room)
    second = api.say("wait", conversation=room)
    with opened(api, path_of(second)) as socket:
        say(socket, type="steer", input={"text": "x"})
        assert until(socket, "refused")["data"]["details"]["status"] == "queued"
        api.post(f"/api/v1/runs/{first}/cancel")
        api.until(f"/api/v1/runs/{second}", lambda run: run["status"] == "running")
        say(socket, type="steer", input={"text": "x"})
        assert until(socket, "refused")["data"]["details"]["status"] == "running"
        say(socket, type="cancel")
        frames(socket)


def test_a_reader_that_disconnects_is_removed(api: Any) -> None:
    run_id = api.say("wait")
    with opened(api, path_of(run_id)) as socket:
        until(socket, "message.delta")
        assert api.until_health(lambda health: health["readers"] >= 1)
    api.until_health(lambda health: health["readers"] == 0)
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    api.ended(run_id)


def test_a_caller_without_access_to_the_run_gets_no_socket(api: Any) -> None:
    run_id = api.say("x")
    for token in (None, "wrong"):
        status, error = refusal(api, path_of(run_id), token=token)
        assert (status, error["code"]) == (401, "unauthenticated")
    for path in (path_of("run_absent"), path_of("x" * 300)):
        status, error = refusal(api, path)
        assert (status, error["code"]) == (404, "not_found")
    status, error = refusal(api, "/api/v1/runs")
    assert (status, error["code"]) == (404, "not_found")
    status, error = refusal(api, path_of(run_id, "?after=x"))
    assert (status, error["code"]) == (400, "invalid_argument")
    status, error = refusal(api, path_of(run_id, f"?token={api.token}"), token=None)
    assert (status, error["code"]) == (400, "invalid_argument")


def test_a_ticket_opens_the_socket_once(api: Any) -> None:
    run_id = api.say("hello")
    ticket = api.post("/api/v1/tickets", {"path": path_of(run_id)}).json["ticket"]
    with opened(api, path_of(run_id, f"?ticket={ticket}"), token=None) as socket:
        assert frames(socket)[-1]["event"] == "run.ended"
    status, error = refusal(api, path_of(run_id, f"?ticket={ticket}"), token=None)
    assert (status, error["code"]) == (401, "unauthenticated")


def test_a_plain_request_gets_upgrade_required(api: Any) -> None:
    answer = api.get(path_of("run_x"))
    assert (answer.status, answer.error["code"]) == (426, "upgrade_required")
