"""`POST /runs/{id}/steer`, and the stream of a message that went into a run."""

from itertools import count
from typing import Any

import pytest

ADA, BOB = {"actor": {"id": "ada"}}, {"actor": {"id": "bob"}}
_rooms = count()


@pytest.fixture
def active(shop: Any) -> Any:
    """A run of Ada's that can be steered, and its stream."""
    room = f"steered-{next(_rooms)}"
    run_id = shop.tell("workshop.steady", "go", conversation=room, thread="t", **ADA).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    yield run_id, stream
    shop.post(f"/api/v1/runs/{run_id}/cancel")
    stream.close()


def steer(shop: Any, run_id: str, text: str, **more: Any) -> Any:
    return shop.post(f"/api/v1/runs/{run_id}/steer", {"input": {"text": text}, **more})


def test_a_run_is_steered_by_its_id_as_its_own_actor(shop: Any, active: Any) -> None:
    run_id, stream = active
    answer = steer(shop, run_id, "enough")
    assert (answer.status, answer.json["first"]) == (202, True)
    assert answer.json["steering"] == {"status": "queued", "claimed_by_run_id": run_id}
    assert list(stream)[-1].data["data"]["status"] == "completed"
    assert "told: enough " in [
        event.data["data"]["chunk"]["content"] for event in stream.seen if event.type == "message.delta"
    ]


def test_the_same_message_again_gets_its_first_outcome(shop: Any, active: Any) -> None:
    run_id, _ = active
    first = steer(shop, run_id, "left", id=f"left-{run_id}")
    again = shop.post(f"/api/v1/runs/{run_id}/steer", {"input": {"text": "left"}}, idempotency_key=f"left-{run_id}")
    assert (first.status, again.status) == (202, 200)
    assert again.json == {**first.json, "first": False}
    shop.until(f"/api/v1/runs/{run_id}", lambda run: run["metadata"]["steering"][0]["status"] == "injected")
    assert len(shop.get(f"/api/v1/runs/{run_id}").json["metadata"]["steering"]) == 1


def test_a_message_of_another_actor_gets_a_waiting_run(shop: Any, active: Any) -> None:
    run_id, _ = active
    other = steer(shop, run_id, "enough", **BOB)
    assert (other.status, "steering" in other.json) == (202, False)
    waiting = shop.get(f"/api/v1/runs/{other.json['run_id']}").json
    assert (waiting["status"], waiting["thread_id"]) == ("queued", "t")
    steer(shop, run_id, "enough")
    assert shop.ended(other.json["run_id"])["status"] == "completed"


def test_a_streamed_steering_message_streams_the_run_from_its_position(shop: Any, active: Any) -> None:
    run_id, stream = active
    body = {"agent": "workshop.steady", "input": {"text": "enough"}, **ADA}
    room = shop.get(f"/api/v1/runs/{run_id}").json["conversation_id"]
    steered = shop.create_and_stream({**body, "conversation": room, "thread": "t"})
    assert steered.response.getheader("bollard-run-id") == run_id
    events = list(steered)
    whole = [*stream.seen, *stream]
    assert events == whole[-len(events) :]
    assert events[-1].type == "run.ended"
    assert all(event.type != "run.created" for event in events)


def test_messages_dropped_by_a_cancel_are_visible(shop: Any, active: Any) -> None:
    run_id, _ = active
    steer(shop, run_id, "left", id=f"dropped-{run_id}")
    shop.post(f"/api/v1/runs/{run_id}/cancel")
    (item,) = shop.ended(run_id)["metadata"]["steering"]
    assert (item["status"], item["redispatch"]) == ("dropped", False)
    again = steer(shop, run_id, "left", id=f"dropped-{run_id}")
    assert (again.status, again.json["event_id"], again.json["run_id"]) == (200, item["event_id"], run_id)
    other = steer(shop, run_id, "left", id=f"other-{run_id}")
    assert (other.status, other.error["code"]) == (409, "conflict"), "what is new cannot steer it any more"


def test_a_repeated_message_gets_its_first_outcome_also_after_the_run(shop: Any, active: Any) -> None:
    run_id, _ = active
    key, path = f"enough-{run_id}", f"/api/v1/runs/{run_id}/steer"
    first = shop.post(path, {"input": {"text": "enough"}}, idempotency_key=key)
    shop.ended(run_id)
    again = shop.post(path, {"input": {"text": "enough"}}, idempotency_key=key)
    assert (again.status, again.json) == (200, {**first.json, "first": False})
    other = shop.post(path, {"input": {"text": "something else"}}, idempotency_key=key)
    assert (other.status, other.error["code"]) == (422, "idempotency_mismatch")
    room = shop.get(f"/api/v1/runs/{run_id}").json["conversation_id"]
    assert len(shop.get(f"/api/v1/runs?conversation={room}").json["items"]) == 1, "there is no second one"


def test_a_run_that_cannot_be_steered_gives_a_reason(shop: Any) -> None:
    lonely = shop.tell("workshop.steady", "go").json["run_id"]
    ended = shop.tell("parrot", "done", conversation="not-steered").json["run_id"]
    shop.read(ended)
    first = shop.tell("parrot", "wait", conversation="not-steered").json["run_id"]
    queued = shop.tell("parrot", "later", conversation="not-steered").json["run_id"]
    reasons = {
        lonely: "the run has no conversation",
        ended: "the run is not active",
        queued: "the run is not active",
        first: "the run takes no messages",
    }
    shop.until(f"/api/v1/runs/{first}", lambda run: run["status"] == "running")
    for run_id, reason in reasons.items():
        answer = steer(shop, run_id, "left")
        assert (answer.status, answer.error["code"], answer.error["message"]) == (409, "conflict", reason)
        assert answer.error["hint"]
        assert answer.error["details"]["status"] == shop.get(f"/api/v1/runs/{run_id}").json["status"]
    for run_id in (lonely, queued, first):
        shop.post(f"/api/v1/runs/{run_id}/cancel")


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "input"), ({"input": "x"}, "input"), ({"input": {}, "agent": "a"}, "agent"), ({"input": {}, "id": ""}, "id")],
)
def test_an_invalid_steering_message_is_refused(shop: Any, active: Any, body: Any, field: str) -> None:
    answer = shop.post(f"/api/v1/runs/{active[0]}/steer", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)


def test_a_runner_that_abandons_its_pulls_gets_every_message_once(shop: Any) -> None:
    room = f"steered-{next(_rooms)}"
    run_id = shop.tell("workshop.hasty", "go", conversation=room, **ADA).json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    sent = [f"m{number}" for number in range(60)] + ["enough"]
    for text in sent:
        assert "steering" in steer(shop, run_id, text).json
    events = list(stream)
    assert events[-1].data["data"]["status"] == "completed"
    (told,) = [event.data["data"]["message"]["content"] for event in events if event.type == "message.completed"]
    assert told.split() == sent
    assert sum(event.type == "steering.acknowledged" for event in events) == len(sent)
