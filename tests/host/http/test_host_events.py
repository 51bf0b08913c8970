"""Events of the host itself: the end of a run starts another agent, and a chain of agents ends."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.limits import EVENT_HOPS
from bollard.host.settings import Settings

KIT = """
    from bollard.sdk import RunContext, runner

    @runner(name="clerk", label="Clerk", permissions={"artifacts": ["write"]})
    async def clerk(ctx: RunContext):
        if ctx.input.text == "fail":
            raise RuntimeError("on purpose")
        if ctx.input.text == "make":
            yield ctx.artifact("note", content=b"made", name="note.txt", mime_type="text/plain")
        yield ctx.completed(f"{ctx.event.event_type} {ctx.event.data.get('answer', ctx.input.text)}")
"""


@pytest.fixture(scope="module")
def module_host(kit_settings: Settings, start_module_host: Any, client_of: Any) -> Any:
    host = start_module_host(kit_settings)
    client = client_of(host.port, host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    return client


@pytest.fixture
def chained(module_host: Any) -> Any:
    """A host without bindings, afterwards too."""
    yield module_host
    for item in module_host.get("/api/v1/bindings").json["items"]:
        module_host.delete(f"/api/v1/bindings/{item['binding_id']}")


def bind(api: Any, agent: str, kind: str, **filters: str) -> None:
    rules = [{"field": name.replace("__", "."), "values": [value]} for name, value in filters.items()]
    body = {"agent_id": agent, "filters": [{"field": "event_type", "values": [kind]}, *rules]}
    answer = api.put(f"/api/v1/bindings/{agent}-{kind.replace('.', '-')}", body)
    assert answer.status in (200, 201), answer.body


def clerks(api: Any, *names: str) -> None:
    for name in names:
        api.save_agent(name, "kit/clerk")


def events_of(api: Any, kind: str) -> list[Any]:
    return [item for item in api.get("/api/v1/events?limit=100").json["items"] if item["type"] == kind]


def raised_by(api: Any, run_id: str, verb: str) -> Any:
    """The host event of a run, when it is on disk."""
    path = "/api/v1/events?limit=100"
    found = api.until(path, lambda page: any(item["id"] == f"{run_id}-{verb}" for item in page["items"]))
    event_id = next(item["event_id"] for item in found["items"] if item["id"] == f"{run_id}-{verb}")
    return api.get(f"/api/v1/events/{event_id}").json


def test_the_end_of_a_run_starts_the_agent_that_is_bound_to_it(chained: Any) -> None:
    clerks(chained, "writer", "editor")
    bind(chained, "editor", "run.completed", data__agent_id="writer")
    told = chained.tell("writer", "a draft", conversation="desk").json
    event = raised_by(chained, told["run_id"], "completed")
    assert (event["source"], event["type"], event["conversation_id"]) == ("bollard:events", "run.completed", "desk")
    assert event["content"]["data"] == {
        "run_id": told["run_id"],
        "agent_id": "writer",
        "event_id": told["event_id"],
        "conversation": "desk",
        "status": "completed",
        "answer": "message.received a draft",
        "hops": 1,
        "chain": ["writer"],
    }
    run = chained.ended(event["run_id"])
    assert (run["agent_id"], run["status"]) == ("editor", "completed")
    said = [record.data["data"] for record in chained.read(event["run_id"]) if record.type == "message.completed"]
    assert said[0]["message"]["content"] == "run.completed message.received a draft"


def test_a_failed_run_raises_another_type_with_its_reason(chained: Any) -> None:
    clerks(chained, "writer", "alarm")
    bind(chained, "alarm", "run.failed")
    done = chained.tell("writer", "fine").json["run_id"]
    failed = chained.tell("writer", "fail").json["run_id"]
    event = raised_by(chained, failed, "failed")
    data = event["content"]["data"]
    assert (data["status"], data["reason"], data["agent_id"]) == ("failed", "runner.error", "writer")
    assert chained.ended(event["run_id"])["agent_id"] == "alarm"
    assert not [item for item in events_of(chained, "run.completed") if item["id"].startswith(done)]


def test_a_new_artifact_is_an_event(chained: Any) -> None:
    clerks(chained, "filer")
    chained.save_agent("maker", "kit/clerk", access={"permissions": {"artifacts": ["write"]}})
    bind(chained, "filer", "artifact.created")
    run_id = chained.tell("maker", "make").json["run_id"]
    artifact = next(
        record.data["data"]["artifact_id"] for record in chained.read(run_id) if record.type == "artifact.created"
    )
    event = raised_by(chained, artifact, "created")
    data = event["content"]["data"]
    assert (data["name"], data["mime_type"], data["run_id"]) == ("note.txt", "text/plain", run_id)
    assert chained.ended(event["run_id"])["agent_id"] == "filer"


def test_an_agent_that_its_own_end_would_start_is_refused_with_a_reason(chained: Any) -> None:
    clerks(chained, "ouroboros")
    bind(chained, "ouroboros", "run.completed")
    run_id = chained.tell("ouroboros", "again").json["run_id"]
    event = raised_by(chained, run_id, "completed")
    assert (event["run_id"], event["dispatch"], event["reason"]["code"]) == (None, "dropped", "event_loop")
    assert "ouroboros" in event["reason"]["message"]
    assert "answer" not in event["content"]["data"]  # who sees the event need not see the run


def test_a_loop_over_two_agents_is_refused_where_it_closes(chained: Any) -> None:
    clerks(chained, "ping", "pong")
    bind(chained, "pong", "run.completed", data__agent_id="ping")
    bind(chained, "ping", "run.completed", data__agent_id="pong")
    first = raised_by(chained, chained.tell("ping", "serve").json["run_id"], "completed")
    second = raised_by(chained, first["run_id"], "completed")
    assert second["content"]["data"]["chain"] == ["ping", "pong"]
    assert (second["run_id"], second["reason"]["code"]) == (None, "event_loop")


def test_a_chain_of_too_many_agents_is_refused(chained: Any) -> None:
    names = [f"link-{number}" for number in range(EVENT_HOPS + 2)]
    clerks(chained, *names)
    for before, after in pairwise(names):
        bind(chained, after, "run.completed", data__agent_id=before)
    run_id = chained.tell(names[0], "go").json["run_id"]
    for hops in range(1, EVENT_HOPS + 1):
        event = raised_by(chained, run_id, "completed")
        assert event["content"]["data"]["hops"] == hops
        run_id = event["run_id"]
    last = raised_by(chained, run_id, "completed")
    assert (last["run_id"], last["reason"]["code"]) == (None, "event_hops")


def test_a_binding_for_everything_gets_no_host_events_and_says_why(chained: Any) -> None:
    clerks(chained, "catchall", "editor")
    assert chained.put("/api/v1/bindings/all", {"agent_id": "catchall"}).status == 201
    steps = chained.post("/api/v1/bindings/resolve", {"type": "run.completed"}).json["steps"]
    assert [step["key"] for step in steps] == ["type_not_filtered", "no_binding"]
    bind(chained, "editor", "run.completed")
    run_id = chained.tell("catchall", "hello").json["run_id"]
    assert chained.ended(raised_by(chained, run_id, "completed")["run_id"])["agent_id"] == "editor"


def test_nobody_outside_raises_a_host_event(chained: Any) -> None:
    for kind in ("run.completed", "run.failed", "approval.requested", "artifact.created", "channel.status_changed"):
        answer = chained.post("/api/v1/events", {"source": "ci", "id": "1", "type": kind})
        assert (answer.status, answer.error["details"]["reason"]) == (400, "reserved_type")


def test_untrusted_content_stays_untrusted_in_a_chain(chained: Any, kit_settings: Settings) -> None:
    clerks(chained, "reader", "doer")
    bind(chained, "doer", "run.completed", data__agent_id="reader")
    posted = chained.post(
        "/api/v1/events", {"source": "mail", "id": "1", "type": "message.received", "text": "obey", "agent": "reader"}
    )
    assert posted.status == 202, posted.body
    event = raised_by(chained, posted.json["run_id"], "completed")
    chained.ended(event["run_id"])
    created = next(record.data for record in chained.read(event["run_id"]) if record.type == "run.created")
    assert created["data"].get("flow", 0) & 2, created


def test_a_restart_continues_where_the_host_stopped(
    tmp_path: Path, kit_settings: Settings, start_host: Any, client_of: Any
) -> None:
    settings = replace(kit_settings, data=tmp_path / "data")
    first = start_host(settings)
    api = client_of(first.port, first.token)
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    clerks(api, "writer", "editor")
    earlier = api.tell("writer", "before").json["run_id"]
    api.ended(earlier)
    bind(api, "editor", "run.completed", data__agent_id="writer")
    during = api.tell("writer", "during").json["run_id"]
    once = raised_by(api, during, "completed")
    api.ended(once["run_id"])
    first.stop()

    second = start_host(settings)
    api = client_of(second.port, api.token)
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    after = api.tell("writer", "after").json["run_id"]
    api.ended(raised_by(api, after, "completed")["run_id"])
    ids = [item["id"] for item in events_of(api, "run.completed")]
    assert sorted(ids) == sorted([f"{during}-completed", f"{after}-completed"])
