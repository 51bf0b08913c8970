"""A plugin that takes everything it can get costs its own runs only."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    folder = tmp_path_factory.mktemp("plugins") / "neighbour"
    folder.mkdir()
    (folder / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    (folder / "runner.py").write_text(textwrap.dedent(RUNNER), encoding="utf-8")
    data = tmp_path_factory.mktemp("data")
    return Settings(data=data, plugins=(plugin, folder), builtin_plugins=False, port=0, grace_s=0.5)


@pytest.fixture
def street(api: Any) -> Any:
    """A host with both plugins ready, at the full level."""
    if api.get("/readyz").json["worker_sandbox"]["level"] != "full":
        pytest.skip("control groups or another part of the full level are missing here")
    if api.get(PLUGIN).json["status"] == "quarantined":
        assert api.post(f"{PLUGIN}/restart", {}).status == 200
    api.until(PLUGIN, lambda plugin: plugin["status"] == "ready")
    return api


@pytest.mark.parametrize(
    ("bad", "status", "reason"),
    [
        pytest.param("memory", "failed", "runner.crashed", marks=pytest.mark.smoke),
        pytest.param("forks", "failed", "runner.crashed", marks=pytest.mark.full),
        pytest.param("busy", "failed", "runner.crashed", marks=pytest.mark.full),
        ("disk", "failed", "runner.error"),
        ("logs", "completed", None),
    ],
)
def test_a_bad_neighbour_costs_its_own_runs_only(street: Any, bad: str, status: str, reason: str | None) -> None:
    run_id = street.tell("neighbour", bad).json["run_id"]
    stream = street.stream(run_id)
    stream.until("run.started")
    for _ in range(3):
        other = street.tell("parrot", "still here").json["run_id"]
        assert street.ended(other)["status"] == "completed"
    stream.close()
    ended = street.ended(run_id)
    assert (ended["status"], ended.get("status_reason")) == (status, reason), ended
    if bad == "memory":
        log = street.until(
            f"{PLUGIN}/logs", lambda page: any("memory was used up" in each["text"] for each in page["items"])
        )
        assert "memory_mib" in str(log)
    street.until("/api/v1/plugins/local/parrot", lambda plugin: (plugin["status"], plugin["crashes"]) == ("ready", 0))


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
