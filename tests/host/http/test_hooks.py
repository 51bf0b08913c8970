"""Webhook routes over HTTP: saved by people, opened by the proof of a sender, and answered as the route says."""

import hashlib
import hmac
import http.client
import json
import secrets
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.clock import SystemClock
from bollard.host.store.selection import choose_store

SECRET = "a secret of this test alone"
ISSUE: dict[str, Any] = {
    "action": "opened",
    "issue": {"number": 7, "title": "It breaks"},
    "sender": {"login": "octocat"},
}


def save(api: Any, hook: str, kind: str = "github", **body: Any) -> Any:
    answer = api.put(f"/api/v1/hooks/{hook}", {"verifier": {"kind": kind}, "secret": SECRET, "agent": "parrot", **body})
    assert answer.status in (200, 201), answer.body
    return answer.json


def signature(raw: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()


def post(api: Any, hook: str, body: Any = ISSUE, *, secret: str = SECRET, query: str = "", **headers: str) -> Any:
    """Send a request as GitHub does."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {
        "content_type": "application/json",
        "x_hub_signature_256": signature(raw, secret),
        "x_github_event": "issues",
        "x_github_delivery": secrets.token_hex(8),
        **headers,
    }
    return api.post(f"/hooks/{hook}{query}", raw, token=None, **sent)


def event_of(api: Any, answer: Any) -> Any:
    assert answer.status in (200, 202), answer.body
    return api.get(f"/api/v1/events/{answer.json['event_id']}").json


def deliveries(api: Any, hook: str) -> Any:
    return api.get(f"/api/v1/hooks/{hook}/deliveries").json["items"]


# --- saving ---


def test_a_route_is_saved_shown_changed_and_deleted(api: Any) -> None:
    made = api.put("/api/v1/hooks/desk", {"verifier": {"kind": "github"}})
    assert (made.status, made.headers["etag"], made.json["revision"]) == (201, '"1"', 1)
    assert len(made.json["secret"]) > 32
    shown = api.get("/api/v1/hooks/desk").json
    assert shown == {**made.json, "secret": "__kept__"}
    assert "desk" in {item["hook_id"] for item in api.get("/api/v1/hooks").json["items"]}
    again = api.put("/api/v1/hooks/desk", {**shown, "enabled": False})
    assert (again.status, again.json["enabled"], again.json["secret"]) == (200, False, "__kept__")
    assert api.put("/api/v1/hooks/desk", shown).status == 409
    assert api.delete("/api/v1/hooks/desk").json == {"hook_id": "desk", "deleted": True}
    assert api.get("/api/v1/hooks/desk").status == 404
    assert api.get("/api/v1/hooks/desk/deliveries").status == 404


def test_a_route_without_a_verifier_is_not_saved(api: Any) -> None:
    answer = api.put("/api/v1/hooks/open", {"agent": "parrot"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "hook.verifier")
    assert api.get("/api/v1/hooks/open").status == 404


def test_the_secret_of_a_route_is_not_in_the_log(api: Any, settings: Any) -> None:
    secret = api.put("/api/v1/hooks/quiet", {"verifier": {"kind": "standard"}}).json["secret"]
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    try:
        records = store.records(0, 10_000)
        assert any(b'"quiet"' in (record.data or b"") for record in records)
        assert not any(secret.encode() in (record.data or b"") for record in records)
    finally:
        store.close()


# --- the event of a request ---


def test_a_request_of_github_starts_a_run(api: Any) -> None:
    event = {
        "conversation": "issue-{body.issue.number}",
        "actor": "{body.sender.login}",
        "text": "{body.issue.title} ({headers.x-github-event} {query.team|nobody})",
    }
    save(api, "repo", event=event)
    answer = post(api, "repo", query="?team=north", x_github_delivery="d-1")
    assert (answer.status, answer.json["first"]) == (202, True)
    found = api.ended(answer.json["run_id"])
    assert (found["status"], found["conversation_id"], found["agent_id"]) == ("completed", "issue-7", "parrot")
    event = event_of(api, answer)
    assert (event["type"], event["source"], event["id"]) == ("webhook.received", "hook/repo", "d-1")
    assert (event["actor_type"], event["actor_id"]) == ("hook/repo", "octocat")
    content = event["content"]
    assert (content["text"], content["source_event_type"]) == ("It breaks (issues north)", "issues")
    assert (content["data"], content["trigger"]) == (ISSUE, "webhook")


def test_a_repeated_request_gets_its_first_outcome(api: Any) -> None:
    save(api, "again")
    first = post(api, "again", x_github_delivery="d-1")
    second = post(api, "again", x_github_delivery="d-1")
    assert (first.status, second.status) == (202, 200)
    assert second.json == {**first.json, "first": False}
    assert [each["outcome"] for each in deliveries(api, "again")] == ["repeated", "accepted"]


def test_a_request_that_is_replayed_at_once_and_often_starts_one_run(api: Any) -> None:
    save(api, "replayed", requests_per_minute=6000)
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: post(api, "replayed", x_github_delivery="d-9"), range(64))]
    assert {each.status for each in answers} == {200, 202}
    assert [each.status for each in answers].count(202) == 1
    assert len({each.json["run_id"] for each in answers}) == 1


def test_a_route_that_takes_its_id_from_the_body_knows_a_replay_under_another_header(api: Any) -> None:
    """The headers of GitHub are not signed."""
    save(api, "signed-id", dedupe="{body.action}-{body.issue.number}")
    first, second = (post(api, "signed-id", x_github_delivery=number) for number in ("d-1", "d-2"))
    assert (first.status, second.status) == (202, 200)
    assert second.json["run_id"] == first.json["run_id"]


def test_a_request_without_an_id_is_known_by_its_body(api: Any) -> None:
    save(api, "plain", "hmac", verifier={"kind": "hmac", "header": "X-Sign", "prefix": "sha256="})
    body = json.dumps(ISSUE).encode()
    first, second = (api.post("/hooks/plain", body, token=None, x_sign=signature(body)) for _ in range(2))
    assert (first.status, second.status) == (202, 200)
    assert event_of(api, first)["id"] == "sha256:" + hashlib.sha256(body).hexdigest()
    other = body + b" "
    assert api.post("/hooks/plain", other, token=None, x_sign=signature(other)).status == 202


def test_bindings_choose_the_agent_of_a_route_that_names_none(api: Any) -> None:
    save(api, "bound", agent=None)
    none = post(api, "bound")
    assert (none.status, none.json["reason"]["code"]) == (202, "no_binding")
    filters = [{"field": "source_event_type", "values": ["issues"]}]
    binding = {"agent_id": "parrot", "scope": {"channel": "hook/bound"}, "filters": filters}
    assert api.put("/api/v1/bindings/bound", binding).status == 201
    assert api.ended(post(api, "bound").json["run_id"])["binding_id"] == "bound"
    assert post(api, "bound", x_github_event="push").json["reason"]["code"] == "no_binding"
    assert [each["reason"] for each in deliveries(api, "bound")] == ["no_binding", None, "no_binding"]
    assert api.delete("/api/v1/bindings/bound").status == 200


def test_resolve_shows_the_routing_of_a_routes_event(api: Any) -> None:
    save(api, "resolved", agent=None)
    scope = {"channel": "hook/resolved", "actor": "hook/resolved:octocat"}
    filters = [{"field": "surface", "values": ["webhook"]}, {"field": "trigger", "values": ["webhook"]}]
    binding = {"agent_id": "parrot", "scope": scope, "filters": filters}
    assert api.put("/api/v1/bindings/resolved", binding).status == 201
    event = {"source": "hook/resolved", "type": "webhook.received", "actor": {"id": "octocat"}}
    assert api.post("/api/v1/bindings/resolve", event).json["binding"] == "resolved"
    assert api.delete("/api/v1/bindings/resolved").status == 200
    save(api, "resolved")
    found = api.post("/api/v1/bindings/resolve", event).json
    assert (found["binding"], found["agent"]) == ("direct:parrot", "parrot")


def test_data_is_what_the_route_chooses(api: Any) -> None:
    data = {"number": "{body.issue.number}", "who": "by {body.sender.login}", "none": "{body.absent}"}
    save(api, "chosen", event={"type": "issue.opened", "data": data})
    event = event_of(api, post(api, "chosen"))
    assert (event["type"], event["content"]["data"]) == (
        "issue.opened",
        {"number": 7, "who": "by octocat", "none": None},
    )


def test_a_form_is_read_by_its_fields_or_by_its_payload(api: Any) -> None:
    save(api, "form", event={"text": "{body.issue.title}{body.text}"})
    media = "application/x-www-form-urlencoded"
    for form, text in (({"payload": json.dumps(ISSUE)}, "It breaks"), ({"text": "as fields", "x": "1"}, "as fields")):
        answer = post(api, "form", urllib.parse.urlencode(form).encode(), content_type=media)
        assert event_of(api, answer)["content"]["text"] == text
    refused = post(api, "form", b"a=%ff", content_type=media)
    assert (refused.status, refused.error["details"]["reason"]) == (400, "hook_form")


def test_another_payload_becomes_an_artifact(api: Any) -> None:
    save(api, "files")
    answer = post(api, "files", b"\x89PNG" * 10, content_type="image/png")
    raw = event_of(api, answer)["content"]["raw"]
    assert (raw["mime_type"], raw["size_bytes"]) == ("image/png", 40)


def test_a_large_body_keeps_its_bytes_and_its_short_values(api: Any) -> None:
    save(api, "large", event={"text": "{body.action} {body.issue.title}"}, max_bytes=8 << 20)
    medium = json.dumps({**ISSUE, "pad": "x" * 500_000}).encode()
    event = event_of(api, post(api, "large", medium))
    assert (event["content"]["raw"]["size_bytes"], event["content"]["text"]) == (len(medium), "opened It breaks")
    large = json.dumps({**ISSUE, "pad": "x" * 2_000_000}).encode()
    event = event_of(api, post(api, "large", large))
    assert (event["content"]["raw"]["size_bytes"], event["content"]["text"]) == (len(large), "opened ")
    assert event["content"]["data"] == {"action": "opened"}


def test_json_beyond_the_limits_of_a_frame_is_not_lost(api: Any) -> None:
    save(api, "long", event={"text": "{body.id}"})
    body = b'{"id": 12345678901234567890, "kind": "x"}'
    event = event_of(api, post(api, "long", body))
    assert (event["content"]["text"], event["content"]["data"]) == ("12345678901234567890", {"kind": "x"})
    assert event["content"]["raw"]["size_bytes"] == len(body)


@for_each("body", [b"{", b'{"a": 1', b"\xff\xfe", b"[1,"])
def test_a_body_that_is_no_json_is_refused_with_a_typed_error(api: Any, body: bytes) -> None:
    save(api, "broken")
    answer = post(api, "broken", body)
    assert (answer.status, answer.error["details"]["reason"]) == (400, "data_not_json")
    assert deliveries(api, "broken")[0]["outcome"] == "failed"


def test_templates_do_not_see_tokens(api: Any) -> None:
    save(api, "token", "bearer", event={"text": "<{headers.authorization}{headers.cookie}>"})
    answer = api.post("/hooks/token", {"a": 1}, token=None, authorization=f"Bearer {SECRET}")
    assert event_of(api, answer)["content"]["text"] == "<>"


def test_a_caller_of_the_api_cannot_speak_for_a_route(api: Any) -> None:
    save(api, "mine")
    body = {"source": "hook/mine", "id": "1", "type": "webhook.received", "agent": "parrot"}
    answer = api.post("/api/v1/events", body)
    assert (answer.status, answer.error["details"]["reason"]) == (403, "source_is_hook")
    assert api.post("/api/v1/events", {**body, "source": "hook/nobodys"}).status == 202


# --- requests that are no events ---


def test_a_ping_of_github_is_answered_and_is_no_event(api: Any) -> None:
    save(api, "pinged")
    answer = post(api, "pinged", {"zen": "Keep it simple."}, x_github_event="ping")
    assert (answer.status, answer.body) == (200, b"pong")
    assert [(each["outcome"], each["event_id"]) for each in deliveries(api, "pinged")] == [("handshake", None)]
    assert post(api, "pinged", secret="another secret of 24", x_github_event="ping").status == 401


def test_a_challenge_of_slack_is_answered_and_is_no_event(api: Any) -> None:
    save(api, "slack", "slack")
    body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode()
    now = str(int(time.time()))
    signed = hmac.new(SECRET.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x_slack_request_timestamp": now, "x_slack_signature": f"v0={signed}"}
    answer = api.post("/hooks/slack", body, token=None, **headers)
    assert (answer.status, answer.body) == (200, b"3eZbrw1a")
    headers["x_slack_request_timestamp"] = str(int(now) - 1)
    assert api.post("/hooks/slack", body, token=None, **headers).status == 401


def test_topics_that_a_route_does_not_list_are_ignored(api: Any) -> None:
    save(api, "topical", topics=["issues"])
    ignored = post(api, "topical", x_github_event="push")
    assert (ignored.status, ignored.json) == (202, {"ignored": True, "topic": "push"})
    assert post(api, "topical").json["run_id"]
    assert [each["outcome"] for each in deliveries(api, "topical")] == ["accepted", "ignored"]


# --- strangers ---


def told(answer: Any) -> Any:
    return answer.status, answer.body, {name: value for name, value in answer.headers.items() if name != "date"}


def test_a_stranger_does_not_learn_whether_a_route_exists(api: Any) -> None:
    save(api, "real")
    save(api, "small", max_bytes=2048)
    save(api, "off", enabled=False)
    stranger = api.elsewhere("learn")
    wrong = {"secret": "another secret of 24"}
    unknown = told(post(stranger, "absent", **wrong))
    assert unknown[0] == 401
    assert told(post(stranger, "real", **wrong)) == unknown
    assert told(post(stranger, "real", x_hub_signature_256="")) == unknown
    assert told(post(stranger, "real", x_hub_signature_256="sha256=zz")) == unknown
    assert told(post(stranger, "off")) == unknown
    assert told(post(stranger, "small", b"x" * 4096)) == unknown
    assert told(post(stranger, "absent", b"x" * 4096)) == unknown
    assert told(post(stranger, "real", b"x" * (2 << 20))) == told(post(stranger, "absent", b"x" * (2 << 20)))
    assert {each["reason"] for each in deliveries(api, "real")} == {"forged", "missing", "malformed", "too_large"}
    assert [each["reason"] for each in deliveries(api, "small")] == ["too_large"]


def test_a_large_body_without_a_proof_is_not_read_to_its_end(api: Any) -> None:
    save(api, "roomy", max_bytes=8 << 20)
    stranger, body = api.elsewhere("roomy"), b"x" * (4 << 20)
    assert post(stranger, "roomy", body, secret="another secret of 24").status == 401
    unsigned = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    with closing(unsigned), suppress(ConnectionError):  # the host answers before it has read everything
        unsigned.request("POST", "/hooks/roomy", body)
        assert unsigned.getresponse().status == 401
    missing, forged = deliveries(api, "roomy")
    assert (forged["reason"], forged["size_bytes"]) == ("forged", len(body))
    assert missing["reason"] == "missing"
    assert missing["size_bytes"] < len(body)


def test_a_repeated_signature_header_is_no_signature(api: Any) -> None:
    save(api, "twice")
    raw = json.dumps(ISSUE).encode()
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    connection.putrequest("POST", "/hooks/twice")
    for value in (signature(raw), signature(raw)):
        connection.putheader("X-Hub-Signature-256", value)
    connection.putheader("Content-Length", str(len(raw)))
    connection.endheaders(raw)
    assert connection.getresponse().status == 401
    connection.close()
    assert deliveries(api, "twice")[0]["reason"] == "missing"


def test_an_address_that_guesses_is_slowed_down(api: Any) -> None:
    stranger = api.elsewhere("guesser")
    statuses = {post(stranger, f"guess-{number}", secret="another secret of 24").status for number in range(320)}
    assert statuses == {401, 429}


def test_forged_requests_hide_no_accepted_one(api: Any) -> None:
    save(api, "flooded")
    assert post(api, "flooded").status == 202
    stranger = api.elsewhere("flood")
    for _ in range(60):
        post(stranger, "flooded", secret="another secret of 24")
    found = deliveries(api, "flooded")
    assert len(found) == 51
    assert [each["outcome"] for each in found if each["outcome"] != "refused"] == ["accepted"]


def test_routes_of_one_name_in_two_workspaces_are_told_apart_by_their_secret(api: Any) -> None:
    there = {"bollard_workspace": "annex"}
    assert api.put("/api/v1/workspaces/annex", {}).status == 201
    save(api, "shared", agent=None)
    other = {"verifier": {"kind": "bearer"}, "secret": SECRET + "!"}
    assert api.put("/api/v1/hooks/shared", other, **there).status == 201
    ours = post(api, "shared").json["event_id"]
    theirs = api.post("/hooks/shared", {"a": 1}, token=None, authorization=f"Bearer {SECRET}!").json["event_id"]
    assert api.get(f"/api/v1/events/{ours}").status == 200
    assert api.get(f"/api/v1/events/{theirs}").status == 404
    assert api.get(f"/api/v1/events/{theirs}", **there).status == 200
    assert [each["event_id"] for each in deliveries(api, "shared")] == [ours]
    assert api.delete("/api/v1/workspaces/annex").status == 200
    assert api.post("/hooks/shared", {"a": 2}, token=None, authorization=f"Bearer {SECRET}!").status == 401
    assert post(api, "shared").status == 202


# --- limits and answers ---


def test_a_route_has_its_own_rate(api: Any) -> None:
    save(api, "slow", requests_per_minute=6)
    first, second = post(api, "slow"), post(api, "slow")
    assert (first.status, second.status) == (202, 429)
    assert (second.error["details"]["reason"], second.headers["retry-after"]) == ("hook_rate", "10")
    assert deliveries(api, "slow")[0]["reason"] == "hook_rate"
    assert post(api, "slow", secret="another secret of 24").status == 401  # a stranger takes none of it


def test_a_fixed_answer_is_sent_when_the_event_is_on_disk(api: Any) -> None:
    answer = {"mode": "fixed", "status": 200, "body": "<ok/>", "content_type": "application/xml"}
    save(api, "fixed", answer=answer)
    got = post(api, "fixed")
    assert (got.status, got.body, got.headers["content-type"]) == (200, b"<ok/>", "application/xml")
    event = deliveries(api, "fixed")[0]["event_id"]
    assert api.get(f"/api/v1/events/{event}").json["source"] == "hook/fixed"


def test_an_answer_may_wait_for_the_run(api: Any) -> None:
    save(api, "asked", event={"text": "{body.issue.title}"}, answer={"mode": "wait", "wait_s": 60})
    got = post(api, "asked", x_github_delivery="d-1")
    assert (got.status, got.json["status"], got.json["text"]) == (200, "completed", "It breaks ")
    assert post(api, "asked", x_github_delivery="d-1").json == {**got.json, "first": False}
    save(api, "asked", event={"text": "{body.issue.title}"}, answer={"mode": "wait", "wait_s": 60, "format": "text"})
    plain = post(api, "asked")
    assert (plain.status, plain.body, plain.headers["content-type"]) == (
        200,
        b"It breaks ",
        "text/plain; charset=utf-8",
    )


def test_an_answer_that_does_not_come_in_time_names_the_run(api: Any) -> None:
    save(api, "late", event={"text": "wait"}, answer={"mode": "wait", "wait_s": 1})
    got = post(api, "late")
    assert (got.status, got.json["status"]) == (202, "running")
    assert api.get(f"/api/v1/runs/{got.json['run_id']}").json["status"] in ("queued", "running")
    assert api.post(f"/api/v1/runs/{got.json['run_id']}/cancel").status in (200, 202)


# --- tests of a route ---


@for_each("kind", ["standard", "github", "gitlab", "stripe", "slack", "bearer"])
def test_a_sample_shows_its_event_and_is_sent(api: Any, kind: str) -> None:
    secret = {} if kind == "standard" else {"secret": SECRET}
    body = {"verifier": {"kind": kind}, "agent": "parrot", "event": {"text": "{body.text}"}, **secret}
    assert api.put(f"/api/v1/hooks/try-{kind}", body).status == 201
    sample = {"body": '{"text": "tried", "type": "x"}'}
    dry = api.post(f"/api/v1/hooks/try-{kind}/test", {**sample, "dry_run": True})
    assert (dry.status, dry.json["event"]["text"], dry.json["answer"]) == (200, "tried", None)
    assert deliveries(api, f"try-{kind}") == []
    real = api.post(f"/api/v1/hooks/try-{kind}/test", sample)
    assert real.json["answer"]["status"] == 202
    run = json.loads(real.json["answer"]["body"])["run_id"]
    assert api.ended(run)["status"] == "completed"
    assert SECRET.encode() not in real.body


def test_a_closed_route_is_not_tested(api: Any) -> None:
    save(api, "shut", enabled=False)
    answer = api.post("/api/v1/hooks/shut/test", {"body": "{}"})
    assert (answer.status, answer.error["details"]["reason"]) == (400, "hook_closed")


# --- restarts and proxies ---


def test_a_route_and_its_secret_survive_a_restart(
    settings: Any, start_host: Any, client_of: Any, tmp_path: Path
) -> None:
    own = replace(settings, data=tmp_path / "data", database="")
    first = start_host(own)
    client = client_of(first.port, first.token)
    save(client, "kept", agent=None)
    before = post(client, "kept", x_github_delivery="d-1").json
    first.stop()
    second = start_host(own)
    again = client_of(second.port, first.token)
    assert post(again, "kept", x_github_delivery="d-1").json == {**before, "first": False}
    assert post(again, "kept", secret="another secret of 24").status == 401
    assert [each["outcome"] for each in deliveries(again, "kept")] == ["refused", "repeated"]


@pytest.mark.parametrize(("proxies", "status"), [((), 401), (("127.0.0.1",), 202), (("10.0.0.0/8",), 401)])
def test_a_certificate_counts_only_from_a_trusted_proxy(
    settings: Any, start_host: Any, client_of: Any, tmp_path: Path, proxies: Any, status: int
) -> None:
    host = start_host(replace(settings, data=tmp_path / "data", database="", trusted_proxies=proxies))
    client = client_of(host.port, host.token)
    body = {"verifier": {"kind": "mtls", "header": "X-Client-Cert", "value": "CN=ci"}}
    assert client.put("/api/v1/hooks/tls", body).status == 201
    headers = {"x_client_cert": "CN=ci", "x_forwarded_for": "203.0.113.9"}
    assert client.post("/hooks/tls", {"a": 1}, token=None, **headers).status == status
    assert client.post("/hooks/tls", {"a": 1}, token=None, x_client_cert="CN=cj").status == 401
