"""Events in the native form and as CloudEvents: durable before the response, with their run or the reason why they have
none."""

import contextlib
import json
import random
import socket
import string
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.limits import EVENT_NAME_CHARACTERS, EVENTS_IN_BATCH, KEY_BYTES

ASCII = string.ascii_letters + string.digits + "-._~"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
REPORTER = """
    import json
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Reporter", permissions={"artifacts": ["read", "metadata"]})
    async def reporter(ctx: RunContext):
        context = ctx.raw.to_wire()
        said = {name: context.get(name) for name in ("conversation", "actor", "subject", "adapter", "delivery")}
        said |= {"event": context["event"], "input": context["input"], "trigger": context["trigger"]}
        said["traceparent"] = context["runtime"].get("traceparent")
        raw = context["event"].get("raw_ref")
        if raw is not None and ctx.event.data.get("read") != "no":
            pieces = [piece async for piece in ctx.api.artifacts.stream(raw["artifact_id"])]
            size, head = sum(map(len, pieces)), pieces[0][:16]
            said["read"] = [size, head.decode("latin-1")]
        yield ctx.completed(json.dumps(said))
"""


@pytest.fixture(scope="module")
def reporter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins") / "reporter.py"
    path.write_text(textwrap.dedent(REPORTER), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def host(settings: Any, reporter: Any, start_module_host: Any, client_of: Any) -> Any:
    started = start_module_host(replace(settings, plugins=(*settings.plugins, reporter), event_bytes=3_000_000))
    client = client_of(started.port, started.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    client.put("/api/v1/bindings/all", {"agent_id": "reporter", "filters": [{"field": "source", "values": ["ci"]}]})
    return client


def told(host: Any, answer: Any) -> Any:
    """The input of the run of an accepted event."""
    assert answer.status == 202, answer.body
    run_id = answer.json["run_id"]
    assert run_id is not None, answer.json
    assert host.ended(run_id)["status"] == "completed", host.get(f"/api/v1/runs/{run_id}/records").json
    records = host.get(f"/api/v1/runs/{run_id}/records").json["items"]
    (message,) = [record["data"]["message"] for record in records if record["type"] == "message.completed"]
    return json.loads(message["content"])


def cloud(number: str, **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": number, "source": "ci", "type": "com.example.build", **more}


def send(host: Any, body: Any, media: str = STRUCTURED, **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return host.post("/api/v1/events", raw, content_type=media, **headers)


# --- events that lead to no run ---


def test_an_event_without_a_binding_is_stored_with_the_reason(host: Any) -> None:
    body = {"source": "nobody", "id": "lost-1", "type": "thing.happened", "text": "hello", "conversation": "room"}
    first = host.post("/api/v1/events", body)
    assert (first.status, first.json["run_id"], first.json["first"]) == (202, None, True)
    assert first.json["reason"]["code"] == "no_binding"
    assert first.json["reason"]["hint"]
    again = host.post("/api/v1/events", body)
    assert (again.status, again.json) == (200, {**first.json, "first": False})
    kept = host.get(f"/api/v1/events/{first.json['event_id']}").json
    assert (kept["dispatch"], kept["reason"]["code"], kept["summary"]) == ("dropped", "no_binding", None)


def test_an_event_for_an_absent_agent_is_stored_with_the_reason(host: Any) -> None:
    body = {"source": "x", "id": "gone-1", "type": "message.received", "text": "hi", "agent": "nobody"}
    answer = host.post("/api/v1/events", body)
    assert (answer.status, answer.json["reason"]["code"]) == (202, "no_agent")
    assert host.post("/api/v1/events", {**body, "agent": "parrot"}).json == {**answer.json, "first": False}


def test_an_event_of_an_unlisted_sender_is_stored_as_unauthorized(host: Any) -> None:
    host.save_agent("closed", gate={"talk": "listed", "actors": ["user:ann"]})
    body = {"source": "x", "type": "message.received", "text": "hi", "agent": "closed", "actor": {"id": "bob"}}
    answer = host.post("/api/v1/events", {**body, "id": "bob-1", "conversation": "hall"})
    assert (answer.status, answer.json["reason"]["code"]) == (202, "unauthorized")
    said = host.post("/api/v1/events", {**body, "id": "ann-1", "actor": {"id": "ann"}, "conversation": "hall"})
    assert said.json["run_id"] is not None
    run = host.ended(said.json["run_id"])
    assert run["status"] == "completed"


def test_an_event_above_the_rate_is_refused_and_not_stored(host: Any) -> None:
    host.save_agent("slow", gate={"messages_per_minute": 1, "burst": 1})
    body = {"source": "x", "type": "message.received", "text": "hi", "agent": "slow"}
    assert host.post("/api/v1/events", {**body, "id": "s-1"}).json["run_id"] is not None
    refused = host.post("/api/v1/events", {**body, "id": "s-2"})
    assert (refused.status, refused.error["retryable"]) == (429, True)
    host.save_agent("slow")
    again = host.post("/api/v1/events", {**body, "id": "s-2"})
    assert (again.status, again.json["first"]) == (202, True)


def test_a_run_of_an_absent_agent_is_refused(host: Any) -> None:
    assert host.tell("nobody", "hi").status == 404


# --- events that are no messages ---


def test_an_event_without_text_conversation_and_reply_target_runs_an_agent(host: Any) -> None:
    answer = host.post("/api/v1/events", {"source": "ci", "id": "n-1", "type": "build.failed", "data": {"n": 7}})
    seen = told(host, answer)
    assert seen["event"]["data"] == {"n": 7}
    assert seen["input"] == {"contents": [], "attachments": []}
    assert (seen["conversation"], seen["actor"], seen["subject"]) == (None, None, None)
    assert "reply_target" not in seen["delivery"]
    assert seen["trigger"]["source"] == "webhook"


# --- CloudEvents ---


def test_a_structured_event_keeps_all_its_attributes(host: Any) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    event = cloud(
        "c-1",
        subject="repo/main",
        time="2026-03-04T05:06:07.5Z",
        data={"branch": "main"},
        traceparent=trace,
        dataref="https://example.org/payload",
        actorid="octocat",
        partitionkey=7,
    )
    seen = told(host, send(host, event))
    assert (seen["event"]["event_type"], seen["event"]["source_event_type"]) == (
        "webhook.received",
        "com.example.build",
    )
    assert (seen["event"]["source"], seen["event"]["data"]) == ("ci", {"branch": "main"})
    assert seen["event"]["event_time"] == 1772600767.5
    assert (seen["subject"]["subject_type"], seen["subject"]["subject_id"]) == ("subject", "repo/main")
    assert (seen["actor"]["actor_type"], seen["actor"]["actor_id"]) == ("user", "octocat")
    assert seen["traceparent"] == trace
    extra = seen["adapter"]["extra"]["cloudevent"]
    assert (extra["dataref"], extra["partitionkey"], extra["type"]) == (event["dataref"], 7, "com.example.build")


def test_a_stable_type_keeps_its_name_and_a_message_its_text(host: Any) -> None:
    event = cloud("c-2", type="message.received", data={"text": "hello"}, conversation="room-9")
    seen = told(host, send(host, event))
    assert (seen["event"]["event_type"], "source_event_type" in seen["event"]) == ("message.received", False)
    assert (seen["input"]["text"], seen["conversation"]["conversation_id"]) == ("hello", "room-9")


def test_a_binary_event_has_its_attributes_in_headers(host: Any) -> None:
    headers = {"ce_specversion": "1.0", "ce_id": "b-1", "ce_source": "ci", "ce_type": "com.example.build"}
    answer = send(host, {"branch": "main"}, "application/json", **headers, ce_subject="caf%C3%A9")
    seen = told(host, answer)
    assert (seen["event"]["data"], seen["subject"]["subject_id"]) == ({"branch": "main"}, "café")
    text = send(host, b"plain words", "text/plain", **{**headers, "ce_id": "b-2"})
    assert told(host, text)["event"]["data"] == {"text": "plain words"}
    nothing = host.post("/api/v1/events", b"", **{**headers, "ce_id": "b-3"})
    assert told(host, nothing)["event"]["data"] == {}


def test_the_same_event_again_in_another_form_gets_its_first_outcome(host: Any) -> None:
    first = send(host, cloud("same-1", data={"n": 1}))
    headers = {"ce_specversion": "1.0", "ce_id": "same-1", "ce_source": "ci", "ce_type": "com.example.build"}
    again = send(host, {"n": 1}, "application/json", **headers)
    native = host.post("/api/v1/events", {"source": "ci", "id": "same-1", "type": "other"})
    assert again.json == native.json == {**first.json, "first": False}


def test_the_senders_own_type_can_be_bound(host: Any) -> None:
    filters = [{"field": "source_event_type", "values": ["com.example.special"]}, {"field": "source", "values": ["ci"]}]
    assert host.put("/api/v1/bindings/special", {"agent_id": "parrot", "filters": filters}).status == 201
    answer = send(host, cloud("t-1", type="com.example.special"))
    run = host.get(f"/api/v1/runs/{answer.json['run_id']}").json
    assert (run["agent_id"], run["binding_id"]) == ("parrot", "special")
    asked = {"source": "ci", "type": "webhook.received", "source_event_type": "com.example.special"}
    assert host.post("/api/v1/bindings/resolve", asked).json["binding"] == "special"
    host.delete("/api/v1/bindings/special")


def test_an_expired_event_is_stored_and_not_run(host: Any) -> None:
    answer = send(host, cloud("old-1", expirytime="2020-01-01T00:00:00Z"))
    assert (answer.status, answer.json["run_id"], answer.json["reason"]["code"]) == (202, None, "expired")
    assert send(host, cloud("old-1")).json == {**answer.json, "first": False}


def test_one_invalid_event_of_a_batch_loses_no_other(host: Any) -> None:
    batch = [cloud("m-1"), {"id": "m-2"}, cloud("m-3", data_base64="!"), 7, cloud("m-4", source="nobody")]
    answer = send(host, batch, BATCH)
    assert answer.status == 202
    items = answer.json["items"]
    assert items[0]["run_id"] is not None
    assert [item["error"]["details"]["field"] for item in items[1:3]] == ["specversion", "data_base64"]
    assert items[3]["error"]["code"] == "invalid_argument"
    assert (items[4]["id"], items[4]["reason"]["code"]) == ("m-4", "no_binding")
    again = send(host, batch, BATCH).json["items"]
    assert (again[0]["run_id"], again[0]["first"]) == (items[0]["run_id"], False)


def test_a_batch_with_retryable_events_is_retryable_as_a_whole(host: Any) -> None:
    host.save_agent("rare", gate={"messages_per_minute": 1, "burst": 1})
    batch = [cloud(f"r-{number}", agent="rare", type="message.received", data="hi") for number in (1, 2)]
    answer = send(host, batch, BATCH)
    assert (answer.status, answer.error["retryable"]) == (429, True)
    assert "retry-after" in answer.headers
    taken, refused = answer.json["items"]
    assert (taken["first"], refused["error"]["code"]) == (True, "rate_limited")
    host.save_agent("rare")
    taken, late = send(host, batch, BATCH).json["items"]
    assert (taken["first"], late["first"]) == (False, True)


@for_each(
    ("event", "status", "field"),
    [
        ({"specversion": "0.3", "id": "1", "source": "s", "type": "t"}, 415, "specversion"),
        ({"id": "1", "source": "s", "type": "t"}, 400, "specversion"),
        ({"specversion": "1.0", "source": "s", "type": "t"}, 400, "id"),
        ({"specversion": "1.0", "id": "", "source": "s", "type": "t"}, 400, "id"),
        (cloud("x", Name="upper case"), 400, "Name"),
        (cloud("x", time="yesterday"), 400, "time"),
        (cloud("x", time="2026-01-01T00:00:00"), 400, "time"),
        (cloud("x", data=1, data_base64="AA=="), 400, "data_base64"),
        (cloud("x", extension={"not": "scalar"}), 400, "extension"),
        (cloud("x", dataschema=7), 400, "dataschema"),
    ],
)
def test_an_invalid_cloudevent_is_refused_by_its_field(host: Any, event: Any, status: int, field: str) -> None:
    answer = send(host, event)
    assert (answer.status, answer.error["details"]["field"]) == (status, field), answer.body
    assert answer.error["hint"]


@pytest.mark.parametrize("longest", ["汉" * (KEY_BYTES // 3), "x" * EVENT_NAME_CHARACTERS])
def test_names_that_are_too_long_or_contain_null_are_refused(host: Any, longest: str) -> None:
    dice = random.Random(len(longest))

    def name() -> str:
        """As long as may be, and nothing that could be packed."""
        return "".join(
            chr(dice.randrange(ord("一"), ord("龥"))) if ord(each) > 127 else dice.choice(ASCII) for each in longest
        )

    named = {field: name() for field in ("conversation", "thread", "bot", "actorid", "actortype", "subject")}
    assert send(host, cloud(name(), source=name(), agent="parrot", **named)).status == 202
    for field in ("source", "id", "conversation", "bot", "actorname"):
        for wrong in (name() + name()[:2], "a\0b"):
            answer = send(host, {**cloud(f"{field}-1", agent="parrot"), field: wrong})
            assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), (field, answer.body)
            assert answer.error["retryable"] is False
    assert host.get("/api/v1/runs?conversation=a%00b").error["details"]["field"] == "conversation"
    said = host.post("/api/v1/runs", {"agent": "parrot", "input": {"text": "hi"}, "conversation": "a\0b"})
    assert (said.status, said.error["details"]["field"]) == (400, "conversation")


@pytest.mark.parametrize("source", ["run:run_1a1", "api", "api/key:1", "bollard:approvals"])
def test_sources_of_runs_and_callers_are_reserved(host: Any, source: str) -> None:
    """An event under the next call of a run would take the place of that call, one under a caller's key of theirs."""
    native = {"source": source, "id": "call_1", "type": "build.failed", "agent": "parrot"}
    cloud = {"specversion": "1.0", "source": source, "id": "call_1", "type": "build.failed"}
    for body, media in ((native, "application/json"), (cloud, STRUCTURED)):
        answer = host.post("/api/v1/events", body, content_type=media)
        assert (answer.status, answer.error["details"]["field"]) == (400, "source")


@for_each(
    ("body", "media", "status"),
    [
        (b"[]", STRUCTURED, 400),
        (b"{", STRUCTURED, 400),
        (b"{}", BATCH, 400),
        (b"\xff\xfe", BATCH, 400),
        (b"{}", "application/cloudevents+avro", 415),
        (b"[" * 200_000, BATCH, 400),
    ],
)
def test_an_unreadable_body_is_refused(host: Any, body: bytes, media: str, status: int) -> None:
    answer = send(host, body, media)
    assert (answer.status, bool(answer.error["hint"])) == (status, True), answer.body[:300]


def test_a_batch_is_bounded(host: Any) -> None:
    answer = send(host, [cloud(str(number)) for number in range(EVENTS_IN_BATCH + 1)], BATCH)
    assert (answer.status, answer.error["code"]) == (413, "payload_too_large")


def test_a_webhook_sender_may_validate_the_endpoint_first(host: Any) -> None:
    answer = host.send("OPTIONS", "/api/v1/events", webhook_request_origin="ci.example.org", webhook_request_rate="120")
    assert answer.status == 204
    assert answer.headers["webhook-allowed-origin"] == "ci.example.org"
    assert int(answer.headers["webhook-allowed-rate"]) > 0
    assert "webhook-allowed-origin" not in host.send("OPTIONS", "/api/v1/events").headers
    assert host.send("OPTIONS", "/api/v1/events", token="wrong").status == 401


# --- large payloads ---


@pytest.mark.requirement("P04-14")
def test_oversized_data_is_stored_as_an_artifact_that_the_run_may_read(host: Any) -> None:
    big = {"branch": "main", "count": 3, "ok": True, "log": "x" * 400_000}
    seen = told(host, host.post("/api/v1/events", {"source": "ci", "id": "big-1", "type": "build.done", "data": big}))
    assert seen["event"]["data"] == {"branch": "main", "count": 3, "ok": True}
    raw = seen["event"]["raw_ref"]
    assert (raw["mime_type"], raw["size_bytes"]) == ("application/json", seen["read"][0])
    assert seen["read"][1].startswith('{"branch"')


def test_a_body_above_the_memory_limit_is_stored_in_the_blob_store(host: Any) -> None:
    big = {"branch": "main", "log": ["line " * 100] * 4000}
    seen = told(host, send(host, cloud("big-2", data=big)))
    assert seen["event"]["data"] == {"branch": "main"}
    assert seen["read"][0] == seen["event"]["raw_ref"]["size_bytes"] > 2_000_000


def test_many_small_values_are_stored_as_an_artifact_too(host: Any) -> None:
    seen = told(host, send(host, cloud("many-1", data={"kind": "list", "all": list(range(20_000))})))
    assert (seen["event"]["data"], seen["read"][0] > 80_000) == ({"kind": "list"}, True)


def test_a_binary_payload_keeps_its_bytes_and_its_type(host: Any) -> None:
    headers = {"ce_specversion": "1.0", "ce_source": "ci", "ce_type": "com.example.image"}
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10_000
    seen = told(host, send(host, picture, "image/png", **headers, ce_id="png-1"))
    assert seen["event"]["raw_ref"]["mime_type"] == "image/png"
    assert seen["read"] == [len(picture), picture[:16].decode("latin-1")]
    encoded = cloud("png-2", datacontenttype="image/png", data_base64="iVBORw0KGgo=")
    assert told(host, send(host, encoded))["event"]["raw_ref"]["mime_type"] == "image/png"


def pour(host: Any, head: str, pieces: list[bytes]) -> bytes:
    """Send a body that a server may stop reading, and read the answer."""
    with socket.create_connection(("127.0.0.1", host.port), timeout=120) as line:
        lines = ["POST /api/v1/events HTTP/1.1", "host: localhost", f"authorization: Bearer {host.token}", head]
        line.sendall("\r\n".join([*lines, f"content-type: {STRUCTURED}", "", ""]).encode())
        with contextlib.suppress(OSError):
            for piece in pieces:
                line.sendall(piece)
        return line.recv(65536)


def test_a_body_beyond_the_limit_is_refused_and_leaves_no_file(host: Any, settings: Any) -> None:
    piece = b"x" * 500_000
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece)] * 8
    for head, pieces in (("content-length: 4000000", []), ("transfer-encoding: chunked", chunks)):
        assert b"413" in pour(host, head, pieces).split(b"\r\n")[0]
    left = settings.data / "blobs" / "uploads"
    give_up_at = time.monotonic() + 10
    while list(left.iterdir()):  # the answer leaves before the folder is tidied
        assert time.monotonic() < give_up_at


def test_the_payload_of_an_event_is_an_artifact_of_its_workspace(host: Any) -> None:
    first = told(host, send(host, cloud("reach-1", data={"x": "y" * 300_000})))
    artifact = first["event"]["raw_ref"]["artifact_id"]
    meta = host.get(f"/api/v1/artifacts/{artifact}").json
    assert (meta["source"], meta["artifact_type"]) == ("event", "raw")
