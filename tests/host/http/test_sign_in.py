"""Sign-in with a ticket: a link becomes a session with the identity of the one who asked for the link."""

from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.settings import Settings

TICKETS = "/api/v1/session/tickets"
EXCHANGE = "/api/v1/session/ticket"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Any) -> Settings:
    return Settings(data=tmp_path_factory.mktemp("data"), plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)


def ticket_of(api: Any, token: str = "") -> str:
    issued = api.post(TICKETS, token=token)
    assert issued.status == 201, issued.body
    assert issued.json["path"] == f"/#ticket={issued.json['ticket']}"
    assert issued.json["expires_in_s"] == 600
    return issued.json["ticket"]


def sign_in(api: Any, ticket: str, **more: Any) -> Any:
    return api.elsewhere(ticket).post(EXCHANGE, {"ticket": ticket, **more}, token=None)


def cookie_of(answer: Any) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def test_the_page_gets_a_cookie_with_the_port_that_signs_the_installation_in(api: Any) -> None:
    begun = sign_in(api, ticket_of(api), cookie=True)
    assert begun.status == 201, begun.body
    assert (begun.json["kind"], begun.json["name"]) == ("installation", "admin-token")
    assert "token" not in begun.json
    cookie = cookie_of(begun)
    assert cookie.startswith(f"bollard-{api.port}=bls_")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(begun.headers["set-cookie"].split("; "))
    shown = api.get("/api/v1/session", token=None, cookie=cookie).json
    assert (shown["kind"], shown["session_id"]) == ("installation", begun.json["session_id"])
    assert shown["expires_at"] == begun.json["expires_at"]


def test_a_session_of_the_installation_chooses_its_workspace(api: Any) -> None:
    assert api.put("/api/v1/workspaces/south", {}).status in (200, 201)
    token = sign_in(api, ticket_of(api)).json["token"]
    shown = api.get("/api/v1/session", token=token, bollard_workspace="south").json
    assert (shown["workspace"], shown["kind"]) == ("south", "installation")
    assert api.get("/api/v1/workspaces/south", token=token).status == 200
    assert api.get("/api/v1/session", token=token, bollard_workspace="nowhere").status == 404


def test_a_ticket_works_once(api: Any) -> None:
    ticket = ticket_of(api)
    assert sign_in(api, ticket).status == 201
    again = sign_in(api, ticket)
    assert (again.status, again.error["code"]) == (401, "unauthenticated")
    assert again.error["details"]["reason"] == "sign_in_ticket"
    assert "bollard console" in again.error["hint"]


@for_each("ticket", ["", "blt_", "blt_unknown", "tkt_x", "é\u0000", "x" * 128])
def test_every_refused_ticket_gets_the_same_bytes(api: Any, ticket: str) -> None:
    assert sign_in(api, ticket).body == sign_in(api, "blt_other").body


@for_each("body", [{}, {"ticket": 1}, {"ticket": "x" * 129}, {"ticket": "x", "cookie": "yes"}, {"ticket": "x", "y": 1}])
def test_a_malformed_exchange_is_an_invalid_argument(api: Any, body: Any) -> None:
    answer = api.post(EXCHANGE, body, token=None)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_a_ticket_needs_a_token(api: Any) -> None:
    assert api.post(TICKETS, token=None).status == 401


def test_a_ticket_in_a_query_is_refused(api: Any) -> None:
    answer = api.get(f"/api/v1/runs?x={ticket_of(api)}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_many_exchanges_of_one_address_are_limited(api: Any) -> None:
    client = api.elsewhere("many exchanges")
    statuses = [client.post(EXCHANGE, {"ticket": "blt_x"}, token=None).status for _ in range(31)]
    assert set(statuses[:30]) == {401}
    assert statuses[30] == 429


def test_of_many_unused_tickets_of_one_owner_the_newest_stay(api: Any) -> None:
    tickets = [ticket_of(api) for _ in range(6)]
    assert sign_in(api, tickets[0]).status == 401
    assert sign_in(api, tickets[1]).status == 201


def test_a_key_signs_in_with_its_own_rights_and_ends_its_sessions(api: Any) -> None:
    key = api.post("/api/v1/keys", {"name": "k", "rights": ["runs.read"], "expires_in_s": 3600}).json
    begun = sign_in(api, ticket_of(api, key["token"])).json
    assert (begun["kind"], begun["name"], begun["rights"]) == ("key", f"key:{key['key_id']}", ["runs.read"])
    assert begun["expires_at"] == pytest.approx(key["expires_at"])
    session = begun["token"]
    assert api.get("/api/v1/runs", token=session).status == 200
    assert api.post("/api/v1/keys", {"name": "more", "rights": ["runs.read"]}, token=session).status == 403
    waiting = ticket_of(api, key["token"])
    assert api.delete(f"/api/v1/keys/{key['key_id']}").status == 200
    assert api.get("/api/v1/runs", token=session).status == 401
    assert sign_in(api, waiting).status == 401


def test_a_user_signs_in_with_their_role_and_a_ticket_ends_with_its_session(api: Any) -> None:
    password = "correct horse battery"
    assert api.put("/api/v1/users/tina", {"role": "viewer", "password": password}).status == 201
    login = api.post("/api/v1/session", {"user": "tina", "password": password}, token=None).json
    begun = sign_in(api, ticket_of(api, login["token"])).json
    assert (begun["kind"], begun["user_id"], begun["role"]) == ("session", "tina", "viewer")
    assert begun["expires_at"] <= login["expires_at"]
    waiting = ticket_of(api, login["token"])
    assert api.delete("/api/v1/session", token=login["token"]).status == 200
    assert sign_in(api, waiting).status == 401
    assert api.get("/api/v1/session", token=begun["token"]).status == 200
    assert api.put("/api/v1/users/tina", {"role": "viewer", "disabled": True}).status == 200
    assert api.get("/api/v1/session", token=begun["token"]).status == 401


def test_sessions_are_listed_and_ended(api: Any) -> None:
    first, second = (sign_in(api, ticket_of(api)).json for _ in range(2))
    listed = api.get("/api/v1/sessions", token=second["token"]).json["items"]
    assert {each["session_id"]: each["current"] for each in listed[-2:]} == {
        second["session_id"]: True,
        first["session_id"]: False,
    }
    ended = api.delete(f"/api/v1/sessions/{first['session_id']}", token=second["token"])
    assert ended.json == {"session_id": first["session_id"], "ended": True}
    assert api.get("/api/v1/session", token=first["token"]).status == 401
    missing = api.delete(f"/api/v1/sessions/{first['session_id']}", token=second["token"])
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    assert api.delete("/api/v1/session", token=second["token"]).json == {"ended": True}
    assert api.get("/api/v1/session", token=second["token"]).status == 401


def test_a_caller_does_not_see_sessions_of_others(api: Any) -> None:
    mine = sign_in(api, ticket_of(api)).json
    key = api.post("/api/v1/keys", {"name": "k", "rights": ["runs.read"]}).json["token"]
    assert api.get("/api/v1/sessions", token=key).json["items"] == []
    assert api.delete(f"/api/v1/sessions/{mine['session_id']}", token=key).status == 404


def test_a_logout_removes_the_cookie_and_ends_the_streams_of_the_session(api: Any, client_of: Any) -> None:
    begun = sign_in(api, ticket_of(api), cookie=True)
    cookie, origin = cookie_of(begun), f"http://127.0.0.1:{api.port}"
    reader = client_of(api.port, sign_in(api, ticket_of(api)).json["token"])
    run_id = api.say("wait")
    stream = reader.stream(run_id)
    assert reader.delete("/api/v1/session").status == 200
    assert "revoked" in str(list(stream)[-1])
    api.post(f"/api/v1/runs/{run_id}/cancel", {})
    left = api.delete("/api/v1/session", token=None, cookie=cookie, origin=origin)
    assert left.headers["set-cookie"].startswith(f'bollard-{api.port}=""; ')
    assert "Max-Age=0" in left.headers["set-cookie"]


def test_the_cookie_of_another_port_is_not_ours(api: Any) -> None:
    cookie = cookie_of(sign_in(api, ticket_of(api), cookie=True))
    value = cookie.partition("=")[2]
    assert api.get("/api/v1/session", token=None, cookie=f"bollard-1={value}").status == 401
    assert api.get("/api/v1/session", token=None, cookie=f"bollard={value}").status == 401
    both = f"bollard-1=bls_other; {cookie}"
    assert api.get("/api/v1/session", token=None, cookie=both).status == 200


def test_a_page_of_another_origin_cannot_use_the_cookie(api: Any) -> None:
    cookie = cookie_of(sign_in(api, ticket_of(api), cookie=True))
    for headers in ({"origin": "https://evil.test"}, {"sec_fetch_site": "cross-site"}):
        answer = api.get("/api/v1/session", token=None, cookie=cookie, **headers)
        assert (answer.status, answer.error["code"]) == (403, "forbidden_origin")
    answer = api.post("/api/v1/session/tickets", token=None, cookie=cookie)
    assert answer.error["details"]["reason"] == "origin_missing"


@pytest.mark.full
def test_sessions_of_tickets_survive_a_restart_and_end_with_their_admin_token(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory, start_host: Any, client_of: Any
) -> None:
    settings = replace(settings, data=tmp_path_factory.mktemp("restart"), plugins=())
    host = start_host(settings)
    api = client_of(host.port, host.token)
    key = api.post("/api/v1/keys", {"name": "k", "rights": ["runs.read"]}).json
    tokens = [sign_in(api, ticket_of(api, token)).json["token"] for token in (api.token, key["token"])]
    lost = ticket_of(api)
    host.stop()
    host = start_host(settings)
    api = client_of(host.port, api.token)
    assert [api.get("/api/v1/session", token=token).status for token in tokens] == [200, 200]
    assert sign_in(api, lost).status == 401
    host.stop()
    (settings.data / "keys/admin-token.sha256").unlink()
    host = start_host(settings)
    api = client_of(host.port, host.token)
    assert [api.get("/api/v1/session", token=token).status for token in tokens] == [401, 200]
