"""Runs over HTTP, with real sockets, workers and disks: create, read, stream, resume, cancel."""

import threading
from typing import Any
from urllib.parse import quote

import pytest
from tests.tables import for_each

from bollard.protocol import AgentRun, AgentRunRecord


def texts(events: list[Any]) -> str:
    return "".join(event.data["data"]["chunk"]["content"] for event in events if event.type == "message.delta")


def test_a_run_is_created_and_read_back(api: Any) -> None:
    answer = api.post("/api/v1/runs", {"agent": "parrot", "input": {"text": "hello there"}, "conversation": "room"})
    assert answer.status == 202
    assert answer.json["first"] is True
    run_id = answer.json["run_id"]
    events = api.read(run_id)
    assert texts(events) == "hello there "
    run = AgentRun.from_wire(api.get(f"/api/v1/runs/{run_id}").json)
    assert (run.status, run.agent_id, run.conversation_id) == ("completed", "parrot", "room")
    assert run.finished_at is not None


@pytest.mark.requirement("P05-27")
def test_a_run_is_streamed_on_its_creation(api: Any) -> None:
    stream = api.create_and_stream({"agent": "parrot", "input": {"text": "one two three"}})
    run_id = stream.response.getheader("bollard-run-id")
    events = list(stream)
    assert stream.response.getheader("content-type") == "text/event-stream; charset=utf-8"
    assert [event.id for event in events] == [f"1.{seq}" for seq in range(1, len(events) + 1)]
    assert [event.data["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "run.ended"
    for event in events:
        assert AgentRunRecord.from_wire(event.data).run_id == run_id
    assert api.read(run_id) == events


def test_the_same_id_gets_the_same_run(api: Any) -> None:
    body = {"agent": "parrot", "input": {"text": "once"}, "id": "my-own-id"}
    first, again = api.post("/api/v1/runs", body), api.post("/api/v1/runs", body)
    assert (first.status, again.status) == (202, 200)
    assert again.json == {**first.json, "first": False}
    streamed = list(api.create_and_stream(body))
    assert streamed == api.read(first.json["run_id"])


def test_runs_are_listed_newest_first_page_by_page(api: Any) -> None:
    runs = [api.say(str(number), conversation="listed") for number in range(7)]
    found: list[str] = []
    path = "/api/v1/runs?limit=3&conversation=listed"
    cursor = ""
    while True:
        page = api.get(path + cursor).json
        found.extend(item["run_id"] for item in page["items"])
        if not page["has_more"]:
            assert "next_cursor" not in page
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(found) == sorted(runs)
    for run_id in runs:
        api.read(run_id)
    done = api.get("/api/v1/runs?conversation=listed&status=completed").json
    assert len(done["items"]) == 7
    assert api.get("/api/v1/runs?agent=nobody").json["items"] == []


@pytest.mark.requirement("P05-33")
def test_a_changed_cursor_is_refused(api: Any) -> None:
    for _ in range(2):
        api.say("x", conversation="cursors")
    cursor = api.get("/api/v1/runs?limit=1&conversation=cursors").json["next_cursor"]
    for changed in (cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB"), cursor[1:], "nonsense", "A" * 600):
        answer = api.get(f"/api/v1/runs?limit=1&cursor={changed}")
        assert (answer.status, answer.error["details"]["field"]) == (400, "cursor")
        assert answer.error["hint"]


@for_each("limit", ["0", "101", "-1", "x", "1.5", "000000099999", "9" * 5000, "٣"])
def test_a_limit_out_of_range_is_refused(api: Any, limit: str) -> None:
    answer = api.get(f"/api/v1/runs?limit={quote(limit)}")
    assert (answer.status, answer.error["details"]["field"]) == (400, "limit")


def test_records_are_paged(api: Any) -> None:
    run_id = api.say("a b c")
    events = api.read(run_id)
    records: list[Any] = []
    while True:
        after = records[-1]["seq"] if records else 0
        page = api.get(f"/api/v1/runs/{run_id}/records?limit=2&after={after}").json
        records.extend(page["items"])
        if not page["has_more"]:
            break
    durable = [event.data for event in events if event.type != "message.delta"]
    assert [record["seq"] for record in records] == [record["seq"] for record in durable]
    for record, event in zip(records, durable, strict=True):
        assert (record["type"], record["data"]) == (event["type"], event["data"])
    wrong = api.get(f"/api/v1/runs/{run_id}/records?after=x")
    assert (wrong.status, wrong.error["details"]["field"]) == (400, "after")


# --- streams ---


def test_a_stream_resumes_after_every_id(api: Any) -> None:
    run_id = api.say("one two three four")
    whole = api.read(run_id)
    for index, event in enumerate(whole):
        assert api.read(run_id, event.id) == whole[index + 1 :]
    (gap,) = api.read(run_id, "1.99999")
    assert (gap.type, gap.data["data"]["reason"]) == ("gap", "unknown")


@for_each("last", ["x", "1", "1.-1", "1.99999999999999999999", "." * 100])
def test_a_cursor_of_another_form_is_refused(api: Any, last: str) -> None:
    run_id = api.say("hello")
    answer = api.get(f"/api/v1/runs/{run_id}/stream", last_event_id=last)
    assert answer.status == 400
    assert answer.error["hint"]


def test_two_readers_of_a_live_run_see_the_same_records(api: Any) -> None:
    run_id = api.say("wait")
    one, two = api.stream(run_id), api.stream(run_id)
    one.until("message.delta")
    two.until("message.delta")
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    rest = [list(one), list(two)]
    assert rest[0] == rest[1]
    assert one.seen == two.seen
    assert one.seen[-1].data["data"]["status"] == "cancelled"


def test_a_reader_that_disconnects_is_removed_and_the_run_continues(api: Any) -> None:
    api.until_health(lambda health: health["readers"] == 0)
    stream = api.create_and_stream({"agent": "parrot", "input": {"text": "wait"}})
    run_id = stream.response.getheader("bollard-run-id")
    last = stream.until("message.delta")
    stream.close()
    api.until_health(lambda health: health["readers"] == 0)
    assert api.get(f"/api/v1/runs/{run_id}").json["status"] in ("dispatching", "running")
    resumed = api.stream(run_id, last.id)
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    rest = list(resumed)
    assert rest[0].data["seq"] == last.data["seq"] + 1
    assert rest[-1].type == "run.ended"


def test_a_slow_reader_is_cut_with_a_cursor_and_the_run_does_not_wait(api: Any) -> None:
    stream = api.create_and_stream({"agent": "parrot", "input": {"text": "flood"}})
    run_id = stream.response.getheader("bollard-run-id")
    whole = api.read(run_id)  # another reader keeps up, and the run ends while the first does not read
    assert whole[-1].data["data"]["status"] == "completed"
    seen = list(stream)
    gap = seen.pop()
    assert (gap.type, gap.id, gap.data["data"]["reason"]) == ("gap", None, "behind")
    assert seen == whole[: len(seen)]
    assert len(seen) < len(whole)
    assert [*seen, *api.read(run_id, seen[-1].id)] == whole


# --- cancelling ---


def test_a_run_is_cancelled_once(api: Any) -> None:
    run_id = api.say("wait")
    stream = api.stream(run_id)
    stream.until("message.delta")
    answer = api.post(f"/api/v1/runs/{run_id}/cancel")
    assert (answer.status, answer.json["cancelling"]) == (202, True)
    list(stream)
    run = api.get(f"/api/v1/runs/{run_id}").json
    assert (run["status"], run["status_reason"]) == ("cancelled", "cancelled")
    again = api.post(f"/api/v1/runs/{run_id}/cancel")
    assert (again.status, again.error["code"]) == (409, "conflict")
    assert again.error["details"]["status"] == "cancelled"


@pytest.mark.requirement("P08-19")
def test_a_worker_crash_ends_the_run_and_the_next_run_works(api: Any) -> None:
    run_id = api.say("die")
    ended = api.read(run_id)[-1].data["data"]
    assert ended["code"] == "runner.crashed"
    run = api.get(f"/api/v1/runs/{run_id}").json
    assert run["error"] == {"code": "runner.crashed", "message": ended["error"], "details": {}}
    assert "the worker ended while the run was active" in run["error"]["message"]
    well = api.say("still here")
    assert texts(api.read(well)) == "still here "
    assert "error" not in api.get(f"/api/v1/runs/{well}").json


def test_many_concurrent_clients_all_get_their_complete_run(api: Any) -> None:
    problems: list[str] = []

    def chat(number: int) -> None:
        for turn in range(5):
            text = f"client {number} turn {turn} "
            events = list(api.create_and_stream({"agent": "parrot", "input": {"text": text}}))
            if texts(events) != text or events[-1].type != "run.ended":
                problems.append(text)

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []


# --- events ---


def test_an_event_starts_a_run_and_a_duplicate_gets_the_same_run(api: Any) -> None:
    body = {
        "source": "github",
        "id": "delivery-1",
        "type": "webhook.received",
        "agent": "parrot",
        "text": "pushed",
        "time": 1700000000.5,
        "subject_type": "repo",
        "subject_id": "7",
        "actor": {"type": "user", "id": "u1", "name": "Ada"},
        "data": {"ref": "main"},
    }
    first, again = api.post("/api/v1/events", body), api.post("/api/v1/events", body)
    assert (first.status, again.status) == (202, 200)
    assert again.json["run_id"] == first.json["run_id"]
    assert api.read(first.json["run_id"])[-1].data["data"]["status"] == "completed"
    silent = api.post("/api/v1/events", {**body, "id": "delivery-2", "text": ""})
    assert api.read(silent.json["run_id"])[-1].data["data"]["status"] == "completed"


def test_unusual_text_is_stored_unchanged(api: Any) -> None:
    text = "nul\x00 quote' \U0001f600 汉字 \u2028"
    run_id = api.say(text, conversation="odd' \U0001f600 汉字 \u2028")
    events = api.read(run_id)
    assert texts(events).split() == text.split()
    assert events[-1].data["data"]["status"] == "completed"


def test_agents_are_listed(api: Any) -> None:
    (agent,) = api.get("/api/v1/agents").json["items"]
    assert (agent["agent_id"], agent["runner_id"]) == ("parrot", "plugin:local/parrot/default")
