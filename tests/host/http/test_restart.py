"""A host that stops and starts again over the same data: the same runs, the same streams, the same token."""

from pathlib import Path
from typing import Any

from tests.replacement import replace

from bollard.host.settings import Settings


def test_runs_records_and_outcomes_survive_a_restart(
    tmp_path: Path, plugin: Path, start_host: Any, client_of: Any
) -> None:
    settings = Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    first = start_host(settings)
    api = client_of(first.port, first.token)
    done = api.say("hello there")
    whole = api.read(done)
    body = {"agent": "parrot", "input": {"text": "x"}, "id": "the-same"}
    told = api.post("/api/v1/runs", body).json
    running = api.say("wait")
    shown = api.stream(running)
    last = shown.until("message.delta")
    first.stop()
    shown.close()

    second = start_host(replace(settings))
    assert second.token is None  # the token is shown once
    again = client_of(second.port, api.token)
    assert again.read(done) == whole
    assert again.read(done, whole[3].id) == whole[4:]
    assert again.post("/api/v1/runs", body).json == {**told, "first": False}
    rest = again.read(running, last.id)
    assert rest[-1].type == "run.ended"
    assert rest[-1].data["data"]["code"] == "host.lost"
    assert again.get(f"/api/v1/runs/{running}").json["status"] == "failed"
    seqs = [event.data["seq"] for event in again.read(running)]
    assert seqs == list(range(1, len(seqs) + 1))
    second.stop()


def test_waiting_runs_continue_after_a_restart(tmp_path: Path, plugin: Path, start_host: Any, client_of: Any) -> None:
    settings = Settings(
        data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5, runs_at_once=1
    )
    first = start_host(settings)
    api = client_of(first.port, first.token)
    blocking = api.say("wait")
    stream = api.stream(blocking)
    stream.until("message.delta")
    waiting = [api.say(f"number {number}") for number in range(3)]
    assert {api.get(f"/api/v1/runs/{run_id}").json["status"] for run_id in waiting} == {"queued"}
    first.stop()
    stream.close()

    second = start_host(settings)
    again = client_of(second.port, api.token)
    for run_id in waiting:
        events = again.read(run_id)
        assert events[-1].data["data"]["status"] == "completed"
        assert [event.data["seq"] for event in events] == list(range(1, len(events) + 1))
    second.stop()
