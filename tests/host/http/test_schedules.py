"""Schedules over HTTP: saved, previewed, fired by the host and by people, and proposed by agents with an approval."""

import json
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.settings import Settings

TOOLER = """
    import json
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Tooler", permissions={"tools": ["detail", "call"]})
    async def tooler(ctx: RunContext):
        told = []
        for name, arguments in json.loads(ctx.input.text):
            try:
                result = await ctx.api.tools.call(name, arguments)
            except AgentAPIException as refusal:
                told.append({"refused": refusal.error.code})
            else:
                told.append(result.to_wire())
        yield ctx.completed(json.dumps(told))
"""


def save(api: Any, schedule_id: str, **body: Any) -> Any:
    answer = api.put(f"/api/v1/schedules/{schedule_id}", {"agent_id": "parrot", "text": "hello", **body})
    assert answer.status in (200, 201), answer.body
    return answer.json


def soon(seconds: float = 1.5) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def test_a_schedule_is_saved_shown_listed_changed_and_deleted(api: Any) -> None:
    saved = save(api, "news", cron="0 9 * * 1-5", zone="Asia/Shanghai")
    assert (saved["revision"], len(saved["next"])) == (1, 5)
    assert all(instant.endswith("T09:00:00+08:00") for instant in saved["next"])
    shown = api.get("/api/v1/schedules/news").json
    assert shown == saved
    assert [item["schedule_id"] for item in api.get("/api/v1/schedules").json["items"]] == ["news"]
    again = api.put("/api/v1/schedules/news", {**shown, "paused": True})  # an answer can be saved again
    assert (again.status, again.json["paused"], again.json["next"]) == (200, True, [])
    assert api.put("/api/v1/schedules/news", shown).status == 409
    assert api.delete("/api/v1/schedules/news").json == {"schedule_id": "news", "deleted": True}
    assert api.get("/api/v1/schedules/news").status == 404


def test_a_list_of_schedules_has_pages(api: Any) -> None:
    for name in ("a", "b"):
        save(api, name, every_s=3600)
    first = api.get("/api/v1/schedules?limit=1").json
    second = api.get(f"/api/v1/schedules?limit=1&cursor={first['next_cursor']}").json
    assert [item["schedule_id"] for item in (*first["items"], *second["items"])] == ["a", "b"]
    assert second["has_more"] is False
    for name in ("a", "b"):
        api.delete(f"/api/v1/schedules/{name}")


@for_each(
    "reason, body",
    (
        ("schedule_cron_never", {"cron": "0 0 31 2 *"}),
        ("schedule_zone", {"cron": "0 0 * * *", "zone": "Mars/Olympus"}),
        ("invalid_field", {"every_s": 1}),
        ("schedule_past", {"at": "2020-01-01T00:00:00Z"}),
        ("schedule_until", {"every_s": 60, "start": "2027-01-02", "until": "2027-01-01"}),
        ("schedule_event_type", {"every_s": 60, "event_type": "approval.decided"}),
        ("schedule_data", {"every_s": 60, "data": {"planned_at": "now"}}),
        ("schedule_jitter", {"every_s": 60, "jitter_s": 60}),
        ("invalid_field", {"every_s": 60, "reply_target": "nowhere"}),
        ("data_too_deep", {"every_s": 60, "data": json.loads('{"a":' * 60 + "1" + "}" * 60)}),
        ("text_too_long", {"every_s": 60, "text": "é" * 200_000}),
    ),
)
def test_a_bad_schedule_is_refused_and_changes_nothing(api: Any, reason: str, body: dict[str, Any]) -> None:
    save(api, "kept", every_s=3600)
    before = api.get("/api/v1/schedules/kept").json
    answer = api.put("/api/v1/schedules/kept", {"agent_id": "parrot", **body})
    assert (answer.status, answer.error["details"]["reason"]) == (400, reason)
    assert api.get("/api/v1/schedules/kept").json["revision"] == before["revision"]
    api.delete("/api/v1/schedules/kept")


def test_a_preview_saves_nothing(api: Any) -> None:
    body = {"cron": "30 2 * * *", "zone": "America/New_York", "start": "2027-03-13"}
    found = api.post("/api/v1/schedules/preview", body).json["next"]
    assert found[:2] == ["2027-03-13T02:30:00-05:00", "2027-03-14T03:00:00-04:00"]
    assert api.post("/api/v1/schedules/preview", {"cron": "0 0 31 2 *"}).status == 400
    assert api.get("/api/v1/schedules").json["items"] == []


def test_a_tick_starts_a_run_with_the_text_and_the_data(api: Any) -> None:
    save(api, "once", at=soon(), text="wake up", data={"colour": "red"}, conversation="dawn")
    shown = api.until("/api/v1/schedules/once", lambda schedule: "last" in schedule)
    assert shown["last"]["outcome"] == "started"
    assert shown["next"] == []
    run = api.ended(shown["last"]["run_id"])
    assert (run["status"], run["conversation_id"]) == ("completed", "dawn")
    event = api.get(f"/api/v1/events/{shown['last']['event_id']}").json
    assert (event["type"], event["source"]) == ("schedule.triggered", "bollard:schedules/once")
    data = event["content"]["data"]
    assert (data["colour"], data["schedule_id"]) == ("red", "once")
    assert data["planned_at"] == shown["last"]["planned_at"] == event["id"]
    api.delete("/api/v1/schedules/once")


def test_a_person_fires_a_paused_schedule_and_its_ticks_stay(api: Any) -> None:
    save(api, "idle", every_s=3600, paused=True)
    fired = api.post("/api/v1/schedules/idle/fire")
    assert fired.status == 202
    assert api.ended(fired.json["run_id"])["status"] == "completed"
    assert "last" not in api.get("/api/v1/schedules/idle").json
    assert api.post("/api/v1/schedules/idle/fire").json["run_id"] != fired.json["run_id"]
    assert api.post("/api/v1/schedules/nothing/fire").status == 404
    api.delete("/api/v1/schedules/idle")


def test_a_schedule_of_a_missing_agent_shows_its_problem(api: Any) -> None:
    save(api, "lost", at=soon(), agent_id="nobody")
    shown = api.until("/api/v1/schedules/lost", lambda schedule: "problem" in schedule)
    assert shown["problem"]["details"]["reason"] == "no_agent"
    api.delete("/api/v1/schedules/lost")


def test_a_binding_chooses_the_agent_and_the_answer_goes_to_the_reply_target(api: Any) -> None:
    binding = {"agent_id": "parrot", "filters": [{"field": "event_type", "values": ["report.due"]}]}
    assert api.put("/api/v1/bindings/reports", binding).status == 201
    answer = api.put(
        "/api/v1/schedules/report",
        {"every_s": 3600, "event_type": "report.due", "text": "hello you", "reply_target": "nowhere:ops:1"},
    )
    assert answer.status == 201, answer.body
    run = api.post("/api/v1/schedules/report/fire").json["run_id"]
    assert api.ended(run)["status"] == "completed"
    sent = api.until("/api/v1/deliveries?channel=nowhere", lambda page: page["items"])["items"]
    assert [(item["run_id"], item["target"]) for item in sent] == [(run, "ops:1")]
    for path in ("schedules/report", "bindings/reports"):
        api.delete(f"/api/v1/{path}")


def test_an_event_from_outside_cannot_take_the_id_of_a_tick(api: Any) -> None:
    event = {"source": "bollard:schedules/once", "id": "2030-01-01T00:00:00.000Z", "type": "schedule.triggered"}
    answer = api.post("/api/v1/events", event)
    assert (answer.status, answer.error["details"]["reason"]) == (400, "reserved_source")


def test_schedules_and_their_last_ticks_outlive_a_restart(
    start_host: Any, settings: Any, client_of: Any, tmp_path: Path
) -> None:
    own = replace(settings, data=tmp_path / "restarted", database="")
    host = start_host(own)
    api = client_of(host.port, host.token)
    api.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    save(api, "once", at=soon())
    last = api.until("/api/v1/schedules/once", lambda schedule: "last" in schedule)["last"]
    host.stop()
    again = start_host(own)
    api = client_of(again.port, host.token)
    shown = api.get("/api/v1/schedules/once").json
    assert (shown["last"], shown["next"]) == (last, [])


# --- schedules of agents ---


@pytest.fixture(scope="module")
def tooler(start_module_host: Any, client_of: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    plugin: Path = tmp_path_factory.mktemp("plugins") / "tooler.py"
    plugin.write_text(textwrap.dedent(TOOLER), encoding="utf-8")
    settings = Settings(
        data=tmp_path_factory.mktemp("data"), plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5
    )
    host = start_module_host(settings)
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["tooler"]["status"] == "ready")
    tools = {"tools": {"add": ["tool:builtin/schedule_preview", "tool:builtin/schedule_create"]}}
    client.save_agent(
        "tooler", "tooler/default", access={"permissions": {"tools": ["detail", "call"]}, "resources": tools}
    )
    return client


def propose(client: Any, **arguments: Any) -> tuple[Any, Any]:
    """The run, and the approval that it waits for."""
    asked = {"schedule_id": "daily", "text": "report", "cron": "0 9 * * *", **arguments}
    run = client.tell("tooler", json.dumps([["schedule_create", asked]]), conversation="room").json["run_id"]
    pages = client.until("/api/v1/approvals", lambda page: any(i["run_id"] == run for i in page["items"]))
    found = next(item for item in pages["items"] if item["run_id"] == run)
    return run, client.get(f"/api/v1/approvals/{found['approval_id']}").json


def test_an_agent_proposes_a_schedule_and_a_person_approves_its_instants(tooler: Any) -> None:
    timing = {"cron": "0 9 * * *"}
    first = tooler.tell("tooler", json.dumps([["schedule_preview", timing]])).json["run_id"]
    message = next(event for event in tooler.read(first) if event.type == "message.completed")
    instants = json.loads(_text_of(message))[0]["structured"]["next"]
    run, approval = propose(tooler, next=instants)
    lines = [line["text"] for line in approval["display"]["lines"]]
    assert all(json.dumps(instant) in lines for instant in instants)
    assert tooler.get("/api/v1/schedules").json["items"] == []
    _approve(tooler, approval)
    assert tooler.ended(run)["status"] == "completed"
    saved = tooler.get("/api/v1/schedules/daily").json
    assert (saved["agent_id"], saved["conversation"], saved["proposed_by"]) == ("tooler", "room", run)
    assert saved["next"] == instants
    tooler.delete("/api/v1/schedules/daily")


def test_a_proposed_schedule_with_other_instants_than_the_approved_ones_is_not_saved(tooler: Any) -> None:
    run, approval = propose(tooler, next=["2030-01-01T10:00:00+00:00"])
    _approve(tooler, approval)
    assert tooler.ended(run)["status"] == "completed"
    assert tooler.get("/api/v1/schedules").json["items"] == []


def _approve(client: Any, approval: Any) -> None:
    body = {"decision": "allow_once", "digest": approval["digest"]}
    answer = client.post(f"/api/v1/approvals/{approval['approval_id']}/decide", body)
    assert answer.status == 200, answer.body


def _text_of(event: Any) -> str:
    return event.data["data"]["message"]["content"]
