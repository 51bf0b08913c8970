"""Streams and sockets end soon after their caller lost access."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PATIENCE_S = 120.0
PASSWORD = "correct horse battery"
RIGHTS = ["runs.read", "runs.create", "runs.control", "plugins.read", "audit.read"]


class Key:
    """A key, and a client that has it."""

    def __init__(self, api: Any) -> None:
        made = api.post("/api/v1/keys", {"name": "k", "rights": RIGHTS}).json
        self._api = api
        self.id = made["key_id"]
        self.client = type(api)(api.port, made["token"])

    def delete(self) -> None:
        assert self._api.delete(f"/api/v1/keys/{self.id}").status == 200


@pytest.fixture
def key(api: Any) -> Key:
    return Key(api)


@pytest.fixture
def run_id(api: Any) -> Iterator[str]:
    """A run that waits until it is stopped."""
    found = api.tell("parrot", "wait").json["run_id"]
    yield found
    api.post(f"/api/v1/runs/{found}/cancel")
    api.ended(found)


def revoked_at(stream: Any) -> int:
    """The first record that a reader did not get: the last data of its stream."""
    events = list(stream)
    assert (events[-1].type, events[-1].id) == ("gap", None)
    assert events[-1].data["data"]["reason"] == "revoked"
    assert events[-1].data["data"]["last"] is None
    return events[-1].data["data"]["first"]


def test_a_stream_ends_with_its_key_and_names_the_reason(key: Key, run_id: str) -> None:
    stream = key.client.stream(run_id)
    last = stream.until("message.delta")
    key.delete()
    assert revoked_at(stream) == int(last.id.partition(".")[2]) + 1
    assert key.client.get(f"/api/v1/runs/{run_id}").status == 401


def test_a_resumed_stream_without_records_names_the_position_of_its_reader(key: Key, run_id: str) -> None:
    first = key.client.stream(run_id)
    last = first.until("message.delta").id
    first.close()
    stream = key.client.stream(run_id, last)
    key.delete()
    assert revoked_at(stream) == int(last.partition(".")[2]) + 1


def test_the_stream_of_a_new_run_ends_with_its_key(api: Any, key: Key) -> None:
    stream = key.client.create_and_stream({"agent": "parrot", "input": {"text": "wait"}})
    run_id = stream.until("message.delta").data["run_id"]
    key.delete()
    revoked_at(stream)
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    assert api.ended(run_id)["status"] == "cancelled"  # the run itself went on


def test_the_stream_of_a_log_ends_with_its_key(api: Any, key: Key) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    sent = {"authorization": f"Bearer {key.client.token}"}
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/plugins/local/parrot/logs/stream", headers=sent)
        response = connection.getresponse()
        assert response.status == 200
        key.delete()
        response.read()  # until the host ends it


def test_a_stream_ends_when_its_user_gets_another_role(api: Any, run_id: str) -> None:
    assert api.put("/api/v1/users/rita", {"role": "operator", "password": PASSWORD}).status == 201
    token = api.post("/api/v1/session", {"user": "rita", "password": PASSWORD}, token=None).json["token"]
    stream = type(api)(api.port, token).stream(run_id)
    stream.until("message.delta")
    assert api.put("/api/v1/users/rita", {"role": "viewer"}).status == 200
    revoked_at(stream)
    assert api.delete("/api/v1/users/rita").status == 200


def test_a_socket_ends_with_its_key_and_names_the_reason(key: Key, run_id: str) -> None:
    sent = {"authorization": f"Bearer {key.client.token}"}
    with connect(f"ws://127.0.0.1:{key.client.port}/api/v1/runs/{run_id}/socket", additional_headers=sent) as socket:
        while json.loads(socket.recv(PATIENCE_S))["event"] != "message.delta":
            pass
        key.delete()
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE_S)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "revoked")


def test_a_socket_with_a_revoked_key_accepts_no_frames(api: Any, key: Key, run_id: str) -> None:
    sent = {"authorization": f"Bearer {key.client.token}"}
    with connect(f"ws://127.0.0.1:{key.client.port}/api/v1/runs/{run_id}/socket", additional_headers=sent) as socket:
        while json.loads(socket.recv(PATIENCE_S))["event"] != "message.delta":
            pass
        key.delete()
        try:
            socket.send(json.dumps({"type": "cancel", "ref": "1"}))
            frame = json.loads(socket.recv(PATIENCE_S))
            assert (frame["event"], frame["data"]["code"]) == ("refused", "unauthenticated")
        except ConnectionClosed:
            pass  # it was quicker
    assert api.get(f"/api/v1/runs/{run_id}").json.get("cancel_requested_at") is None


def test_a_ticket_ends_with_its_key(key: Key, run_id: str) -> None:
    path = f"/api/v1/runs/{run_id}/stream"
    ticket = key.client.post("/api/v1/tickets", {"path": path}).json["ticket"]
    key.delete()
    refused = key.client.get(f"{path}?ticket={ticket}", token=None)
    assert (refused.status, refused.error["code"]) == (401, "unauthenticated")
