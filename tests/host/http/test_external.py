"""A run that a program outside executes: created, its results appended, finalized, each as often as one likes."""

from itertools import count
from typing import Any

import pytest

_numbers = count()


class Program:
    """Executes one run over HTTP."""

    def __init__(self, shop: Any, **more: Any) -> None:
        self.shop = shop
        self.body = {"agent": "parrot", "input": {"text": "do it"}, "execution": "external", **more}
        self.answer = shop.post("/api/v1/runs", self.body)
        self.run_id = self.answer.json["run_id"]
        self.token = self.answer.json.get("run_token")

    def post(self, path: str, body: Any, token: str | None = None) -> Any:
        return self.shop.post(f"/api/v1/runs/{self.run_id}/{path}", body, token=token or self.token)

    def append(self, *results: Any, **more: Any) -> Any:
        return self.post("results", {"results": list(results)}, **more)

    def finalize(self, **body: Any) -> Any:
        return self.post("finalize", body)


def delta(sequence: int, text: str) -> dict[str, Any]:
    return {"sequence": sequence, "type": "message.delta", "data": {"chunk": {"role": "assistant", "content": text}}}


@pytest.fixture
def program(shop: Any) -> Any:
    program = Program(shop)
    yield program
    shop.post(f"/api/v1/runs/{program.run_id}/cancel")


def test_a_program_appends_results_and_finalizes(shop: Any, program: Any) -> None:
    assert program.answer.status == 202
    stream = shop.stream(program.run_id)
    assert program.append(delta(1, "one "), delta(2, "two ")).json["last_sequence"] == 2
    assert program.append(delta(3, "three")).json == {"run_id": program.run_id, "last_sequence": 3}
    ended = program.finalize(finish_reason="stop")
    assert (ended.status, ended.json) == (200, {"run_id": program.run_id, "status": "completed"})
    events = list(stream)
    said = [event.data["data"]["chunk"]["content"] for event in events if event.type == "message.delta"]
    assert said == ["one ", "two ", "three"]
    message = next(event for event in events if event.type == "message.completed")
    assert message.data["data"]["message"]["content"] == "one two three"
    issued = next(event for event in events if event.type == "token.issued")
    assert issued.data["data"]["purpose"] == "external"
    assert program.token not in str([event.data for event in events])


def test_a_repeated_append_or_finalize_gets_the_same_answer(program: Any) -> None:
    program.append(delta(1, "one"), delta(2, "two"))
    again = program.append(delta(1, "one"), delta(2, "two"), delta(3, "three"))
    assert (again.status, again.json["last_sequence"]) == (200, 3)
    other = program.append(delta(2, "something else"))
    assert (other.status, other.error["code"], other.error["details"]["sequence"]) == (409, "conflict", 2)
    message = {"role": "assistant", "content": "done"}
    first, second = program.finalize(message=message), program.finalize(message=message)
    assert (first.status, second.status) == (200, 200)
    assert first.json == second.json
    for differing in ({}, {"message": {**message, "content": "not"}}, {"code": "runner.error", "error": "no"}):
        refused = program.finalize(**differing)
        assert (refused.status, refused.error["details"]["status"]) == (409, "completed")
    late = program.append(delta(3, "three"))
    assert (late.status, late.error["code"]) == (409, "conflict")


def test_a_program_can_fail(shop: Any, program: Any) -> None:
    failed = program.finalize(code="runner.error", error="it broke", retryable=True)
    assert failed.json == {"run_id": program.run_id, "status": "failed", "code": "runner.error", "error": "it broke"}
    assert program.finalize(code="runner.error", error="it broke", retryable=True).json == failed.json
    assert shop.get(f"/api/v1/runs/{program.run_id}").json["status_reason"] == "runner.error"


def test_a_run_without_an_answer_fails_with_no_output(program: Any) -> None:
    ended = program.finalize()
    assert (ended.status, ended.json["status"], ended.json["code"]) == (200, "failed", "runner.no_output")
    assert program.finalize().json == ended.json


def test_the_same_request_again_gets_the_same_run_and_a_working_token(shop: Any) -> None:
    name = f"external-{next(_numbers)}"
    first, again = Program(shop, id=name), Program(shop, id=name)
    assert (again.answer.status, again.run_id, again.answer.json["first"]) == (200, first.run_id, False)
    assert first.append(delta(1, "a")).status == 200
    assert again.append(delta(2, "b")).status == 200
    first.finalize()
    assert "run_token" not in Program(shop, id=name).answer.json


def test_a_waiting_run_gets_its_token_when_it_starts(shop: Any) -> None:
    room = f"external-{next(_numbers)}"
    first = Program(shop, conversation=room)
    waiting = Program(shop, conversation=room, id=room)
    assert waiting.token is None
    early = waiting.append(delta(1, "early"), token=shop.token)
    assert (early.status, early.error["details"]["status"]) == (409, "queued")
    assert waiting.post("finalize", {}, token=shop.token).error["details"]["status"] == "queued"
    first.finalize(message={"role": "assistant", "content": "first"})
    shop.until(f"/api/v1/runs/{waiting.run_id}", lambda run: run["status"] == "running")
    begun = Program(shop, conversation=room, id=room)
    assert begun.run_id == waiting.run_id
    assert begun.append(delta(1, "now")).status == 200
    assert begun.finalize().json["status"] == "completed"


def test_a_waiting_run_without_an_id_is_found_by_its_generated_id(shop: Any) -> None:
    room = f"external-{next(_numbers)}"
    first = Program(shop, conversation=room)
    assert "id" not in first.answer.json, "who has the token needs nothing else"
    waiting = Program(shop, conversation=room)
    assert waiting.token is None
    first.finalize(message={"role": "assistant", "content": "first"})
    shop.until(f"/api/v1/runs/{waiting.run_id}", lambda run: run["status"] == "running")
    begun = Program(shop, conversation=room, id=waiting.answer.json["id"])
    assert (begun.answer.status, begun.run_id) == (200, waiting.run_id)
    assert begun.finalize(message={"role": "assistant", "content": "second"}).json["status"] == "completed"


def test_an_id_belongs_to_one_kind_of_execution(shop: Any) -> None:
    key = f"external-{next(_numbers)}"
    body = {"agent": "parrot", "input": {"text": "do it"}}
    for first, other in (("worker", "external"), ("external", "worker")):
        asked = [{**body, "execution": how} for how in (first, other, first)]
        made, refused, again = (shop.post("/api/v1/runs", each, idempotency_key=f"{key}-{first}") for each in asked)
        assert (made.status, again.status, again.json["run_id"]) == (202, 200, made.json["run_id"])
        assert (refused.status, refused.error["code"]) == (422, "idempotency_mismatch")


def test_results_with_a_secret_may_be_repeated(shop: Any) -> None:
    assert shop.put("/api/v1/secrets/external", {"value": "a-secret-of-the-program"}).status in (200, 201)
    program = Program(shop)
    for _ in range(2):
        assert program.append(delta(1, "it is a-secret-of-the-program")).json["last_sequence"] == 1
    message = {"role": "assistant", "content": "it is a-secret-of-the-program"}
    first, again = program.finalize(message=message), program.finalize(message=message)
    assert (first.status, first.json["status"]) == (200, "completed")
    assert (again.status, again.json) == (200, first.json)
    other = program.finalize(message={**message, "content": "it is another"})
    assert (other.status, other.error["code"]) == (409, "conflict")


def test_an_external_run_takes_no_steering_messages(shop: Any) -> None:
    room = f"external-{next(_numbers)}"
    ada = {"agent": "workshop.steady", "conversation": room, "actor": {"id": "ada"}}
    program = Program(shop, **ada)
    steered = shop.post(f"/api/v1/runs/{program.run_id}/steer", {"input": {"text": "enough"}})
    assert (steered.status, steered.error["message"]) == (409, "the run takes no messages")
    beside = shop.post("/api/v1/runs", {**ada, "input": {"text": "enough"}})
    assert (beside.status, "steering" in beside.json) == (202, False)
    assert beside.json["run_id"] != program.run_id
    assert program.finalize(message={"role": "assistant", "content": "done"}).status == 200
    assert shop.ended(beside.json["run_id"])["status"] == "completed"


# --- rights ---


def test_a_run_token_opens_its_own_run_only(shop: Any, program: Any) -> None:
    other = Program(shop)
    absent = [
        shop.post(f"/api/v1/runs/run_absent/{path}", body, token=token)
        for path, body in (("results", {"results": [delta(1, "x")]}), ("finalize", {}))
        for token in (shop.token, program.token, "nonsense")
    ]
    wrong = [
        program.post(path, body, token=token)
        for path, body in (("results", {"results": [delta(1, "x")]}), ("finalize", {}))
        for token in (other.token, "nonsense", program.token[:-1], f"{program.token}A", "x" * 5000, "\xff")
    ]
    assert {answer.status for answer in absent + wrong} == {404}
    assert len({answer.body for answer in absent + wrong}) == 1
    for path in ("", "/records", "/stream", "/grant", "/explain"):
        assert shop.get(f"/api/v1/runs/{program.run_id}{path}", token=program.token).status == 401
    assert shop.post(f"/api/v1/runs/{program.run_id}/cancel", token=program.token).status == 401
    assert program.append(delta(1, "x")).status == 200
    assert other.finalize(code="runner.error", error="done").status == 200


def test_the_admin_token_opens_every_external_run_but_no_worker_run(shop: Any, program: Any) -> None:
    assert program.append(delta(1, "x"), token=shop.token).status == 200
    worker = shop.tell("parrot", "wait").json["run_id"]
    shop.until(f"/api/v1/runs/{worker}", lambda run: run["status"] == "running")
    for path, body in (("results", {"results": [delta(1, "x")]}), ("finalize", {})):
        answer = shop.post(f"/api/v1/runs/{worker}/{path}", body)
        assert (answer.status, answer.error["code"]) == (403, "unauthorized")
    shop.post(f"/api/v1/runs/{worker}/cancel")
    done = shop.tell("parrot", "done").json["run_id"]
    shop.read(done)
    assert shop.post(f"/api/v1/runs/{done}/finalize", {"finish_reason": "end"}).status == 403


def test_a_stopped_run_accepts_no_results(shop: Any, program: Any) -> None:
    assert shop.post(f"/api/v1/runs/{program.run_id}/cancel").status == 202
    assert shop.ended(program.run_id)["status"] == "cancelled"
    for answer in (program.append(delta(1, "x")), program.finalize()):
        assert (answer.status, answer.error["details"]["status"]) == (409, "cancelled")


def test_results_dropped_because_of_the_write_limit_are_not_acknowledged(shop: Any) -> None:
    shop.save_agent("brief", budget={"run_output_mib": 1})
    program = Program(shop, agent="brief")
    half = "x" * 500_000
    assert program.append(delta(1, half), delta(2, half)).json["last_sequence"] == 2
    beyond = program.append(delta(3, half), delta(4, half))
    assert (beyond.status, beyond.error["code"]) == (409, "conflict")
    assert shop.ended(program.run_id)["status_reason"] == "runner.output_too_large"


def test_an_ungranted_result_has_no_effect_and_leaves_a_record(shop: Any, program: Any) -> None:
    data = {"scope": "conversation", "key": "k", "value": 1}
    assert program.append({"sequence": 1, "type": "state.updated", "data": data}).status == 200
    program.finalize(message={"role": "assistant", "content": "done"})
    types = [record["type"] for record in shop.get(f"/api/v1/runs/{program.run_id}/records").json["items"]]
    assert "result.rejected" in types
    assert "state.updated" not in types


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("results", {}, "results"),
        ("results", {"results": []}, "results"),
        ("results", {"results": [{"type": "x", "data": {}}]}, "results.0.sequence"),
        ("results", {"results": [{"sequence": 0, "type": "x", "data": {}}]}, "results.0.sequence"),
        ("results", {"results": [{"sequence": 1, "type": "x", "data": []}]}, "results.0.data"),
        ("results", {"results": [delta(1, "x")] * 257}, "results"),
        ("results", {"results": [delta(2, "x")]}, "sequence"),
        ("results", {"results": [{"sequence": 1, "type": "run.completed", "data": {}}]}, "type"),
        ("finalize", {"code": "runner.error"}, "error"),
        ("finalize", {"error": "x"}, "code"),
        ("finalize", {"code": "no.such", "error": "x"}, "code"),
        ("finalize", {"code": "runner.error", "error": "x", "message": {}}, "message"),
        ("finalize", {"finish_reason": 3}, "finish_reason"),
        ("finalize", {"status": "completed"}, "status"),
    ],
)
def test_invalid_results_are_refused_and_change_nothing(
    shop: Any, program: Any, path: str, body: Any, field: str
) -> None:
    answer = program.post(path, body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), answer.body
    assert answer.error["details"]["field"] == field
    assert shop.get(f"/api/v1/runs/{program.run_id}").json["status"] == "running"
    assert program.append(delta(1, "the first")).json["last_sequence"] == 1


def test_an_unknown_execution_is_refused(shop: Any) -> None:
    answer = shop.post("/api/v1/runs", {"agent": "parrot", "input": {"text": "x"}, "execution": "elsewhere"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "execution")
