"""The stream of a workspace's events: resumed without a hole, filtered, and limited to what its reader may see."""

from pathlib import Path
from typing import Any

import pytest

from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store

PASSWORD = "correct horse battery"


def post(api: Any, number: str, **more: Any) -> Any:
    answer = api.post("/api/v1/events", {"source": "forge", "id": number, "type": "build.failed", **more})
    assert answer.status == 202, answer.body
    return answer.json


def test_events_and_ends_of_runs_come_in_order_and_a_resumed_stream_has_no_hole(api: Any) -> None:
    stream = api.events()
    run_id = api.say("hello there", conversation="desk")
    received, ended = stream.until("message.received"), stream.until("run.completed")
    assert (received.data["data"]["text"], received.data["run_id"]) == ("hello there", run_id)
    assert received.data["agent_id"] == "parrot"
    assert (ended.data["id"], ended.data["source"]) == (f"{run_id}-completed", "bollard:events")
    assert (ended.data["data"]["answer"], ended.data["conversation_id"]) == ("hello there ", "desk")
    assert received.id == f"1.{received.data['seq']}"
    stream.close()
    post(api, "meanwhile")
    again = api.events(last=received.id)
    assert again.until("run.completed") == ended
    assert again.until("build.failed").data["data"]["id"] == "meanwhile"
    again.close()
    by_query = api.events(f"?after={received.id}")
    assert by_query.until("run.completed") == ended
    by_query.close()


def test_a_stream_has_only_the_selected_events(api: Any) -> None:
    streams = {
        "?types=run.completed,run.failed": "run.completed",
        "?source=forge": "build.failed",
        "?conversation=here&types=message.received": "message.received",
        "?agent=parrot&types=run.completed": "run.completed",
    }
    opened = {query: api.events(query) for query in streams}
    api.read(api.say("elsewhere", conversation="there"))
    post(api, "selected")
    api.read(api.say("here", conversation="here"))
    for query, kind in streams.items():
        assert next(iter(opened[query])).type == kind, query
        opened[query].close()
    assert opened["?conversation=here&types=message.received"].seen[0].data["data"]["text"] == "here"


def test_a_type_with_a_line_break_stays_one_event(api: Any) -> None:
    stream = api.events("?source=odd")
    api.post("/api/v1/events", {"source": "odd", "id": "1", "type": "a\nevent: b\ndata: {}"})
    event = next(iter(stream))
    assert (event.type, event.data["type"]) == ("event", "a\nevent: b\ndata: {}")
    stream.close()


def test_a_cursor_beyond_the_log_is_a_gap(api: Any) -> None:
    stream = api.events("?types=build.failed", last="1.99999999")
    gap = next(iter(stream))
    assert (gap.id, gap.type, gap.data["data"]["reason"], gap.data["data"]["last"]) == (
        None,
        "gap",
        "unknown",
        99999999,
    )
    post(api, "after the gap")
    assert next(iter(stream)).data["data"]["id"] == "after the gap"
    stream.close()


@pytest.mark.parametrize("query", ["?after=x", "?after=1", "?agent=", "?kinds=a"])
def test_a_wrong_cursor_or_parameter_is_refused(api: Any, query: str) -> None:
    answer = api.get(f"/api/v1/events/stream{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_a_reader_gets_the_events_of_runs_that_it_may_see(api: Any, client_of: Any) -> None:
    api.save_agent("private", audience={"see": {"who": "participants"}})
    clients: list[Any] = []
    for name in ("ann", "bob"):
        assert api.put(f"/api/v1/users/{name}", {"role": "member", "password": PASSWORD}).status == 201
        login = api.post("/api/v1/session", {"user": name, "password": PASSWORD}, token=None)
        clients.append(client_of(api.port, login.json["token"]))
    ann, bob = clients
    watching = bob.events("?types=run.completed")
    mine = ann.tell("private", "mine").json["run_id"]
    ann.read(mine)
    his = bob.tell("private", "his").json["run_id"]
    assert watching.until("run.completed").data["run_id"] == his
    assert [event.data["run_id"] for event in watching.seen] == [his]
    watching.close()


def test_a_reader_without_the_right_is_refused_and_one_that_loses_it_is_told(api: Any, client_of: Any) -> None:
    made = api.post("/api/v1/keys", {"name": "dash", "rights": ["events.read"]}).json
    dash = client_of(api.port, made["token"])
    stream = dash.events()
    api.read(api.say("hello"))
    assert post(api, "seen")["event_id"] == stream.until("build.failed").data["id"]
    assert "run.completed" not in [event.type for event in stream.seen]  # a run needs runs.read
    assert api.delete(f"/api/v1/keys/{made['key_id']}").status == 200
    assert stream.until("gap").data["data"]["reason"] == "revoked"
    stream.close()
    without = api.post("/api/v1/keys", {"name": "none", "rights": ["runs.read"]}).json["token"]
    assert client_of(api.port, without).get("/api/v1/events/stream").status == 403


def test_a_stream_has_no_event_of_another_workspace(api: Any, client_of: Any) -> None:
    assert api.put("/api/v1/workspaces/second", {}).status == 201
    rights = ["events.read", "events.post", "audit.read", "runs.read"]
    made = api.post("/api/v1/keys", {"name": "all", "rights": rights}, bollard_workspace="second").json
    post(api, "of the first workspace")
    second = client_of(api.port, made["token"])
    stream = second.events(last="1.0")
    post(second, "of the second workspace")
    assert next(iter(stream)).data["data"]["id"] == "of the second workspace"
    stream.close()


def test_a_stopping_host_tells_the_reader_to_resume(
    tmp_path: Path, plugin: Path, start_host: Any, client_of: Any
) -> None:
    settings = Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    host = start_host(settings)
    api = client_of(host.port, host.token)
    stream = api.events()
    post(api, "first")
    last = stream.until("build.failed").id
    host.stop()
    assert stream.until("gap").data["data"]["reason"] == "closing"
    stream.close()
    again = start_host(settings)
    api = client_of(again.port, api.token)
    resumed = api.events(last=last)
    post(api, "second")
    assert resumed.until("build.failed").data["data"]["id"] == "second"
    resumed.close()


def test_deleted_content_is_a_gap(tmp_path: Path, plugin: Path, start_host: Any, client_of: Any) -> None:
    settings = Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    host = start_host(settings)
    api = client_of(host.port, host.token)
    event_id = post(api, "old")["event_id"]
    seq = api.get(f"/api/v1/events/{event_id}").json["seq"]
    host.stop()
    store = choose_store("", settings.data, SystemClock())
    store.open()
    with store.write() as transaction:
        transaction.drop_data(["event.received"], 1 << 53, 10)
    store.close()
    again = start_host(settings)
    api = client_of(again.port, api.token)
    stream = api.events("?types=build.failed", last="1.0")
    assert stream.until("gap").data["data"] == {"first": seq, "last": seq, "reason": "retention"}
    post(api, "new")
    assert stream.until("build.failed").data["data"]["id"] == "new"
    stream.close()
