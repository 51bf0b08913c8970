"""The stream of changes: runs as they come and end, resumed without a hole, for readers who may see them."""

from typing import Any

PASSWORD = "correct horse battery"


def changes(api: Any, query: str = "", last: str | None = None) -> Any:
    return api.events(query, last, path="/api/v1/changes/stream")


def test_a_run_comes_and_ends_and_a_resumed_stream_has_no_hole(api: Any) -> None:
    stream = changes(api)
    run_id = api.say("hello there", conversation="desk")
    created = stream.until("run.created")
    assert (created.data["run_id"], created.data["agent_id"]) == (run_id, "parrot")
    assert (created.data["data"]["status"], created.data["conversation_id"]) == ("queued", "desk")
    ended = stream.until("run.ended")
    assert (ended.data["data"]["status"], ended.data["run_id"]) == ("completed", run_id)
    assert "answer" not in ended.data["data"]
    assert [each.type for each in stream.seen] == ["run.created", "run.started", "run.ended"]
    stream.close()
    again = changes(api, last=created.id)
    assert again.until("run.ended") == ended
    again.close()


def test_a_stream_has_only_the_selected_changes(api: Any) -> None:
    stream = changes(api, "?types=run.ended&agent=parrot")
    run_id = api.say("hello")
    assert stream.until("run.ended").data["run_id"] == run_id
    assert [each.type for each in stream.seen] == ["run.ended"]
    stream.close()


def test_a_failed_run_names_its_reason(api: Any) -> None:
    stream = changes(api, "?types=run.ended")
    api.say("die")
    ended = stream.until("run.ended").data["data"]
    assert (ended["status"], bool(ended["reason"])) == ("failed", True)
    stream.close()


def test_a_reader_gets_the_changes_of_runs_that_it_may_see(api: Any, client_of: Any) -> None:
    api.save_agent("private", audience={"see": {"who": "participants"}})
    clients: list[Any] = []
    for name in ("ann", "bob"):
        assert api.put(f"/api/v1/users/{name}", {"role": "member", "password": PASSWORD}).status == 201
        login = api.post("/api/v1/session", {"user": name, "password": PASSWORD}, token=None)
        clients.append(client_of(api.port, login.json["token"]))
    ann, bob = clients
    watching = changes(bob)
    ann.read(ann.tell("private", "mine").json["run_id"])
    his = bob.tell("private", "his").json["run_id"]
    assert watching.until("run.ended").data["run_id"] == his
    assert {event.data["run_id"] for event in watching.seen} == {his}
    watching.close()


def test_a_reader_without_the_right_is_refused(api: Any, client_of: Any) -> None:
    made = api.post("/api/v1/keys", {"name": "dash", "rights": ["events.read"]}).json
    assert client_of(api.port, made["token"]).get("/api/v1/changes/stream").status == 403
