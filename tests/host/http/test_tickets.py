"""Stream tickets: a URL that opens one stream, once. A token in a URL is refused."""

from typing import Any

import pytest

from bollard.host.api import operations


def ticket_for(api: Any, path: str) -> str:
    answer = api.post("/api/v1/tickets", {"path": path})
    assert answer.status == 201, answer.body
    assert (answer.json["path"], answer.json["expires_in_s"]) == (path, 30.0)
    return answer.json["ticket"]


def test_a_ticket_opens_its_stream_once_and_without_a_token(api: Any) -> None:
    run_id = api.say("one two")
    whole = api.read(run_id)
    path = f"/api/v1/runs/{run_id}/stream"
    ticket = ticket_for(api, path)
    opened = api.get(f"{path}?ticket={ticket}", token=None)
    assert (opened.status, opened.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert opened.body.count(b"\nevent: ") == len(whole)
    again = api.get(f"{path}?ticket={ticket}", token=None)
    assert (again.status, again.error["code"]) == (401, "unauthenticated")
    assert "POST /api/v1/tickets" in again.error["hint"]


def test_a_ticket_resumes_at_the_position_of_the_reader(api: Any) -> None:
    run_id = api.say("one two three")
    whole = api.read(run_id)
    path = f"/api/v1/runs/{run_id}/stream"
    opened = api.get(f"{path}?ticket={ticket_for(api, path)}&after={whole[2].id}", token=None)
    assert opened.body.count(b"event: ") == len(whole) - 3


def test_a_ticket_opens_only_its_path(api: Any) -> None:
    run_id, other = api.say("one"), api.say("two")
    for path in (f"/api/v1/runs/{other}/stream", f"/api/v1/runs/{run_id}/socket"):
        ticket = ticket_for(api, f"/api/v1/runs/{run_id}/stream")
        assert api.get(f"{path}?ticket={ticket}", token=None).status == 401
    ticket = ticket_for(api, f"/api/v1/runs/{run_id}/stream")
    for path in (f"/api/v1/runs/{run_id}", "/api/v1/runs", "/api/v1/agents"):
        assert api.get(f"{path}?ticket={ticket}", token=None).status == 401
        refused = api.get(f"{path}?ticket={ticket}")
        assert (refused.status, refused.error["code"]) == (400, "invalid_argument")


def test_a_ticket_together_with_a_token_is_refused(api: Any) -> None:
    path = f"/api/v1/runs/{api.say('x')}/stream"
    answer = api.get(f"{path}?ticket={ticket_for(api, path)}")
    assert (answer.status, answer.error["details"]["field"]) == (400, "ticket")


@pytest.mark.parametrize(
    "path", ["/api/v1/runs", "/api/v1/runs/run_x", "/nowhere", "https://x.test/api/v1/runs/r/stream"]
)
def test_only_streams_and_sockets_have_tickets(api: Any, path: str) -> None:
    answer = api.post("/api/v1/tickets", {"path": path})
    assert (answer.status, answer.error["details"]["field"]) == (400, "path")


def test_a_ticket_of_an_absent_run_gets_the_same_answer_as_the_run(api: Any) -> None:
    path = "/api/v1/runs/run_absent/stream"
    answer = api.get(f"{path}?ticket={ticket_for(api, path)}", token=None)
    assert answer.body == api.get(path).body


def test_a_ticket_needs_a_token(api: Any) -> None:
    assert api.post("/api/v1/tickets", {"path": "/api/v1/runs/r/stream"}, token=None).status == 401


def test_a_token_in_a_url_is_refused_with_a_message(api: Any) -> None:
    run_id = api.say("x")
    queries = [f"{name}={api.token}" for name in ("token", "access_token", "anything")]
    for query in (*queries, "api_key=x", "x=bls_1", "x=blk_1"):
        for given in (None, ""):
            answer = api.get(f"/api/v1/runs/{run_id}/stream?{query}", token=given)
            assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
            assert "a token does not belong in a URL" in answer.error["message"]
            assert api.token not in answer.body.decode()


def test_the_operations_with_tickets_are_streams_and_sockets() -> None:
    assert {operation.path for operation in operations() if operation.ticket} >= {
        "/api/v1/runs/{run_id}/stream",
        "/api/v1/runs/{run_id}/socket",
    }
    for operation in operations():
        assert not operation.ticket or operation.method == "GET", operation.name


def test_a_head_request_to_a_stream_does_not_wait_for_its_end(api: Any) -> None:
    run_id = api.say("wait")
    head = api.send("HEAD", f"/api/v1/runs/{run_id}/stream")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    api.ended(run_id)


# --- renewable tickets ---


def renewable_for(api: Any, path: str, token: str = "") -> str:
    answer = api.post("/api/v1/tickets", {"path": path, "renewable": True}, token=token)
    assert answer.status == 201, answer.body
    assert (answer.json["idle_s"], answer.json["expires_in_s"]) == (300.0, 43200.0)
    return answer.json["ticket"]


def test_a_renewable_ticket_opens_its_stream_again_where_it_broke(api: Any) -> None:
    run_id = api.say("one two three")
    whole = api.read(run_id)
    path = f"/api/v1/runs/{run_id}/stream"
    ticket = renewable_for(api, path)
    first = api.get(f"{path}?ticket={ticket}", token=None)
    again = api.get(f"{path}?ticket={ticket}", token=None, last_event_id=whole[2].id)
    assert first.body.count(b"\nevent: ") == len(whole)
    assert again.body.count(b"event: ") == len(whole) - 3
    assert api.get(f"/api/v1/runs/{api.say('x')}/stream?ticket={ticket}", token=None).status == 401


def test_a_renewable_ticket_ends_with_the_session_that_asked_for_it(api: Any) -> None:
    path = f"/api/v1/runs/{api.say('one')}/stream"
    link = api.post("/api/v1/session/tickets").json["ticket"]
    session = api.post("/api/v1/session/ticket", {"ticket": link}, token=None).json["token"]
    ticket = renewable_for(api, path, session)
    assert api.get(f"{path}?ticket={ticket}", token=None).status == 200
    assert api.delete("/api/v1/session", token=session).status == 200
    refused = api.get(f"{path}?ticket={ticket}", token=None)
    assert (refused.status, refused.error["details"]["reason"]) == (401, "ticket")


def test_a_socket_has_no_renewable_ticket(api: Any) -> None:
    path = f"/api/v1/runs/{api.say('one')}/socket"
    answer = api.post("/api/v1/tickets", {"path": path, "renewable": True})
    assert (answer.status, answer.error["details"]["reason"]) == (400, "ticket_renewable")
