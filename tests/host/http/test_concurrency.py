"""A message during an active run of its conversation: each policy, and the gates before all of them."""

from itertools import count, pairwise
from typing import Any

import pytest

from bollard.host.limits import QUEUED_RUNS_OF_CONVERSATION
from bollard.protocol import AgentRun

ADA, BOB = {"actor": {"id": "ada"}}, {"actor": {"id": "bob"}}
_rooms = count()


@pytest.fixture
def room() -> dict[str, str]:
    """A conversation that no other test has."""
    return {"conversation": f"room-{next(_rooms)}"}


def wait_in(shop: Any, agent: str, room: dict[str, str], **more: Any) -> str:
    """A run that has begun to speak and does not end by itself."""
    run_id = shop.tell(agent, "wait", **room, **more).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    stream.close()
    return run_id


def cancel(shop: Any, run_id: str) -> Any:
    assert shop.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    return shop.ended(run_id)


def run_ids(answers: list[Any]) -> list[str]:
    assert {answer.status for answer in answers} == {202}, [answer.body for answer in answers]
    return [answer.json["run_id"] for answer in answers]


# --- the five policies ---


@pytest.mark.requirement("P09-08")
def test_queue_runs_one_after_the_other_in_the_order_of_arrival(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("line", concurrency={"mode": "queue"})
    first = wait_in(shop, "line", room)
    waiting = run_ids([shop.tell("line", f"number {number}", **room) for number in range(4)])
    elsewhere = shop.ended(shop.tell("line", "not held up", conversation="elsewhere").json["run_id"])
    assert elsewhere["status"] == "completed"
    assert {shop.get(f"/api/v1/runs/{run_id}").json["status"] for run_id in waiting} == {"queued"}
    runs = [cancel(shop, first), *(shop.ended(run_id) for run_id in waiting)]
    assert [run["status"] for run in runs] == ["cancelled", *["completed"] * 4]
    for before, after in pairwise(runs):
        assert before["finished_at"] <= after["started_at"]


def test_a_cancelled_waiting_run_leaves_the_others_in_order(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("line", concurrency={"mode": "queue"})
    first = wait_in(shop, "line", room)
    waiting = run_ids([shop.tell("line", f"number {number}", **room) for number in range(3)])
    assert cancel(shop, waiting[1])["status"] == "cancelled"
    cancel(shop, first)
    runs = [shop.ended(waiting[0]), shop.ended(waiting[2])]
    assert [run["status"] for run in runs] == ["completed", "completed"]
    assert runs[0]["finished_at"] <= runs[1]["started_at"]


@pytest.mark.requirement("P09-03")
def test_steer_puts_messages_into_the_run_in_the_order_of_arrival(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("helm", "workshop/steady", concurrency={"mode": "steer"})
    run_id = shop.tell("helm", "go", **room, **ADA).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    told = [shop.tell("helm", text, **room, **ADA) for text in ("left", "right", "enough")]
    assert [answer.json["run_id"] for answer in told] == [run_id] * 3
    assert told[0].json["steering"] == {"status": "queued", "claimed_by_run_id": run_id}
    rest = list(stream)
    said = [event.data["data"]["chunk"]["content"] for event in stream.seen if event.type == "message.delta"]
    assert said == ["begun: go ", "told: left ", "told: right ", "told: enough "]
    assert rest[-1].data["data"]["status"] == "completed"
    run = AgentRun.from_wire(shop.get(f"/api/v1/runs/{run_id}").json)
    assert run.metadata["steering"] == [
        {"event_id": answer.json["event_id"], "status": "acknowledged"} for answer in told
    ]


@pytest.mark.requirement("P09-06")
def test_a_message_of_another_actor_waits_and_does_not_steer(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("helm", "workshop/steady", concurrency={"mode": "steer"})
    run_id = shop.tell("helm", "go", **room, **ADA).json["run_id"]
    other = shop.tell("helm", "enough", **room, **BOB)
    assert "steering" not in other.json
    assert shop.get(f"/api/v1/runs/{other.json['run_id']}").json["status"] == "queued"
    assert shop.tell("helm", "enough", **room, **ADA).json["run_id"] == run_id
    first, second = shop.ended(run_id), shop.ended(other.json["run_id"])
    assert (first["status"], second["status"]) == ("completed", "completed")
    assert first["finished_at"] <= second["started_at"]


@pytest.mark.requirement("P09-08")
def test_interrupt_stops_the_run_and_starts_the_newest(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("brusque", concurrency={"mode": "interrupt"})
    first = wait_in(shop, "brusque", room)
    second = wait_in(shop, "brusque", room)
    (third,) = run_ids([shop.tell("brusque", "the last word", **room)])
    runs = [shop.ended(run_id) for run_id in (first, second, third)]
    assert [run["status"] for run in runs] == ["cancelled", "cancelled", "completed"]
    for before, after in pairwise(runs):
        assert before["finished_at"] <= after["started_at"]


@pytest.mark.requirement("P09-08")
def test_reject_refuses_in_a_busy_conversation_and_stores_no_event(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("single", concurrency={"mode": "reject"})
    first = wait_in(shop, "single", room, id=f"first-{room['conversation']}")
    refused = shop.tell("single", "me too", **room, id=f"second-{room['conversation']}")
    assert (refused.status, refused.error["code"], bool(refused.error["hint"])) == (409, "conflict", True)
    again = shop.tell("single", "wait", **room, id=f"first-{room['conversation']}")
    assert (again.status, again.json["run_id"], again.json["first"]) == (200, first, False)
    cancel(shop, first)
    later = shop.tell("single", "me too", **room, id=f"second-{room['conversation']}")
    assert (later.status, later.json["first"]) == (202, True)
    assert shop.ended(later.json["run_id"])["status"] == "completed"


@pytest.mark.requirement("P09-08")
def test_parallel_runs_start_concurrently(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("crowd", concurrency={"mode": "parallel"})
    first = wait_in(shop, "crowd", room)
    beside = shop.ended(shop.tell("crowd", "beside", **room).json["run_id"])
    assert beside["status"] == "completed"
    shop.until(f"/api/v1/runs/{first}", lambda run: run["status"] == "running")
    assert cancel(shop, first)["finished_at"] >= beside["finished_at"]


@pytest.mark.requirement("P12-03")
def test_other_agents_and_plugins_do_not_wait_for_a_busy_one(shop: Any, room: dict[str, str]) -> None:
    for name in ("busy", "free"):
        shop.save_agent(name, concurrency={"mode": "queue"})
    first = wait_in(shop, "busy", room)
    (waiting,) = run_ids([shop.tell("busy", "in turn", **room)])
    beside = run_ids([shop.tell(agent, "beside", **room) for agent in ("free", "workshop.locked")])
    assert [shop.ended(run_id)["status"] for run_id in beside] == ["completed", "completed"]
    shop.until(f"/api/v1/runs/{first}", lambda run: run["status"] == "running")
    assert shop.get(f"/api/v1/runs/{waiting}").json["status"] == "queued"
    cancel(shop, first)
    assert shop.ended(waiting)["status"] == "completed"


# --- the gates ---


def test_only_listed_actors_may_talk(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("guarded")
    name = f"early-{room['conversation']}"
    early = shop.tell("guarded", "before", **room, **BOB, id=name)
    shop.save_agent("guarded", gate={"talk": "listed", "actors": ["user:ada", "robot:*"]})
    assert shop.tell("guarded", "hello", **room, **ADA).status == 202
    assert shop.tell("guarded", "hello", **room, actor={"type": "robot", "id": "r2"}).status == 202
    for stranger in (BOB, {}, {"actor": {"type": "user"}}, {"actor": {"type": "user:ada"}}):
        refused = shop.tell("guarded", "hello", **room, **stranger)
        assert (refused.status, refused.error["code"]) == (403, "unauthorized")
        assert "retry-after" not in refused.headers
    again = shop.tell("guarded", "before", **room, **BOB, id=name)
    assert (again.status, again.json["run_id"]) == (200, early.json["run_id"])


@pytest.mark.requirement("P09-06")
def test_a_steering_message_passes_the_same_gate(shop: Any, room: dict[str, str]) -> None:
    policy = {
        "concurrency": {"mode": "steer", "steer_from": "conversation"},
        "gate": {"talk": "listed", "actors": ["user:ada"]},
    }
    shop.save_agent("private", "workshop/steady", **policy)
    run_id = shop.tell("private", "go", **room, **ADA).json["run_id"]
    assert shop.tell("private", "enough", **room, **BOB).status == 403
    assert shop.tell("private", "enough", **room, **ADA).json["run_id"] == run_id
    assert shop.ended(run_id)["status"] == "completed"


def test_a_sender_above_the_rate_gets_a_retry_time(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("patient", gate={"messages_per_minute": 2, "burst": 1})
    name = f"first-{room['conversation']}"
    first = shop.tell("patient", "hello", **room, **ADA, id=name)
    refused = shop.tell("patient", "hello", **room, **ADA)
    assert (refused.status, refused.error["code"], refused.error["retryable"]) == (429, "rate_limited", True)
    wait_s = refused.error["details"]["retry_after_s"]
    assert 0 < wait_s <= 30
    assert wait_s <= int(refused.headers["retry-after"]) <= wait_s + 1
    assert shop.tell("patient", "hello", **room, **BOB).status == 202  # each sender by themselves
    again = shop.tell("patient", "hello", **room, **ADA, id=name)
    assert (again.status, again.json["run_id"]) == (200, first.json["run_id"])


def test_the_runs_of_a_day_are_a_budget(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("frugal", budget={"runs_per_day": 2})
    name = f"first-{room['conversation']}"
    first = shop.tell("frugal", "one", **room, id=name)
    assert shop.tell("frugal", "two", **room).status == 202
    refused = shop.tell("frugal", "three", **room)
    assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 24 * 3600
    again = shop.tell("frugal", "one", **room, id=name)
    assert (again.status, again.json["run_id"]) == (200, first.json["run_id"])
    shop.save_agent("frugal", budget={"runs_per_day": 3})
    assert shop.tell("frugal", "three", **room).status == 202
    assert shop.tell("frugal", "four", **room).status == 429


@pytest.mark.parametrize(
    "alone",
    [
        {"execution": "external", "input": {"text": "mine"}},
        {"input": {"text": "\x01" * 200_000}},  # six bytes each in JSON: more than a pull takes
    ],
    ids=["external", "large"],
)
def test_a_message_that_cannot_steer_counts_in_the_daily_budget(shop: Any, room: dict[str, str], alone: Any) -> None:
    agent = f"frugal-{room['conversation']}"
    shop.save_agent(agent, "workshop/steady", budget={"runs_per_day": 1})
    run_id = wait_in(shop, agent, room, **ADA)
    refused = shop.post("/api/v1/runs", {"agent": agent, **room, **ADA, **alone})
    assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
    assert shop.tell(agent, "enough", **room, **ADA).json["steering"]["claimed_by_run_id"] == run_id


def test_a_new_budget_counts_earlier_runs(shop: Any) -> None:
    shop.save_agent("late")
    assert shop.tell("late", "one").status == 202
    shop.delete("/api/v1/agents/late")
    shop.save_agent("late", budget={"runs_per_day": 1})
    assert shop.tell("late", "two").error["code"] == "budget_exceeded"


def test_concurrent_runs_have_a_budget(shop: Any, room: dict[str, str]) -> None:
    shop.save_agent("narrow", concurrency={"mode": "parallel"}, budget={"runs_at_once": 1})
    first = wait_in(shop, "narrow", room, id=f"first-{room['conversation']}")
    refused = shop.tell("narrow", "beside", **room)
    assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
    assert "retry-after" not in refused.headers  # the time is unknown
    again = shop.tell("narrow", "wait", **room, id=f"first-{room['conversation']}")
    assert (again.status, again.json["run_id"]) == (200, first)
    cancel(shop, first)
    assert shop.tell("narrow", "after", **room).status == 202


# --- the caller's own id ---


def test_the_idempotency_key_of_a_request_equals_its_id(shop: Any) -> None:
    body = {"agent": "parrot", "input": {"text": "once"}}
    first = shop.post("/api/v1/runs", body, idempotency_key="key-1")
    for again in (
        shop.post("/api/v1/runs", body, idempotency_key="key-1"),
        shop.post("/api/v1/runs", {**body, "id": "key-1"}),
        shop.post("/api/v1/runs", {**body, "id": "key-1"}, idempotency_key="key-1"),
    ):
        assert (again.status, again.json) == (200, {**first.json, "first": False})


@pytest.mark.parametrize(("key", "more"), [("a", {"id": "b"}), ("", {}), ("x" * 257, {}), ("caf\xe9", {})])
def test_an_idempotency_key_that_is_invalid_as_an_id_is_refused(shop: Any, key: str, more: Any) -> None:
    answer = shop.post("/api/v1/runs", {"agent": "parrot", "input": {"text": "x"}, **more}, idempotency_key=key)
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (400, "invalid_argument", "id")


@pytest.mark.full
def test_a_conversation_with_a_full_share_delays_no_other(shop: Any, room: dict[str, str], parse_metrics: Any) -> None:
    shop.save_agent("crowd", concurrency={"mode": "queue"})
    first = wait_in(shop, "crowd", room)
    for number in range(QUEUED_RUNS_OF_CONVERSATION):
        assert shop.tell("crowd", f"number {number}", **room).status == 202
    refused = shop.tell("crowd", "one too many", **room)
    assert (refused.status, refused.error["code"], refused.error["details"]["share"]) == (
        429,
        "rate_limited",
        "conversation",
    )
    assert int(refused.headers["retry-after"]) >= 1
    asked = shop.post("/api/v1/bindings/resolve", {"agent": "crowd", "text": "one too many", **room}).json
    assert asked["refused"]["code"] == "rate_limited"
    assert asked["refused"]["message"] == refused.error["message"]
    assert shop.ended(shop.tell("crowd", "not held up", conversation="beside").json["run_id"])["status"] == "completed"
    shown = parse_metrics(shop.get("/metrics").body.decode())["bollard_queue_largest_share_runs"].samples
    assert shown["bollard_queue_largest_share_runs", (("share", "conversation"),)] == QUEUED_RUNS_OF_CONVERSATION
    cancel(shop, first)
    shop.until_health(lambda health: health["runs"]["queued"] == 0)
