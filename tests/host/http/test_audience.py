"""The audience of an agent: rules about reading, steering and stopping its runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.tables import for_each
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from bollard.host.http.resources import run_rows

PATIENCE_S = 120.0
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def people(shop: Any) -> dict[str, Any]:
    """A client for each of some people."""
    found: dict[str, Any] = {}
    for user_id, role in (("ann", "member"), ("bob", "member"), ("vic", "viewer"), ("olga", "operator")):
        assert shop.put(f"/api/v1/users/{user_id}", {"role": role, "password": PASSWORD}).status == 201
        login = shop.post("/api/v1/session", {"user": user_id, "password": PASSWORD}, token=None)
        found[user_id] = type(shop)(shop.port, login.json["token"])
    return found


@pytest.fixture
def agent(shop: Any) -> Any:
    saved: list[str] = []

    def save(agent_id: str, runner: str = "parrot/default", **policy: Any) -> str:
        saved.append(shop.save_agent(agent_id, runner, **policy)["agent_id"])
        return agent_id

    yield save
    for agent_id in saved:
        shop.delete(f"/api/v1/agents/{agent_id}")


def said(client: Any, agent: str, text: str = "hello", **more: Any) -> dict[str, str]:
    answer = client.tell(agent, text, **more)
    assert answer.status == 202, answer.body
    client.read(answer.json["run_id"])
    return answer.json


def reads(client: Any, run: dict[str, str], room: str | None = None) -> set[int]:
    """The status of everything that shows a run."""
    run_id, event_id = run["run_id"], run["event_id"]
    paths = [f"/api/v1/runs/{run_id}", f"/api/v1/runs/{run_id}/records", f"/api/v1/runs/{run_id}/grant"]
    paths += [f"/api/v1/events/{event_id}", f"/api/v1/runs/{run_id}/stream"]
    if room is not None:
        paths.append(f"/api/v1/conversations/{room}/messages")
    return {client.get(path).status for path in paths}


def lists(client: Any, run: dict[str, str], room: str | None = None) -> set[bool]:
    """Whether each list names it."""
    names = [("/api/v1/runs?limit=100", run["run_id"]), ("/api/v1/events?limit=100", run["event_id"])]
    if room is not None:
        names += [("/api/v1/conversations?limit=100", room), ("/api/v1/conversations/search?q=hello&limit=100", room)]
    return {name in client.get(path).body.decode() for path, name in names}


def test_an_agent_may_show_its_runs_to_the_whole_workspace(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run = said(people["ann"], agent("open", audience={"see": {"who": "everyone"}}), conversation="open-room")
    for who in people.values():
        assert reads(who, run, "open-room") == {200}
        assert lists(who, run, "open-room") == {True}


def test_without_a_rule_a_run_is_not_found_for_other_users(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run = said(people["ann"], agent("private"), conversation="private-room")
    for name in ("ann", "olga"):
        assert reads(people[name], run, "private-room") == {200}
        assert lists(people[name], run, "private-room") == {True}
    for name in ("bob", "vic"):
        assert reads(people[name], run, "private-room") == {404}
        assert lists(people[name], run, "private-room") == {False}
    absent = people["bob"].get("/api/v1/runs/run_absent")
    assert people["bob"].get(f"/api/v1/runs/{run['run_id']}").body == absent.body
    refused = people["bob"].tell("private", "what was said?", conversation="private-room")
    assert (refused.status, refused.error["code"]) == (403, "unauthorized")  # no caller can add themselves
    assert reads(people["bob"], run, "private-room") == {404}
    said(people["bob"], "private", conversation="private-room", thread="another")
    assert reads(people["bob"], run, "private-room") == {404}
    said(people["ann"], "private", conversation="private-room")
    said(shop, "private", conversation="private-room", actor={"type": "user", "id": "bob"})  # now he takes part
    assert reads(people["bob"], run, "private-room") == {200}
    said(people["bob"], "private", conversation="private-room")


def test_a_user_who_may_not_see_the_runs_may_continue_only_their_own_conversation(
    shop: Any, people: dict[str, Any], agent: Any
) -> None:
    name = agent("blind", audience={"see": {"who": "listed", "actors": ["user:vic"]}})
    for _ in range(2):
        said_to = people["bob"].tell(name, "hello", conversation="blind-room")
        assert said_to.status == 202
        shop.read(said_to.json["run_id"])
    assert people["ann"].tell(name, "hello", conversation="blind-room").status == 403


def test_a_user_linked_to_an_actor_of_a_channel_participates_as_that_actor(
    shop: Any, people: dict[str, Any], agent: Any
) -> None:
    name = agent("private-chat", audience={"see": {"who": "participants"}})
    run = said(shop, name, actor={"type": "feishu", "id": "ou_7"})
    assert reads(people["bob"], run) == {404}
    link = shop.post("/api/v1/actors", {"actor": "feishu:ou_7", "user_id": "bob"}).json["link_id"]
    assert reads(people["bob"], run) == {200}
    shop.delete(f"/api/v1/actors/{link}")
    assert reads(people["bob"], run) == {404}


@pytest.mark.parametrize("listed", ["user:bob", "role:member"])
def test_a_list_names_users_and_roles(shop: Any, people: dict[str, Any], agent: Any, listed: str) -> None:
    name = agent("listed", audience={"see": {"who": "listed", "actors": [listed]}})
    run = said(shop, name)
    assert reads(people["bob"], run) == {200}
    assert reads(people["vic"], run) == {404}
    assert reads(people["ann"], run) == ({200} if listed == "role:member" else {404})


def test_a_list_of_actors_covers_linked_users(shop: Any, people: dict[str, Any], agent: Any) -> None:
    name = agent("closed", gate={"talk": "listed", "actors": ["user:ann"]})
    assert people["ann"].tell(name, "hi").status == 202
    assert people["bob"].tell(name, "hi").status == 403
    feishu = {"type": "feishu", "id": "ou_8"}
    assert shop.tell(name, "hi", actor=feishu).status == 403
    link = shop.post("/api/v1/actors", {"actor": "feishu:ou_8", "user_id": "ann"}).json["link_id"]
    assert shop.tell(name, "hi", actor=feishu).status == 202
    shop.delete(f"/api/v1/actors/{link}")
    assert shop.tell(name, "hi", actor={"type": "role", "id": "admin"}).status == 403


def test_only_participants_stop_a_run(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run_id = people["ann"].tell(agent("stoppable", audience={"see": {"who": "everyone"}}), "wait").json["run_id"]
    refused = people["bob"].post(f"/api/v1/runs/{run_id}/cancel")
    assert (refused.status, refused.error["details"]["agent"]) == (403, "stoppable")
    assert "policy.audience.steer" in refused.error["hint"]
    assert people["ann"].post(f"/api/v1/runs/{run_id}/cancel").status == 202
    assert people["ann"].ended(run_id)["status"] == "cancelled"


def test_an_operator_may_stop_every_run(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run_id = people["ann"].tell(agent("stoppable"), "wait").json["run_id"]
    assert people["olga"].post(f"/api/v1/runs/{run_id}/cancel").status == 202
    shop.read(run_id)


def test_a_caller_who_may_not_steer_gets_their_own_run(shop: Any, people: dict[str, Any], agent: Any) -> None:
    policy = {"mode": "steer", "steer_from": "conversation"}
    rule = {"steer": {"who": "listed", "actors": ["user:ann"]}, "see": {"who": "everyone"}}
    name = agent("steered", "workshop/steady", concurrency=policy, audience=rule)
    first = people["ann"].tell(name, "begin", conversation="steered-room")
    stream = people["ann"].stream(first.json["run_id"])
    stream.until("message.delta")
    own = people["ann"].tell(name, "more", conversation="steered-room")
    assert own.json["steering"]["claimed_by_run_id"] == first.json["run_id"]
    other = people["bob"].tell(name, "enough", conversation="steered-room")
    assert other.json["run_id"] != first.json["run_id"]
    assert "steering" not in other.json
    assert people["ann"].post(f"/api/v1/runs/{first.json['run_id']}/cancel").status == 202
    stream.until("run.ended")
    stream.close()
    assert shop.ended(other.json["run_id"])["status"] == "completed"


@for_each(
    ("audience", "field"),
    [
        ({"see": {"who": "everyone", "actors": ["user:ann"]}}, "policy.audience.see.actors"),
        ({"see": {"who": "listed", "actors": ["role:owner"]}}, "policy.audience.see.actors"),
        ({"see": {"who": "some"}}, "policy.audience.see.who"),
        ({"see": {"who": "listed", "actors": ["ann"]}}, "policy.audience.see.actors.0"),
        ({"edit": {"who": "everyone"}}, "policy.audience.edit"),
    ],
)
def test_a_contradictory_audience_rule_is_refused(shop: Any, audience: dict[str, Any], field: str) -> None:
    body = {"runner_id": "plugin:local/parrot/default", "policy": {"audience": audience}}
    answer = shop.put("/api/v1/agents/wrong", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)
    assert shop.get("/api/v1/agents/wrong").status == 404


def test_a_caller_cannot_join_a_conversation_with_an_event(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run = said(people["ann"], agent("sealed", audience={"see": {"who": "participants"}}), conversation="sealed-room")
    made = shop.post("/api/v1/keys", {"name": "k", "rights": ["runs.read", "events.post"]}).json
    key = type(shop)(shop.port, made["token"])
    event = {"source": "k", "type": "message.received", "agent": "sealed", "conversation": "sealed-room"}
    own = {"type": "key", "id": made["key_id"]}
    refused = key.post("/api/v1/events", {**event, "id": "1", "text": "let me in", "actor": own})
    assert (refused.status, refused.error["code"]) == (403, "unauthorized")
    assert key.post("/api/v1/events", {**event, "id": "2", "text": "the build failed"}).status == 202  # no actor
    assert key.get(f"/api/v1/runs/{run['run_id']}").status == 404
    elsewhere = {**event, "conversation": "own-room", "id": "3", "text": "hello", "actor": own}
    assert key.post("/api/v1/events", elsewhere).status == 202


def test_a_caller_cannot_join_a_conversation_by_steering(shop: Any, people: dict[str, Any], agent: Any) -> None:
    run = said(people["ann"], agent("secret", audience={"see": {"who": "participants"}}), conversation="shared-room")
    rule = {"steer": {"who": "everyone"}, "see": {"who": "everyone"}}
    open_agent = agent("steerable", "workshop/steady", audience=rule)
    active = people["ann"].tell(open_agent, "begin", conversation="shared-room").json["run_id"]
    stream = people["ann"].stream(active)
    stream.until("message.delta")
    assert people["bob"].get(f"/api/v1/runs/{active}").status == 200
    refused = people["bob"].post(f"/api/v1/runs/{active}/steer", {"input": {"text": "let me in"}})
    assert (refused.status, refused.error["code"]) == (403, "unauthorized")
    assert reads(people["bob"], run, "shared-room") == {404}
    assert people["bob"].post(f"/api/v1/runs/{active}/cancel").status == 202  # that adds no participant
    stream.until("run.ended")
    stream.close()


def test_the_payload_of_an_event_without_a_run_is_visible_to_its_readers_only(
    shop: Any, people: dict[str, Any]
) -> None:
    event = {"source": "mail", "id": "big", "type": "mail.received", "conversation": "mail-room"}
    sent = shop.post("/api/v1/events", {**event, "data": {"x": "y" * 300_000}, "actor": {"type": "user", "id": "ann"}})
    assert (sent.status, sent.json["run_id"]) == (202, None)
    raw = shop.get(f"/api/v1/events/{sent.json['event_id']}").json["content"]["raw"]
    for path in (f"/api/v1/events/{sent.json['event_id']}", f"/api/v1/artifacts/{raw['artifact_id']}"):
        assert [people[name].get(path).status for name in ("ann", "olga", "bob", "vic")] == [200, 200, 404, 404]
    assert people["bob"].get(f"/api/v1/artifacts/{raw['artifact_id']}/content").status == 404


@pytest.fixture
def hidden_run(shop: Any, people: dict[str, Any], agent: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A run that bob may see until it is hidden from him and continues; and the hiding."""
    monkeypatch.setattr(run_rows, "STREAM_LOOK_S", 0.0)
    name, room = agent("hiding", "workshop/steady", audience={"see": {"who": "everyone"}}), f"hiding-{shop.port}"
    run_id = people["ann"].tell(name, "begin", conversation=room).json["run_id"]

    def hide() -> None:
        agent(name, "workshop/steady", audience={"see": {"who": "participants"}})
        people["ann"].tell(name, "behind the curtain", conversation=room)

    yield run_id, hide
    assert people["ann"].post(f"/api/v1/runs/{run_id}/cancel").status == 202
    shop.ended(run_id)


def test_a_stream_ended_by_a_changed_rule_reports_the_revocation_only(people: dict[str, Any], hidden_run: Any) -> None:
    run_id, hide = hidden_run
    stream = people["bob"].stream(run_id)
    stream.until("message.delta")
    hide()
    before, last = [*stream.seen, *stream][-2:]
    assert (last.type, last.id) == ("gap", None)
    first = int(before.id.partition(".")[2]) + 1
    assert last.data == {"run_id": run_id, "type": "gap", "data": {"first": first, "last": None, "reason": "revoked"}}
    assert "curtain" not in str(stream.seen)
    assert people["bob"].get(f"/api/v1/runs/{run_id}").status == 404


def until_told(word: str, socket: ClientConnection) -> None:
    while word not in str(socket.recv(PATIENCE_S)):
        pass


def test_a_socket_ended_by_a_changed_rule_reports_the_revocation_only(people: dict[str, Any], hidden_run: Any) -> None:
    run_id, hide = hidden_run
    bob = people["bob"]
    address = f"ws://127.0.0.1:{bob.port}/api/v1/runs/{run_id}/socket"
    with connect(address, additional_headers={"authorization": f"Bearer {bob.token}"}) as socket:
        until_told("message.delta", socket)
        hide()
        with pytest.raises(ConnectionClosed) as closed:
            until_told("curtain", socket)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "revoked")
