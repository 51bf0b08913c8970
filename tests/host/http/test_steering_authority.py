"""Steering, stopping and following runs through sockets and over MCP without the right: refused by name, no message
reaches the run, and a foreign run looks like an unknown one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 120.0
RIGHTS = ["runs.read", "runs.create", "runs.control"]


@dataclass
class Active:
    """A run that takes messages, in a conversation of Ada's."""

    api: Any
    run_id: str
    room: str

    def given(self) -> list[str]:
        """The log records about its messages."""
        page = self.api.get(f"/api/v1/runs/{self.run_id}/records?limit=100").json["items"]
        return [each["type"] for each in page if each["type"].startswith(("steering.", "run.cancel"))]

    def events(self) -> int:
        """Events of its conversation."""
        page = self.api.get("/api/v1/events?limit=100").json["items"]
        return sum(each["conversation_id"] == self.room for each in page if "conversation_id" in each)


@pytest.fixture(scope="module")
def guarded(shop: Any) -> Any:
    shop.save_agent("guarded", "workshop/steady", audience={"see": {"who": "participants"}})
    shop.save_agent("shown", "workshop/steady", audience={"see": {"who": "everyone"}})
    return shop


@pytest.fixture
def active(guarded: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    begun: list[str] = []

    def begin(agent: str) -> Active:
        room = f"{request.node.name}-{agent}"
        made = guarded.tell(agent, "go", conversation=room, actor={"id": "ada"}).json
        begun.append(made["run_id"])
        stream = guarded.stream(made["run_id"])
        stream.until("message.delta")
        stream.close()
        return Active(guarded, made["run_id"], room)

    yield begin
    for run_id in begun:
        guarded.post(f"/api/v1/runs/{run_id}/cancel")
        guarded.read(run_id)


def make_elsewhere(guarded: Any) -> None:
    """Another workspace of the host that the tests share."""
    if guarded.get("/api/v1/workspaces/elsewhere").status == 404:
        assert guarded.put("/api/v1/workspaces/elsewhere", {}).status == 201


def key_of(api: Any, rights: list[str] = RIGHTS, **headers: str) -> Any:
    made = api.post("/api/v1/keys", {"name": "k", "rights": rights}, **headers)
    assert made.status == 201, made.body
    return type(api)(api.port, made.json["token"])


@contextmanager
def socket_of(client: Any, run_id: str) -> Iterator[ClientConnection]:
    with connect(
        f"ws://127.0.0.1:{client.port}/api/v1/runs/{run_id}/socket",
        additional_headers={"authorization": f"Bearer {client.token}"},
        open_timeout=PATIENCE_S,
        close_timeout=PATIENCE_S,
    ) as socket:
        yield socket


def denied(client: Any, run_id: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """All that is answered instead of a socket, but for the time."""
    with pytest.raises(InvalidStatus) as refused, socket_of(client, run_id):
        pass
    response = refused.value.response
    headers = sorted((name.lower(), value) for name, value in response.headers.raw_items() if name.lower() != "date")
    return response.status_code, headers, bytes(response.body or b"")


def asked(socket: ClientConnection, **frame: Any) -> Any:
    socket.send(json.dumps(frame))
    while (told := json.loads(socket.recv(PATIENCE_S)))["event"] not in ("refused", "done"):
        pass
    return told


def called(client: Any, tool: str, **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments}
    answer = client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return answer.json


def test_a_socket_to_a_foreign_run_gets_the_bytes_of_an_unknown_run(guarded: Any, active: Any) -> None:
    run = active("guarded")
    make_elsewhere(guarded)
    for stranger in (key_of(guarded, bollard_workspace="elsewhere"), key_of(guarded)):
        absent = denied(stranger, "run_" + "0" * len(run.run_id.removeprefix("run_")))
        assert absent[0] == 404
        assert denied(stranger, run.run_id) == absent
        for what, body in (("steer", {"input": {"text": "enough"}}), ("cancel", {}), ("revoke", {"everything": True})):
            one, other = (stranger.post(f"/api/v1/runs/{each}/{what}", body) for each in (run.run_id, "run_absent"))
            assert (one.status, one.body) == (other.status, other.body)
    assert run.given() == []


@pytest.mark.parametrize(("rights", "right"), [(["runs.read"], "runs.control"), (RIGHTS, None)])
def test_a_read_only_caller_can_neither_steer_nor_cancel(
    guarded: Any, active: Any, rights: list[str], right: str | None
) -> None:
    """Without the right, and with the right but without part in the conversation."""
    run = active("shown")
    before = run.events()
    with socket_of(key_of(guarded, rights), run.run_id) as socket:
        for frame in ({"type": "steer", "input": {"text": "enough"}}, {"type": "cancel"}):
            told = asked(socket, ref="1", **frame)
            assert (told["event"], told["ref"], told["data"]["code"]) == ("refused", "1", "unauthorized")
            assert told["data"]["details"].get("right") == right
    assert run.given() == []
    assert run.events() == before
    assert guarded.get(f"/api/v1/runs/{run.run_id}").json["status"] == "running"


def test_a_caller_who_may_steer_cannot_act_as_the_actor_of_the_run(guarded: Any, active: Any) -> None:
    guarded.save_agent("open", "workshop/steady", audience={"steer": {"who": "everyone"}, "see": {"who": "everyone"}})
    run = active("open")
    with socket_of(key_of(guarded), run.run_id) as socket:
        forged = asked(socket, type="steer", input={"text": "enough"}, actor={"type": "user", "id": "ada"})
        assert (forged["event"], forged["data"]["code"]) == ("refused", "unauthorized")
        own = asked(socket, type="steer", input={"text": "enough"})
    assert own["event"] == "done"
    assert "steering" not in own["data"]
    assert own["data"]["run_id"] != run.run_id
    assert run.given() == []
    guarded.post(f"/api/v1/runs/{run.run_id}/cancel")
    assert guarded.ended(own["data"]["run_id"])["status"] == "completed"


def test_an_mcp_client_cannot_enter_a_foreign_conversation(guarded: Any, active: Any) -> None:
    run = active("guarded")
    key = key_of(guarded, ["runs.create"])
    refused = called(key, "guarded", text="enough", conversation=run.room)["result"]
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith("capability_denied: ")
    assert run.given() == []
    assert run.events() == 1
    make_elsewhere(guarded)
    elsewhere = key_of(guarded, ["runs.create"], bollard_workspace="elsewhere")
    foreign, absent = (called(elsewhere, name, text="x")["error"] for name in ("guarded", "absentx"))
    assert foreign == {**absent, "message": absent["message"].replace("absentx", "guarded")}


def test_an_ended_run_accepts_no_further_actions(guarded: Any, active: Any) -> None:
    run = active("shown")
    guarded.post(f"/api/v1/runs/{run.run_id}/cancel")
    guarded.read(run.run_id)
    before, given = run.events(), run.given()
    for what, body in (("steer", {"input": {"text": "late"}}), ("cancel", None), ("revoke", {"everything": True})):
        answer = guarded.post(f"/api/v1/runs/{run.run_id}/{what}", body)
        assert (answer.status, answer.error["code"]) == (409, "conflict"), what
    assert (run.events(), run.given()) == (before, given)
