"""A host as an operator has it: draining at a signal while it still answers, the log, the notices to systemd."""

import http.client
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from bollard.cli.operate.server import tell_systemd

pytestmark = pytest.mark.full


PATIENCE_S = 120.0
LOUD = """
    from bollard.sdk import RunContext, runner

    @runner()
    async def loud(ctx: RunContext):
        ctx.log("I was asked", level="warning", text=ctx.input.text)
        yield ctx.delta("heard")
"""
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def ask(host: Any, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=PATIENCE_S)
    try:
        given = {"authorization": f"Bearer {host.token}", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith(("{", "[")) else text
    finally:
        connection.close()


def until(condition: Any) -> Any:
    give_up_at = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < give_up_at
    return found


def lines(host: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in host.log.splitlines()]


def test_a_stopping_host_serves_requests_until_its_runs_have_ended(new_host: Any) -> None:
    host = new_host().start(BOLLARD_GRACE_S="20")
    _, run = ask(host, "POST", "/api/v1/runs", {"agent": "demo", "input": {"text": "slow"}})
    until(lambda: ask(host, "GET", f"/api/v1/runs/{run['run_id']}")[1]["status"] == "running")
    host.process.send_signal(signal.SIGTERM)
    status, ready = until(lambda: (found := ask(host, "GET", "/readyz"))[0] == 503 and found)
    assert (status, [reason["code"] for reason in ready["reasons"]]) == (503, ["draining"])
    status, refused = ask(host, "POST", "/api/v1/runs", {"agent": "echo", "input": {"text": "new"}})
    assert (status, refused["error"]["code"], refused["error"]["retryable"]) == (503, "draining", True)
    assert ask(host, "GET", "/healthz")[0] == 200
    ask(host, "POST", f"/api/v1/runs/{run['run_id']}/cancel", {})
    assert host.process.wait(PATIENCE_S) == 0
    host.process = None
    host.wait_for("stopped")
    host.start()
    assert ask(host, "GET", f"/api/v1/runs/{run['run_id']}")[1]["status"] == "cancelled"


def test_a_log_line_of_a_worker_has_its_run_and_its_trace(new_host: Any, write: Any, bollard: Any) -> None:
    host = new_host().start("--plugins", str(write("loud.py", LOUD)), agents=("loud",), BOLLARD_BUILTIN_PLUGINS="false")
    body = {"agent": "loud", "input": {"text": "hi"}}
    _, run = ask(host, "POST", "/api/v1/runs", body, traceparent=CALLER)
    until(lambda: ask(host, "GET", f"/api/v1/runs/{run['run_id']}")[1]["status"] == "completed")
    host.signal(signal.SIGTERM)
    said = next(line for line in lines(host) if line["event"] == "I was asked")
    assert (said["run"], said["trace"]) == (run["run_id"], CALLER[3:35])
    assert (said["plugin"], said["level"], said["fields"]) == ("loud", "warning", {"text": "hi"})
    assert not [line for line in lines(host) if line["event"] == "request"], "nobody asked for a line for each request"


def test_each_request_has_a_log_line_if_the_settings_ask_for_it(new_host: Any) -> None:
    host = new_host().start(BOLLARD_ACCESS_LOG="yes")
    ask(host, "GET", "/api/v1/runs?limit=7")
    ask(host, "GET", "/api/v1/runs/run_nothing")
    ask(host, "GET", "/readyz")
    host.signal(signal.SIGTERM)
    told = [line for line in lines(host) if line["event"] == "request"]
    assert [(line["operation"], line["path"], line["status"]) for line in told] == [
        ("listRuns", "/api/v1/runs", 200),
        ("getRun", "/api/v1/runs/run_nothing", 404),
    ]
    assert {line["caller"] for line in told} == {"admin-token"}
    assert all(line["ms"] >= 0 for line in told)
    assert host.token not in host.log


def test_systemd_is_notified_when_the_host_listens_and_when_it_stops(new_host: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_S)
        host = new_host().start(NOTIFY_SOCKET=str(tmp_path / "notify"))
        ready = systemd.recv(4096).decode().splitlines()
        assert ready == ["READY=1", f"STATUS=listens at {host.url}"]
        host.signal(signal.SIGTERM)
        assert systemd.recv(4096) == b"STOPPING=1"


def test_without_systemd_no_notification_is_sent(tmp_path: Path) -> None:
    assert not tell_systemd({}, "READY=1")
    assert not tell_systemd({"NOTIFY_SOCKET": "relative"}, "READY=1")
    assert not tell_systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}, "READY=1")
    name = f"bollard-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name)
        assert tell_systemd({"NOTIFY_SOCKET": "@" + name}, "READY=1")
        assert systemd.recv(64) == b"READY=1"


@pytest.mark.smoke
def test_an_operator_drains_a_host_waits_for_it_and_resumes_it(new_host: Any, bollard: Any, started: Any) -> None:
    host = new_host().start()
    _, run = ask(host, "POST", "/api/v1/runs", {"agent": "demo", "input": {"text": "slow"}})
    waiting = started("drain", "--wait", **host.variables)
    until(lambda: ask(host, "GET", "/readyz")[0] == 503)
    assert waiting.poll() is None
    ask(host, "POST", f"/api/v1/runs/{run['run_id']}/cancel", {})
    assert waiting.wait(PATIENCE_S) == 0
    assert json.loads(waiting.stdout.read()) == {"draining": True, "live": 0, "queued": 0}
    said = bollard("drain", "--undo", "--text", **host.variables)
    assert (said.code, said.out) == (0, f"{host.url} accepts work again\n")
    assert ask(host, "GET", "/readyz")[0] == 200
    assert bollard("drain", "--text", "--lang", "zh_Hans", **host.variables).out.startswith(
        f"{host.url} 不再接受新任务"
    )
    both = bollard("drain", "--undo", "--wait", **host.variables)
    assert (both.code, both.err) == (2, "bollard: --undo and --wait cannot be combined\nhint: give one of them\n")
    assert bollard("drain", "--url", host.url, "--token", "wrong").code == 4
