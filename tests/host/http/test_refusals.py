"""Errors of the API: a code, a message and a hint, and no effect."""

import re
from typing import Any

import msgspec
import pytest
from tests.tables import for_each

from bollard.host.api import operations
from bollard.host.clock import SystemClock
from bollard.host.http.answers import BODY_BYTES
from bollard.host.limits import MESSAGE_BODY_BYTES
from bollard.host.settings import Settings
from bollard.host.store.rows import PutRun
from bollard.host.store.selection import choose_store

RUN = {"agent": "parrot", "input": {"text": "hi"}}


def assert_refused(answer: Any, status: int, code: str) -> None:
    assert answer.status == status, answer.body
    error = answer.error
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    assert answer.headers["content-type"] == "application/json"


# --- rights ---

OPEN = {
    "/api/v1/session",
    "/api/v1/session/ticket",
    "/api/v1/channels/{channel_id}/events",
    "/api/v1/channels/{channel_id}/artifacts/{artifact_id}",
    "/api/v1/channels/{channel_id}/artifacts",
    "/api/v1/channels/{channel_id}/uploads",
    "/api/v1/channels/{channel_id}/uploads/{upload_id}",
    "/api/v1/channels/{channel_id}/uploads/{upload_id}/finish",
    "/api/v1/runtime/challenge",
    "/api/v1/runtime/enrolment",
    "/api/v1/runtime/channel",
}
"""Operations of the API without a token: those that issue a token, and those with a signature."""
NAMES = {"run_id": "run_x", "agent_id": "parrot"}


def filled(path: str) -> str:
    """A path with something for each of its parts."""
    return re.sub(r"{(\w+)}", lambda part: NAMES.get(part[1], "x"), path)


GUARDED = [(each.method, filled(each.path)) for each in operations() if not each.open and not each.run_token]
OUTSIDE = [(each.method, filled(each.path)) for each in operations() if each.run_token]
"""Operations that the token of one run opens too."""


def test_few_operations_are_open_without_a_token() -> None:
    opened = {(each.method, each.path) for each in operations() if each.open}
    assert {path for _, path in opened if path.startswith("/api/")} <= OPEN
    assert {("GET", "/healthz"), ("GET", "/readyz")} <= opened


@pytest.mark.parametrize(("method", "path"), OUTSIDE)
def test_a_route_with_a_run_token_needs_a_token(api: Any, method: str, path: str) -> None:
    for header in (None, "", "Bearer", "Bearer ", f"Basic {api.token}"):
        named = {} if header is None else {"authorization": header}
        assert_refused(api.send(method, path, token=None, **named), 401, "unauthenticated")


@for_each(("method", "path"), GUARDED)
def test_every_route_needs_the_token_and_gives_the_same_refusal(api: Any, method: str, path: str) -> None:
    stranger = api.elsewhere(f"{method} {path}")
    answers = [
        stranger.send(method, path, token=None),
        stranger.send(method, path, token="wrong"),
        stranger.send(method, path, token=api.token + "x"),
    ]
    for answer in answers:
        assert_refused(answer, 401, "unauthenticated")
    assert len({answer.body for answer in answers}) == 1


def test_an_almost_correct_token_is_refused(api: Any) -> None:
    path = "/api/v1/runs"
    assert api.get(path).status == 200
    answers = [
        api.get(path, token=api.token[:-1]),
        api.get(path, token=None, authorization=f"Basic {api.token}"),
        api.get(path, token=None, authorization="Bearer"),
        api.get(path, token=None, authorization=""),
        api.get(path, token=None, authorization="Bearer \xff\xfe"),
    ]
    for answer in answers:
        assert_refused(answer, 401, "unauthenticated")
    assert len({answer.body for answer in answers}) == 1


def test_health_needs_no_token(api: Any) -> None:
    assert api.get("/healthz", token=None).body == b"ok"
    ready = api.get("/readyz", token=None)
    assert (ready.status, ready.json["ready"]) == (200, True)
    assert ready.json["plugins"]["parrot"]["workers"] >= 0


# --- absent resources ---


@for_each("run_id", ["run_x", "run_0", "x" * 64, "x" * 65, "x" * 2000, "%00", "..%2F..", "%F0%9F%98%80"])
def test_an_absent_run_is_not_found_by_any_operation(api: Any, run_id: str) -> None:
    answers = [
        api.get(f"/api/v1/runs/{run_id}"),
        api.get(f"/api/v1/runs/{run_id}/records"),
        api.get(f"/api/v1/runs/{run_id}/stream"),
        api.post(f"/api/v1/runs/{run_id}/cancel"),
        api.post(f"/api/v1/runs/{run_id}/steer", {"input": {"text": "x"}}),
        api.get(f"/api/v1/runs/{run_id}/grant"),
        api.get(f"/api/v1/runs/{run_id}/explain"),
        api.post(f"/api/v1/runs/{run_id}/revoke", {"everything": True}),
        api.post(f"/api/v1/runs/{run_id}/results", {"results": [{"sequence": 1, "type": "x", "data": {}}]}),
        api.post(f"/api/v1/runs/{run_id}/finalize", {}),
    ]
    for answer in answers:
        assert_refused(answer, 404, "not_found")


def test_absent_runs_are_all_refused_with_the_same_bytes(api: Any) -> None:
    bodies = {api.get(f"/api/v1/runs/{run_id}").body for run_id in ("run_1", "run_2", "y" * 200)}
    assert len(bodies) == 1


def test_a_run_of_another_workspace_looks_absent(api: Any, settings: Settings) -> None:
    own = api.say("mine")
    api.read(own)
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    row = store.run(own)
    assert row is not None
    foreign = "run_0000000000000000000000000"
    with store.write() as transaction:
        transaction.apply([PutRun(msgspec.structs.replace(row, run_id=foreign, workspace="other"))])
    assert store.run(foreign) is not None
    store.close()
    for path in ("", "/records", "/stream", "/grant", "/explain"):
        assert api.get(f"/api/v1/runs/{foreign}{path}").body == api.get(f"/api/v1/runs/run_absent{path}").body
    said: Any = {"input": {"text": "x"}}
    for path, body in (("cancel", {}), ("steer", said), ("revoke", {"everything": True}), ("finalize", {})):
        assert_refused(api.post(f"/api/v1/runs/{foreign}/{path}", body), 404, "not_found")
    assert foreign not in [item["run_id"] for item in api.get("/api/v1/runs?limit=100").json["items"]]


def test_an_unknown_agent_is_not_found(api: Any) -> None:
    answer = api.post("/api/v1/runs", {**RUN, "agent": "nobody"})
    assert_refused(answer, 404, "not_found")


@for_each("path", ["/", "/api", "/api/v1/nothing", "/api/v2/runs", "/api/v1/runs/a/b/c"])
def test_an_unknown_path_is_refused_with_not_found(api: Any, path: str) -> None:
    assert_refused(api.get(path), 404, "not_found")


@for_each(
    ("method", "path", "allow"),
    [
        ("DELETE", "/api/v1/runs", "GET, HEAD, POST"),
        ("PUT", "/api/v1/runs/run_x", "GET, HEAD"),
        ("DELETE", "/api/v1/events", "GET, HEAD, OPTIONS, POST"),
        ("GET", "/api/v1/runs/run_x/cancel", "POST"),
        ("POST", "/api/v1/agents", "GET, HEAD"),
        ("POST", "/api/v1/agents/parrot", "DELETE, GET, HEAD, PUT"),
        ("POST", "/api/v1/bindings/x", "DELETE, GET, HEAD, PUT"),
        ("POST", "/api/v1/runners", "GET, HEAD"),
    ],
)
def test_a_wrong_method_gets_the_list_of_allowed_methods(api: Any, method: str, path: str, allow: str) -> None:
    answer = api.send(method, path)
    assert_refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allow


# --- bodies ---


@for_each(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b'"x"', "body"),
        (b"\xff\xfe", "body"),
        (b'{"agent":"parrot","agent":"parrot"}', "body"),
        (b'{"agent":NaN}', "body"),
        (b'{"agent":"\\ud800"}', "body"),
        (b"[" * 5000, "body"),
        (b'{"agent":' + b"9" * 400 + b"}", "body"),
        (b"", "agent"),
        (b"{}", "agent"),
        (b'{"agent":3}', "agent"),
        (b'{"agent":""}', "agent"),
        (b'{"agent":"parrot","inptu":{"text":"hi"}}', "inptu"),
        (b'{"agent":"parrot","input":{"text":3}}', "input.text"),
        (b'{"agent":"parrot","input":"hi"}', "input"),
        (b'{"agent":"parrot","conversation":""}', "conversation"),
        (b'{"agent":"parrot","actor":{"typ":"user"}}', "actor.typ"),
    ],
)
def test_an_invalid_body_is_refused_by_its_field(api: Any, body: bytes, field: str) -> None:
    before = api.until_health(lambda health: not health["runs"]["live"])["journal"]["records"]
    answer = api.post("/api/v1/runs", body)
    assert_refused(answer, 400, "invalid_argument")
    assert answer.error["details"]["field"].startswith(field)
    assert api.get("/readyz").json["journal"]["records"] == before


@for_each(
    ("body", "message"),
    [
        ({"agent": "parrot", "input": "hi"}, "input: should be an object"),
        ({"agent": "parrot", "inptu": {}}, "inptu: there is no such field"),
        ({}, "agent: this field is needed"),
    ],
)
def test_a_wrong_field_is_told_without_the_words_of_the_program(api: Any, body: Any, message: str) -> None:
    assert api.post("/api/v1/runs", body).error["message"] == message


@pytest.mark.parametrize("missing", ["source", "id", "type"])
def test_an_event_needs_its_identifying_fields(api: Any, missing: str) -> None:
    body = {"source": "s", "id": "1", "type": "webhook.received", "agent": "parrot"}
    del body[missing]
    answer = api.post("/api/v1/events", body)
    assert_refused(answer, 400, "invalid_argument")
    assert answer.error["details"]["field"] == missing


def test_a_body_is_bounded_with_and_without_a_length(api: Any) -> None:
    large = b'{"agent":"' + b"x" * BODY_BYTES + b'"}'
    for path, limit in (("/api/v1/bindings/resolve", BODY_BYTES), ("/api/v1/runs", MESSAGE_BODY_BYTES)):
        for length in (str(limit + 1), "9" * 15):
            declared = api.post(path, b"", content_length=length)
            assert declared.status in (400, 413)
            assert declared.error["hint"]
        whole = api.post(path, large)
        assert whole.status in (400, 413)
        chunked = api.post(path, iter([large[:1000], large[1000:]]), transfer_encoding="chunked")
        assert chunked.status in (400, 413)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**RUN, "input": {"text": "x" * (256 * 1024 + 1)}}, "text"),
        ({**RUN, "input": {"text": "汉" * (256 * 1024 // 3 + 1)}}, "text"),
        ({**RUN, "data": {"x": "y" * 256 * 1024}}, "data"),
        ({**RUN, "id": "i" * 257}, "id"),
    ],
)
def test_an_oversized_field_is_refused_by_name(api: Any, body: Any, field: str) -> None:
    answer = api.post("/api/v1/runs", body)
    assert_refused(answer, 400, "invalid_argument")
    assert answer.error["details"]["field"] == field


def test_a_refused_id_stays_free_for_the_corrected_request(api: Any) -> None:
    """The refused id is free: the corrected request is the first one."""
    wrong = {"agent": "nobody", "input": {"text": "hi"}, "id": "corrected-later"}
    assert_refused(api.post("/api/v1/runs", wrong), 404, "not_found")
    right = api.post("/api/v1/runs", {**wrong, "agent": "parrot"})
    assert (right.status, right.json["first"]) == (202, True)
    assert api.read(right.json["run_id"])[-1].data["data"]["status"] == "completed"


def test_pipelined_refusals_do_not_stop_a_connection(api: Any) -> None:
    for _ in range(50):
        assert api.post("/api/v1/runs", b"{").status == 400
    assert api.get("/healthz").body == b"ok"
