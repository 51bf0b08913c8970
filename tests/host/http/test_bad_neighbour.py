"""A plugin that takes everything it can get costs its own runs only."""

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_field
from tests.host.http.conftest import Client, HostThread

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level
from bollard.host.settings import Settings

MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: neighbour, version: 1.0.0, label: {en_US: Neighbour}}
spec:
  sandbox: {memory_mib: 384}
  runners:
    - {name: default, label: {en_US: Neighbour}, entry: "runner:neighbour"}
"""
RUNNER = """
import os

from bollard.sdk import RunContext, runner


def memory():
    held = []
    while True:
        held.append(bytearray(os.urandom(4096)) * 1024)


def forks():
    while True:
        try:
            os.fork()
        except OSError:
            pass


def busy():
    while True:
        pass


def disk():
    with open(os.path.expanduser("~/all"), "wb") as file:
        while True:
            file.write(bytes(1 << 20))


def logs():
    for number in range(100_000):
        print(f"line {number}", "x" * 200)


@runner(label="Neighbour")
async def neighbour(ctx: RunContext):
    globals()[ctx.input.text]()
    yield ctx.completed("done")
"""
PLUGIN = "/api/v1/plugins/acme/neighbour"
GOOD = "/api/v1/plugins/local/parrot"
GOOD_RUNS = 20


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    folder = tmp_path_factory.mktemp("plugins") / "neighbour"
    folder.mkdir()
    (folder / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    (folder / "runner.py").write_text(textwrap.dedent(RUNNER), encoding="utf-8")
    data = tmp_path_factory.mktemp("data")
    return Settings(data=data, plugins=(plugin, folder), builtin_plugins=False, port=0, grace_s=0.5)


@pytest.fixture(scope="module")
def api(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A host with both plugins at one level."""
    level, whole = request.param, machine_findings()
    findings = whole if level == "full" else replace(whole, view=False)
    if choose_level("best", findings).name != level or not {"pids", "memory", "cpu"} <= {*findings.controllers}:
        pytest.skip(f"control groups or another part of the level {level} are missing here")
    host = HostThread(replace_field(settings, data=tmp_path_factory.mktemp(level)), findings=lambda: findings)
    client = Client(host.port, host.token or "")
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    yield client
    host.stop()


@pytest.fixture
def street(api: Any) -> Any:
    """The host, with the bad neighbour out of its quarantine."""
    if api.get(PLUGIN).json["status"] == "quarantined":
        assert api.post(f"{PLUGIN}/restart", {}).status == 202
    api.until(PLUGIN, lambda plugin: plugin["status"] == "ready")
    return api


@pytest.mark.parametrize(
    ("api", "bad", "status", "reason"),
    [
        pytest.param("full", "memory", "failed", "runner.crashed", marks=pytest.mark.smoke),
        pytest.param("full", "forks", "failed", "runner.crashed", marks=pytest.mark.full),
        pytest.param("full", "busy", "failed", "runner.crashed", marks=pytest.mark.full),
        ("full", "disk", "failed", "runner.error"),
        ("full", "logs", "completed", None),
        ("landlock", "memory", "failed", "runner.crashed"),
        ("landlock", "logs", "completed", None),
    ],
    indirect=["api"],
    scope="module",
)
def test_a_bad_neighbour_costs_its_own_runs_only(street: Any, bad: str, status: str, reason: str | None) -> None:
    """Meanwhile every run of the other plugin completes in the worker that it had, and the host stays ready."""
    workers = [each["pid"] for each in street.get(GOOD).json["processes"]]
    run_id = street.tell("neighbour", bad).json["run_id"]
    stream = street.stream(run_id)
    stream.until("run.started")
    others = [street.tell("parrot", f"still here {number}").json["run_id"] for number in range(GOOD_RUNS)]
    assert street.get("/readyz").json["ready"]
    assert {street.ended(each)["status"] for each in others} == {"completed"}
    stream.close()
    ended = street.ended(run_id)
    assert (ended["status"], ended.get("status_reason")) == (status, reason), ended
    if bad == "memory":
        log = street.until(
            f"{PLUGIN}/logs", lambda page: any("memory was used up" in each["text"] for each in page["items"])
        )
        assert "memory_mib" in str(log)
    assert street.get("/readyz").json["ready"]
    good = street.get(GOOD).json
    assert (good["status"], good["crashes"], [each["pid"] for each in good["processes"]]) == ("ready", 0, workers)
    assert [each["status"] for each in good["processes"]] == ["ready"]


@pytest.mark.parametrize("api", ["full"], indirect=True, scope="module")
def test_the_plugin_shows_its_bounds(street: Any) -> None:
    assert street.get(PLUGIN).json["confinement"] == {
        "level": "full",
        "network": "none",
        "memory_mib": 384,
        "cpu": 1.0,
        "processes": 256,
        "workspace": {"memory_mib": 4096, "cpu": 4.0, "processes": 2048},
    }
    metrics = street.get("/metrics").body
    assert 'bollard_worker_sandbox{level="full"} 1' in str(metrics)
