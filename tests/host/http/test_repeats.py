"""`Idempotency-Key`: a repeated POST gets the first response and is not executed again."""

import threading
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.rows import PutKept
from bollard.host.store.selection import choose_store

_keys = count()
PATH = "/api/v1/tickets"


@pytest.fixture
def key() -> str:
    return f"key-{next(_keys)}"


def stream_path(number: int = 0) -> dict[str, str]:
    return {"path": f"/api/v1/runs/run_{number}/stream"}


def test_the_same_request_gets_its_first_answer_again(api: Any, key: str) -> None:
    first = api.post(PATH, stream_path(), idempotency_key=key)
    again = api.post(PATH, stream_path(), idempotency_key=key)
    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert api.post(PATH, stream_path()).body != first.body


def test_another_request_under_the_same_key_is_refused(api: Any, key: str) -> None:
    first = api.post(PATH, stream_path(), idempotency_key=key)
    other = api.post(PATH, stream_path(1), idempotency_key=key)
    elsewhere = api.post("/api/v1/bindings/resolve", {}, idempotency_key=key)
    for answer in (other, elsewhere):
        assert (answer.status, answer.error["code"]) == (422, "idempotency_mismatch")
        assert answer.error["hint"]
    assert api.post(PATH, stream_path(), idempotency_key=key).body == first.body


def test_a_refused_request_may_be_corrected_under_its_key(api: Any, key: str) -> None:
    wrong = api.post(PATH, {"path": "/nowhere"}, idempotency_key=key)
    assert (wrong.status, wrong.error["code"]) == (400, "invalid_argument")
    again = api.post(PATH, {"path": "/nowhere"}, idempotency_key=key)
    assert "idempotency-replayed" not in again.headers
    right = api.post(PATH, stream_path(), idempotency_key=key)
    assert right.status == 201


@pytest.mark.parametrize("wrong", ["", "x" * 257, "caf\xe9", "tab\tbed"])
def test_an_invalid_idempotency_key_is_refused(api: Any, wrong: str) -> None:
    answer = api.post(PATH, stream_path(), idempotency_key=wrong)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_many_concurrent_repeats_have_one_effect(api: Any, key: str) -> None:
    answers: list[Any] = []

    def ask() -> None:
        answers.append(api.post(PATH, stream_path(), idempotency_key=key))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [answer for answer in answers if answer.status == 201]
    waiting = [answer for answer in answers if answer.status != 201]
    assert len({answer.body for answer in done}) == 1
    assert len([answer for answer in done if "idempotency-replayed" not in answer.headers]) == 1
    for answer in waiting:
        assert (answer.status, answer.error["code"], answer.error["retryable"]) == (409, "conflict", True)
        assert answer.headers["retry-after"] == "1"


def test_a_repeated_cancel_gets_the_first_answer(api: Any, key: str) -> None:
    run_id = api.say("wait")
    stream = api.stream(run_id)
    stream.until("message.delta")
    first = api.post(f"/api/v1/runs/{run_id}/cancel", idempotency_key=key)
    list(stream)
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 409
    again = api.post(f"/api/v1/runs/{run_id}/cancel", idempotency_key=key)
    assert (again.status, again.body) == (202, first.body)


# --- runs and events know their repeats by themselves ---


@pytest.mark.parametrize(
    "change",
    [
        {"input": {"text": "other"}},
        {"agent": "twin"},
        {"conversation": "elsewhere"},
        {"data": {"x": 1}},
        {"actor": {"id": "bob"}},
    ],
)
def test_another_run_under_a_known_key_is_refused(api: Any, key: str, change: Any) -> None:
    api.save_agent("twin")
    body = {"agent": "parrot", "input": {"text": "once"}, "actor": {"id": "ada"}, "data": {"a": [1, 2.5, None]}}
    first = api.post("/api/v1/runs", body, idempotency_key=key)
    assert first.status == 202
    other = api.post("/api/v1/runs", {**body, **change}, idempotency_key=key)
    assert (other.status, other.error["code"]) == (422, "idempotency_mismatch"), other.body
    again = api.post("/api/v1/runs", body, idempotency_key=key)
    assert (again.status, again.json) == (200, {**first.json, "first": False})


def test_another_event_under_a_known_key_is_refused(api: Any, key: str) -> None:
    body = {"source": "s", "type": "webhook.received", "agent": "parrot", "text": "x", "data": {"n": 1}}
    first = api.post("/api/v1/events", body, idempotency_key=key)
    assert first.status == 202, first.body
    other = api.post("/api/v1/events", {**body, "data": {"n": 2}}, idempotency_key=key)
    assert (other.status, other.error["code"]) == (422, "idempotency_mismatch")
    again = api.post("/api/v1/events", body, idempotency_key=key)
    assert (again.status, again.json) == (200, {**first.json, "first": False})


# --- over a restart ---


@pytest.fixture
def settings_of_one(tmp_path: Path, plugin: Path) -> Settings:
    return Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)


def test_saved_answers_survive_a_restart(settings_of_one: Settings, start_host: Any, client_of: Any) -> None:
    first = start_host(settings_of_one)
    api = client_of(first.port, first.token)
    told = api.post(PATH, stream_path(), idempotency_key="k")
    first.stop()
    second = start_host(settings_of_one)
    again = client_of(second.port, api.token)
    answer = again.post(PATH, stream_path(), idempotency_key="k")
    assert (answer.status, answer.body, answer.headers["idempotency-replayed"]) == (201, told.body, "true")
    assert again.post(PATH, stream_path(1), idempotency_key="k").status == 422


def test_an_interrupted_request_is_not_executed_again(
    settings_of_one: Settings, start_host: Any, client_of: Any
) -> None:
    """As after a kill between the effect and its answer: the note is there, the answer is not."""
    first = start_host(settings_of_one)
    api = client_of(first.port, first.token)
    api.post(PATH, stream_path(), idempotency_key="k")
    first.stop()
    cut_off(settings_of_one)
    second = start_host(settings_of_one)
    again = client_of(second.port, api.token)
    answer = again.post(PATH, stream_path(), idempotency_key="k")
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert "unknown" in answer.error["message"]
    assert again.post(PATH, stream_path(), idempotency_key="k2").status == 201


def test_no_saved_answer_is_stored_in_clear(settings_of_one: Settings, start_host: Any, client_of: Any) -> None:
    first = start_host(settings_of_one)
    api = client_of(first.port, first.token)
    ticket = api.post(PATH, stream_path(), idempotency_key="my-own-key").json["ticket"]
    first.stop()
    files = [path.read_bytes() for path in settings_of_one.data.rglob("*") if path.is_file()]
    assert not any(ticket.encode() in content or b"my-own-key" in content for content in files)


def cut_off(settings: Settings) -> None:
    """Every kept answer as it was before it was given."""
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    rows = store.all_kept("answer")
    assert rows
    with store.write() as transaction:
        for row in rows:
            begun = msgspec.msgpack.encode([msgspec.msgpack.decode(row.body)[0]])
            transaction.keep([PutKept(msgspec.structs.replace(row, body=begun))])
    store.close()
