"""Draining: new work is refused with a retryable error; active runs continue; the error has a reason."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.settings import Settings


@pytest.fixture(scope="module")
def settings(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Draining does not depend on the store."""
    return Settings(data=tmp_path_factory.mktemp("data"), plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)


@pytest.fixture
def drained(settings: Settings, start_host: Any, client_of: Any, tmp_path: Any) -> Any:
    """A host of this test alone, and its client."""
    host = start_host(replace(settings, data=tmp_path, grace_s=20.0))
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    return host, client


def test_an_operator_drains_a_host_and_resumes_it(drained: Any) -> None:
    _, client = drained
    first = client.post("/api/v1/runs", {"agent": "parrot", "id": "one", "input": {"text": "hi"}})
    client.read(first.json["run_id"])
    going = client.say("wait")
    stream = client.stream(going)
    stream.until("message.delta")
    client.until_health(lambda health: health["runs"]["live"] == 1)
    assert client.post("/api/v1/host/drain", {}).json == {"draining": True, "live": 1, "queued": 0}

    ready = client.get("/readyz")
    assert (ready.status, [reason["code"] for reason in ready.json["reasons"]]) == (503, ["draining"])
    refused = client.tell("parrot", "new")
    assert (refused.status, refused.error["code"], refused.error["retryable"]) == (503, "draining", True)
    assert refused.headers["retry-after"] == "1"
    again = client.post("/api/v1/runs", {"agent": "parrot", "id": "one", "input": {"text": "hi"}})
    assert again.json["run_id"] == first.json["run_id"]  # an earlier accepted event has its answer
    assert client.get("/api/v1/runs").status == 200
    assert client.post(f"/api/v1/runs/{going}/cancel").status in (200, 202)
    assert stream.until("run.ended").data["data"]["status"] == "cancelled"
    stream.close()

    assert client.post("/api/v1/host/drain", {"draining": False}).json["draining"] is False
    assert client.get("/readyz").status == 200
    assert client.ended(client.say("back"))["status"] == "completed"


def test_queued_runs_stay_on_disk_during_a_drain_and_start_afterwards(
    settings: Settings, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    host = start_host(replace(settings, data=tmp_path, runs_at_once=1))
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    first = client.say("wait")
    second = client.say("hello")
    assert client.post("/api/v1/host/drain").json == {"draining": True, "live": 1, "queued": 1}
    client.post(f"/api/v1/runs/{first}/cancel")
    assert client.ended(first)["status"] == "cancelled"
    assert client.get("/readyz").json["runs"] == {"live": 0, "queued": 1}
    client.post("/api/v1/host/drain", {"draining": False})
    assert client.ended(second)["status"] == "completed"


def test_an_invalid_drain_request_changes_nothing(drained: Any) -> None:
    _, client = drained
    for body in ({"draining": "maybe"}, {"drain": True}, b"[]"):
        answer = client.post("/api/v1/host/drain", body)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert answer.error["hint"]
    assert client.post("/api/v1/host/drain", {}, token=None).status == 401
    assert client.get("/readyz").status == 200


def test_a_stopping_host_reports_it_and_its_readers_are_notified(
    settings: Settings, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    host = start_host(replace(settings, data=tmp_path, runs_at_once=1, grace_s=20.0))
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    going, waiting = client.say("wait"), client.say("later")
    running, queued = client.stream(going), client.stream(waiting)
    running.until("message.delta")
    queued.until("grant.issued")
    stopping = threading.Thread(target=host.stop)
    stopping.start()
    told = client.until("/readyz", lambda health: not health["ready"])
    assert [reason["code"] for reason in told["reasons"]] == ["draining"]
    assert client.tell("parrot", "new").error["code"] == "draining"
    client.post(f"/api/v1/runs/{going}/cancel")
    assert running.until("run.ended").data["data"]["status"] == "cancelled"
    gap = queued.until("gap")
    assert gap.data["data"] == {"first": 3, "last": None, "reason": "closing"}
    running.close()
    queued.close()
    stopping.join(20)
    assert not stopping.is_alive()

    back = start_host(replace(settings, data=tmp_path, runs_at_once=1))
    again = client_of(back.port, client.token)
    rest = again.read(waiting, "0.2")
    assert rest[-1].type == "run.ended"
    assert rest[-1].data["data"]["status"] == "completed"
