"""Users, programs and workspaces over HTTP: logins, identities, and their views."""

from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

PASSWORD = "correct horse battery"


@pytest.fixture
def user(api: Any) -> Any:
    """Makes a user who is deleted afterwards; returns the token of a session."""
    made: list[tuple[str, str]] = []

    def make(user_id: str, role: str, workspace: str = "default") -> str:
        body = {"role": role, "password": PASSWORD}
        answer = api.put(f"/api/v1/users/{user_id}", body, bollard_workspace=workspace)
        assert answer.status == 201, answer.body
        made.append((user_id, workspace))
        login = {"workspace": workspace, "user": user_id, "password": PASSWORD}
        begun = api.post("/api/v1/session", login, token=None)
        assert begun.status == 201, begun.body
        return begun.json["token"]

    yield make
    for user_id, workspace in made:
        api.delete(f"/api/v1/users/{user_id}", bollard_workspace=workspace)


@pytest.fixture(scope="module")
def north(api: Any) -> str:
    answer = api.put("/api/v1/workspaces/north", {"name": "North"})
    assert answer.status == 201, answer.body
    return "north"


def test_the_admin_token_represents_the_installation(api: Any) -> None:
    shown = api.get("/api/v1/session").json
    assert (shown["kind"], shown["name"], shown["workspace"]) == ("installation", "admin-token", "default")
    assert "workspaces.write" in shown["rights"]


def test_a_user_logs_in_reads_their_session_and_logs_out(api: Any, user: Any) -> None:
    token = user("ann1", "viewer")
    shown = api.get("/api/v1/session", token=token).json
    assert (shown["kind"], shown["name"], shown["role"], shown["user_id"]) == ("session", "user:ann1", "viewer", "ann1")
    assert shown["expires_at"] > 0
    assert api.delete("/api/v1/session", token=token).json == {"ended": True}
    assert api.get("/api/v1/session", token=token).status == 401
    assert api.delete("/api/v1/session").status == 409


@pytest.fixture(scope="module")
def known(api: Any) -> None:
    assert api.put("/api/v1/users/ann2", {"role": "viewer", "password": PASSWORD}).status == 201


@pytest.mark.parametrize(
    "body",
    [
        {"user": "ann2", "password": "wrong password"},
        {"user": "nobody", "password": PASSWORD},
        {"workspace": "nowhere", "user": "ann2", "password": PASSWORD},
    ],
)
def test_every_failed_login_gets_the_same_bytes(api: Any, known: None, body: dict[str, str]) -> None:
    answer = api.post("/api/v1/session", body, token=None)
    other = api.post("/api/v1/session", {"user": "x", "password": "y"}, token=None)
    assert (answer.status, answer.body) == (other.status, other.body) == (401, answer.body)
    assert answer.error["code"] == "unauthenticated"


def test_a_browser_gets_a_cookie_that_scripts_cannot_read(api: Any, user: Any) -> None:
    user("ann3", "viewer")
    body = {"user": "ann3", "password": PASSWORD, "cookie": True}
    begun = api.post("/api/v1/session", body, token=None)
    assert "token" not in begun.json
    cookie = begun.headers["set-cookie"]
    assert cookie.startswith(f"bollard-{api.port}=bls_")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} >= {"httponly", "path=/", "samesite=strict"}
    value = cookie.split(";")[0]
    same_site = {"cookie": f"other=1; {value}", "origin": f"http://127.0.0.1:{api.port}"}
    assert api.get("/api/v1/session", token=None, **same_site).json["name"] == "user:ann3"
    assert api.get("/api/v1/session", token=None, cookie=f"bollard-{api.port}=bls_wrong").status == 401
    assert api.get("/api/v1/session", token=None, cookie=f"__Host-{value}").status == 401
    ended = api.delete("/api/v1/session", token=None, **same_site)
    assert ended.status == 200
    assert "max-age=0" in ended.headers["set-cookie"].lower()
    assert api.get("/api/v1/session", token=None, **same_site).status == 401


def test_a_cookie_does_not_replace_a_wrong_header(api: Any, user: Any) -> None:
    token = user("ann4", "viewer")
    answer = api.get("/api/v1/session", token="wrong", cookie=f"bollard-{api.port}={token}")
    assert answer.status == 401


def test_a_password_change_needs_the_old_password(api: Any, user: Any) -> None:
    token = user("ann5", "viewer")
    change = {"old": PASSWORD, "new": "another password"}
    assert api.post("/api/v1/session/password", {**change, "old": "wrong"}, token=token).status == 401
    assert api.post("/api/v1/session/password", change, token=token).json == {"changed": True}
    assert api.get("/api/v1/session", token=token).status == 200
    assert api.post("/api/v1/session", {"user": "ann5", "password": PASSWORD}, token=None).status == 401


# --- users and keys as things that are edited ---


def test_a_user_is_edited_by_revision(api: Any, user: Any) -> None:
    user("ann6", "viewer")
    shown = api.get("/api/v1/users/ann6")
    assert shown.json == {"user_id": "ann6", "role": "viewer", "disabled": False, "password": True, "revision": 1}
    assert shown.headers["etag"] == '"1"'
    assert api.get("/api/v1/users/ann6", if_none_match='"1"').status == 304
    edited = api.put("/api/v1/users/ann6", {"role": "member", "name": "Ann"}, if_match='"1"')
    assert (edited.status, edited.json["role"], edited.json["name"], edited.json["revision"]) == (
        200,
        "member",
        "Ann",
        2,
    )
    assert api.put("/api/v1/users/ann6", {"role": "admin"}, if_match='"1"').status == 412
    assert api.put("/api/v1/users/ann6", {"role": "admin", "revision": 1}).status == 409
    assert api.delete("/api/v1/users/ann6", if_match='"1"').status == 412
    assert edited.json in api.get("/api/v1/users").json["items"]


def test_no_answer_holds_a_password(api: Any, user: Any) -> None:
    user("ann7", "viewer")
    for path in ("/api/v1/users", "/api/v1/users/ann7"):
        body = api.get(path).body
        assert PASSWORD.encode() not in body
        assert b"argon2" not in body


@for_each(
    ("body", "field"),
    [
        ({}, "role"),
        ({"role": "owner"}, "role"),
        ({"role": "viewer", "password": "short"}, "password"),
        ({"role": "viewer", "extra": 1}, "extra"),
        ({"role": "viewer", "user_id": "other"}, "user_id"),
        ({"role": "viewer", "revision": -1}, "revision"),
    ],
)
def test_an_invalid_user_is_refused_and_not_saved(api: Any, body: dict[str, Any], field: str) -> None:
    answer = api.put("/api/v1/users/bob", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)
    assert answer.error["hint"]
    assert api.get("/api/v1/users/bob").status == 404


def test_a_key_is_shown_once_and_has_only_its_rights(api: Any) -> None:
    made = api.post("/api/v1/keys", {"name": "ci", "rights": ["agents.read"], "expires_in_s": 3600})
    assert made.status == 201
    key_id, token = made.json["key_id"], made.json["token"]
    assert token.startswith(f"blk_{key_id}_")
    assert api.get("/api/v1/agents", token=token).status == 200
    refused = api.get("/api/v1/users", token=token)
    assert (refused.status, refused.error["details"]["right"]) == (403, "users.read")
    shown = api.get(f"/api/v1/keys/{key_id}").json
    assert "token" not in shown
    assert shown["last_used_at"] >= shown["created_at"]
    assert token.rpartition("_")[2].encode() not in api.get("/api/v1/keys").body
    assert api.delete(f"/api/v1/keys/{key_id}").status == 200
    assert api.get("/api/v1/agents", token=token).status == 401
    assert api.get(f"/api/v1/keys/{key_id}").status == 404


def test_a_repeated_key_request_gets_the_same_key(api: Any) -> None:
    body = {"name": "again", "rights": ["agents.read"]}
    first = api.post("/api/v1/keys", body, idempotency_key="k1")
    second = api.post("/api/v1/keys", body, idempotency_key="k1")
    assert second.body == first.body
    assert second.headers["idempotency-replayed"] == "true"
    assert api.post("/api/v1/keys", {**body, "name": "other"}, idempotency_key="k1").status == 422
    api.delete(f"/api/v1/keys/{first.json['key_id']}")


@for_each(
    "body",
    [
        {"name": "k", "rights": []},
        {"name": "k", "rights": ["everything"]},
        {"name": "", "rights": ["runs.read"]},
        {"name": "k", "rights": ["runs.read"], "expires_in_s": 0},
        {"name": "k", "rights": ["runs.read"], "expires_in_s": 1e12},
        {"rights": ["runs.read"]},
    ],
)
def test_an_invalid_key_request_is_refused(api: Any, body: dict[str, Any]) -> None:
    before = api.get("/api/v1/keys").body
    assert api.post("/api/v1/keys", body).status == 400
    assert api.get("/api/v1/keys").body == before


def test_a_key_cannot_have_more_rights_than_its_maker(api: Any, user: Any) -> None:
    token = user("olga", "operator")
    refused = api.post("/api/v1/keys", {"name": "k", "rights": ["users.write"]}, token=token)
    assert (refused.status, refused.error["code"]) == (403, "unauthorized")
    made = api.post("/api/v1/keys", {"name": "k", "rights": ["keys.write", "runs.read"]}, token=token).json
    assert made["user_id"] == "olga"
    again = api.post("/api/v1/keys", {"name": "k2", "rights": ["runs.create"]}, token=made["token"])
    assert again.status == 403
    api.delete(f"/api/v1/keys/{made['key_id']}")


# --- requests in the name of another actor ---


def test_a_members_runs_have_their_own_actor(api: Any, user: Any) -> None:
    token = user("mia", "member")
    said = {"agent": "parrot", "input": {"text": "hello"}}
    run_id = api.post("/api/v1/runs", said, token=token).json["run_id"]
    api.ended(run_id)
    (event,) = [each for each in api.get("/api/v1/events").json["items"] if each["run_id"] == run_id]
    assert (event["actor_type"], event["actor_id"]) == ("user", "mia")
    refused = api.post("/api/v1/runs", {**said, "actor": {"type": "user", "id": "ann8"}}, token=token)
    assert (refused.status, refused.error["details"]["right"]) == (403, "actors.assume")
    assert api.post("/api/v1/runs", {**said, "actor": {"id": "mia"}}, token=token).status == 202


def test_an_operator_may_act_for_other_actors(api: Any, user: Any) -> None:
    token = user("olga", "operator")
    body = {"agent": "parrot", "input": {"text": "hi"}, "actor": {"type": "feishu", "id": "ou_1"}}
    assert api.post("/api/v1/runs", body, token=token).status == 202


def test_an_actor_of_a_channel_is_linked_to_a_user(api: Any, user: Any) -> None:
    user("ann9", "viewer")
    made = api.post("/api/v1/actors", {"actor": "feishu:ou/1", "user_id": "ann9"})
    assert made.status == 201, made.body
    link_id = made.json["link_id"]
    assert api.get(f"/api/v1/actors/{link_id}").json == made.json
    assert api.get("/api/v1/actors").json["items"] == [made.json]
    assert api.post("/api/v1/actors", {"actor": "feishu:ou/1", "user_id": "nobody"}).status == 400
    assert api.delete(f"/api/v1/actors/{link_id}").status == 200
    assert api.get(f"/api/v1/actors/{link_id}").status == 404


# --- a second workspace ---


def test_a_run_of_a_second_workspace_stays_in_it(api: Any, north: str, user: Any, client_of: Any) -> None:
    token = user("nia", "member", north)
    said = {"agent": "parrot", "input": {"text": "from the north"}, "conversation": "room"}
    created = api.post("/api/v1/runs", said, token=token)
    assert created.status == 202, created.body
    run_id = created.json["run_id"]
    events = client_of(api.port, token).read(run_id)
    assert events[-1].data["data"]["status"] == "completed"
    assert api.get(f"/api/v1/runs/{run_id}", token=token).json["workspace_id"] == north
    assert api.get(f"/api/v1/runs/{run_id}", bollard_workspace=north).status == 200
    absent = api.get("/api/v1/runs/run_absent")
    foreign = api.get(f"/api/v1/runs/{run_id}")
    assert (foreign.status, foreign.body) == (absent.status, absent.body) == (404, absent.body)
    assert run_id not in api.get("/api/v1/runs").body.decode()


def test_a_foreign_workspace_and_an_absent_one_look_the_same(api: Any, north: str, user: Any) -> None:
    token = user("nia", "admin", north)
    foreign = api.get("/api/v1/session", token=token, bollard_workspace="default")
    absent = api.get("/api/v1/session", token=token, bollard_workspace="nowhere")
    assert (foreign.status, foreign.body) == (absent.status, absent.body) == (404, absent.body)
    assert api.get("/api/v1/session", token=token, bollard_workspace=north).status == 200
    foreign, absent = (api.get(f"/api/v1/workspaces/{each}", token=token) for each in ("default", "nowhere"))
    assert (foreign.status, foreign.body) == (absent.status, absent.body) == (404, absent.body)
    assert [each["workspace_id"] for each in api.get("/api/v1/workspaces", token=token).json["items"]] == [north]
    assert api.put("/api/v1/workspaces/west", {}, token=token).status == 403
    assert api.get("/api/v1/session", bollard_workspace="nowhere").status == 404


def test_an_agent_of_one_workspace_is_absent_from_another(api: Any, north: str) -> None:
    body = {"runner_id": "plugin:local/parrot/default"}
    assert api.put("/api/v1/agents/polly", body, bollard_workspace=north).status == 201
    assert api.get("/api/v1/agents/polly").status == 404
    assert api.get("/api/v1/agents/polly", bollard_workspace=north).status == 200
    assert api.post("/api/v1/runs", {"agent": "polly", "input": {"text": "x"}}).status == 404
    assert api.delete("/api/v1/agents/polly", bollard_workspace=north).status == 200


def test_a_closed_workspace_stops_its_runs_and_refuses_its_tokens(api: Any, user: Any, client_of: Any) -> None:
    assert api.put("/api/v1/workspaces/brief", {}).status == 201
    token = user("bea", "member", "brief")
    said = {"agent": "parrot", "input": {"text": "wait"}}
    run_id = api.post("/api/v1/runs", said, token=token).json["run_id"]
    stream = client_of(api.port, token).stream(run_id)
    stream.until("message.delta")
    assert api.delete("/api/v1/workspaces/brief").json == {"workspace_id": "brief", "deleted": True}
    last = list(stream)[-1].data["data"]  # its token ends too, and its reader may get that first
    assert last.get("status", last.get("reason")) in ("cancelled", "revoked")
    stream.close()
    assert api.get("/api/v1/session", token=token).status == 401
    assert api.get("/api/v1/session", bollard_workspace="brief").status == 404
    assert api.delete("/api/v1/workspaces/brief").status == 404
    assert api.put("/api/v1/workspaces/brief", {}).status == 409
    assert api.delete("/api/v1/workspaces/default").status == 409


def test_the_first_workspace_can_be_renamed(api: Any) -> None:
    assert api.get("/api/v1/workspaces/default").headers["etag"] == '"0"'
    named = api.put("/api/v1/workspaces/default", {"name": "Home"}, if_match='"0"')
    assert (named.status, named.json["name"]) == (200, "Home")
    assert api.put("/api/v1/workspaces/default", {"name": "House"}, if_match='"0"').status == 412


def test_workspaces_users_keys_and_agents_survive_a_restart(
    start_host: Any, client_of: Any, settings: Any, tmp_path: Any
) -> None:
    own = replace(settings, data=tmp_path / "data", database="")
    host = start_host(own)
    admin = client_of(host.port, host.token)
    assert admin.put("/api/v1/workspaces/north", {}).status == 201
    agent = {"runner_id": "plugin:local/parrot/default"}
    admin.until("/api/v1/agents", lambda found: found["items"])
    in_north = {"bollard_workspace": "north"}
    assert admin.put("/api/v1/agents/polly", agent, **in_north).status == 201
    body = {"role": "member", "password": PASSWORD}
    assert admin.put("/api/v1/users/nia", body, **in_north).status == 201
    key = admin.post("/api/v1/keys", {"name": "k", "rights": ["runs.create", "runs.read"]}, **in_north).json["token"]
    login = {"workspace": "north", "user": "nia", "password": PASSWORD}
    session = admin.post("/api/v1/session", login, token=None).json["token"]
    host.stop()
    host = start_host(own)
    assert host.token is None  # it is shown once
    for token in (session, key):
        client = client_of(host.port, token)
        client.until("/api/v1/session", lambda found: found["workspace"] == "north")
        run_id = client.tell("polly", "after the restart").json["run_id"]
        assert client.ended(run_id)["status"] == "completed"
    assert admin.token not in (session, key)
    again = client_of(host.port, admin.token)
    assert [each["workspace_id"] for each in again.get("/api/v1/workspaces").json["items"]] == ["default", "north"]
