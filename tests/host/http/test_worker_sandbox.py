"""The setting `worker_sandbox` on machines that confine fully, partly or not at all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.host.http.conftest import Client, HostThread

from bollard.cli.language import load_text
from bollard.confine.probe import Findings, machine_findings
from bollard.host.errors import SettingsError
from bollard.host.settings import Settings

BARE = Findings(tried=True)
"""A machine without seccomp, Landlock and user namespaces."""


@pytest.fixture
def started(tmp_path: Path, plugin: Path) -> Any:
    hosts: list[HostThread] = []

    def start(demand: Any, findings: Findings, source: Path = plugin) -> Client:
        settings = Settings(
            data=tmp_path / "data",
            plugins=(source,),
            builtin_plugins=False,
            port=0,
            grace_s=0.5,
            journal="thread",
            worker_sandbox=demand,
        )
        hosts.append(HostThread(settings, findings=lambda: findings))
        client = Client(hosts[-1].port, hosts[-1].token or "")
        client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
        return client

    yield start
    for host in hosts:
        host.stop()


def test_strict_refuses_to_start_below_the_full_level(started: Any) -> None:
    with pytest.raises(SettingsError, match="worker_sandbox is strict, and this kernel does not filter") as refusal:
        started("strict", BARE)
    assert "set worker_sandbox to best" in refusal.value.hint
    said, hint = load_text("zh_Hans").host_error("settings", refusal.value.details, "", "")
    assert said == "worker_sandbox 为 strict，但内核不能限制系统调用（没有 seccomp，或不支持本机的架构）"
    assert "best" in hint


@pytest.mark.parametrize("demand", ["best", "none"])
def test_a_host_that_confines_nothing_runs_and_warns(started: Any, demand: str) -> None:
    host = started(demand, BARE if demand == "best" else machine_findings())
    ready = host.get("/readyz").json
    assert (ready["worker_sandbox"]["level"], ready["worker_sandbox"]["demand"]) == ("none", demand)
    assert [each["code"] for each in ready["warnings"]] == ["workers_unconfined"]
    assert host.get("/api/v1/plugins/local/parrot").json["confinement"]["level"] == "none"
    (problem,) = [each for each in host.get("/api/v1/overview").json["problems"] if each["kind"] == "host"]
    assert problem["reason"] == "workers_unconfined"
    assert load_text("zh_Hans").problem(problem["details"]).startswith("插件的工作进程没有隔离：")
    run = host.tell("parrot", "hello").json["run_id"]
    assert host.ended(run)["status"] == "completed"


@pytest.mark.parametrize(
    ("gone", "lacks"),
    [
        ({"controllers": ()}, "workers.groups"),
        ({"controllers": ("pids", "memory")}, "workers.groups"),
        ({"landlock": 0}, "workers.landlock"),
        ({"view": False}, "workers.namespaces"),
    ],
)
def test_best_takes_what_the_machine_has_and_says_once_what_is_missing(
    started: Any, gone: dict[str, Any], lacks: str
) -> None:
    whole = machine_findings()
    if not (whole.view and whole.landlock and whole.seccomp):
        pytest.skip("a mechanism is missing here")
    host = started("best", replace(whole, **gone))
    level = "landlock" if "view" in gone else "namespaces"
    ready = host.get("/readyz").json
    assert ready["ready"]
    assert (ready["worker_sandbox"]["level"], ready["worker_sandbox"]["problem_type"]) == (level, lacks)
    (warning,) = ready["warnings"]
    assert warning["code"] == "workers_partly_confined"
    assert ready["worker_sandbox"]["problem"] in warning["message"]
    (problem,) = [each for each in host.get("/api/v1/overview").json["problems"] if each["kind"] == "host"]
    assert load_text("zh_Hans").problem(problem["details"]).startswith(f"插件的工作进程按级别 {level} 隔离")
    run = host.tell("parrot", "hello").json["run_id"]
    assert host.ended(run)["status"] == "completed"
    assert host.get("/api/v1/plugins/local/parrot").json["confinement"]["level"] == level


def test_the_limits_of_a_worker_and_of_a_workspace_are_shown(started: Any) -> None:
    whole = machine_findings()
    host = started("best", replace(whole, controllers=("pids", "memory")))
    if host.get("/readyz").json["worker_sandbox"]["level"] == "none":
        pytest.skip("this machine confines nothing")
    workspace = {"memory_mib": 4096, "cpu": None, "processes": 2048}
    worker = {"memory_mib": 1024, "cpu": None, "processes": 256}
    assert host.get("/readyz").json["worker_sandbox"]["limits"] == {"worker": worker, "workspace": workspace}
    assert host.get("/api/v1/plugins/local/parrot").json["confinement"]["workspace"] == workspace
    metrics = str(host.get("/metrics").body)
    assert 'bollard_worker_memory_limit_bytes{scope="workspace"} 4294967296' in metrics
    assert 'bollard_worker_processes_limit{scope="worker"} 256' in metrics
    assert "bollard_worker_processors_limit{" not in metrics


MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: local, name: parrot, version: 1.0.0, label: {en_US: Parrot}}
spec:
  sandbox: {sandbox}
  runners:
    - {name: default, label: {en_US: Parrot}, entry: "runner:parrot"}
"""


def test_a_manifest_of_a_folder_that_asks_for_more_later_gets_nothing_and_leaves_a_record(
    started: Any, plugin: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "parrot"
    folder.mkdir()
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST.replace("{sandbox}", "{memory_mib: 512}"), encoding="utf-8")
    (folder / "runner.py").write_text(plugin.read_text(encoding="utf-8"), encoding="utf-8")
    host = started("best", machine_findings(), folder)
    before = host.get("/api/v1/plugins/local/parrot").json["confinement"]
    assert before["network"] == ("open" if before["level"] == "none" else "none")
    manifest.write_text(MANIFEST.replace("{sandbox}", "{memory_mib: 900, network: [a.example]}"), encoding="utf-8")
    assert host.post("/api/v1/plugins/local/parrot/restart", {}).status == 202
    said = "asks for more than at the start of the host: network a.example, memory_mib 900"
    host.until("/api/v1/plugins/local/parrot/logs", lambda page: any(said in each["text"] for each in page["items"]))
    assert host.get("/api/v1/plugins/local/parrot").json["confinement"] == before
    metrics = host.get("/metrics").body
    assert 'bollard_worker_violations_total{plugin="local/parrot",kind="sandbox"} 1' in str(metrics)
