"""`bollard doctor`: each condition is real, and found, explained and resolved by its advice."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from tests.replacement import replace

from bollard.cli.language import load_text, read_texts
from bollard.cli.operate.doctor_checks import (
    CHECKS,
    AgentFacts,
    DataFacts,
    Facts,
    HostFacts,
    PluginFacts,
    PortFacts,
    SandboxFacts,
    SettingsFacts,
    StoreFacts,
    WorkerFacts,
    examine,
)
from bollard.host.workers.bounds import GroupBounds

BOLLARD = str(Path(sys.executable).with_name("bollard"))
FIXTURES = Path(__file__).parents[1] / "host/backup/fixtures"
NOTES = {
    "not_running",
    "sandbox",
    "worker_limits",
    "sandbox_missing",
    "workers",
    "workers_namespaces",
    "workers_landlock",
    "workers_bare",
    "schema_older",
    "data_absent",
    "no_token",
    "files_low",
    "only_demo",
}
"""Findings that may occur on any machine."""

CRASHES = """
import os
os._exit(7)
"""

NEEDY = """
from pydantic import BaseModel
from bollard.sdk import RunContext, runner
from bollard.sdk.form import ModelSelector

class Config(BaseModel):
    model: ModelSelector = None

@runner(label="Needy", config=Config)
async def needy(ctx: RunContext):
    yield ctx.completed("fine")
"""


@pytest.fixture
def well() -> Facts:
    return Facts(
        settings=SettingsFacts(host="127.0.0.1", port=8420, connections=1000),
        data=DataFacts(
            path="data",
            there=True,
            is_folder=True,
            writable=True,
            owner=1,
            me=1,
            mode=0o700,
            free_bytes=1 << 40,
            total_bytes=1 << 41,
            holder=None,
        ),
        port=PortFacts(taken=False, by=None, is_host=False),
        store=StoreFacts(name="data/bollard.db", revision="0002", known=("0001", "0002"), newest_ms=1000),
        sandbox=SandboxFacts(level="bubblewrap", landlock=7, user_namespaces=True, bubblewrap=True),
        workers=WorkerFacts(demand="best", level="full", landlock=7, controllers=("pids", "memory", "cpu")),
        now_ms=2000,
        files=20_000,
    )


@pytest.fixture
def ask(bollard, tmp_path):
    """Run the doctor on a separate data directory; returns its findings by check."""

    def run(*arguments: str, data: Path | None = None, **variables: str):
        chosen = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BOLLARD_PORT": "1", **variables}
        done = bollard("doctor", "--data", str(data or tmp_path / "data"), *arguments, **chosen)
        assert done.err == ""
        told = done.json
        assert told["healthy"] == (done.code == 0) == (told["errors"] == 0)
        return {finding["check"]: finding for finding in told["findings"]}

    return run


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """A data directory with a database of the previous revision."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with sqlite3.connect(data / "bollard.db") as connection:
        connection.executescript((FIXTURES / "v0001.sqlite.sql").read_text(encoding="utf-8"))
    connection.close()
    return data


def lacking(reason: str) -> AgentFacts:
    return AgentFacts(agent_id="a", reason=reason, details={"id": "m", "field": "config.x"}, message="m", hint="h")


def found(facts: Facts) -> dict[str, str]:
    return {finding.check: finding.severity for finding in examine(facts)}


def test_a_healthy_host_gets_only_the_notes_about_its_sandboxes(well):
    assert found(well) == {"not_running": "note", "sandbox": "note", "workers": "note"}
    running = HostFacts(address="http://x", ready=True, version="1", agents=())
    assert found(replace(well, host=running)) == {"sandbox": "note", "workers": "note"}


@pytest.mark.parametrize(
    ("part", "change", "check", "severity"),
    [
        ("settings", {"problem": "no", "field": "host"}, "public_bind", "error"),
        ("settings", {"problem": "no", "field": "port"}, "settings", "error"),
        ("settings", {"connections": 100_000}, "files_low", "warning"),
        ("data", {"is_folder": False}, "data_no_folder", "error"),
        ("data", {"owner": 2}, "data_owner", "error"),
        ("data", {"writable": False}, "data_unwritable", "error"),
        ("data", {"there": False}, "data_absent", "note"),
        ("data", {"there": False, "writable": False}, "data_unwritable", "error"),
        ("data", {"mode": 0o755}, "data_open", "warning"),
        ("data", {"exposed": ("keys/a",)}, "key_readable", "error"),
        ("data", {"free_bytes": 1 << 20}, "disk_full", "error"),
        ("data", {"free_bytes": 1 << 29}, "disk_low", "warning"),
        ("data", {"holder": 7}, "data_busy", "error"),
        ("port", {"taken": True, "by": "nc", "pid": 9}, "port_taken", "error"),
        ("port", {"refused": "Permission denied"}, "port_refused", "error"),
        ("port", {"taken": True, "is_host": True}, "port_other_host", "error"),
        ("store", {"problem": "gone"}, "store_unreachable", "error"),
        ("store", {"revision": "0001"}, "schema_older", "note"),
        ("store", {"revision": "0003"}, "schema_newer", "error"),
        ("store", {"fault": "edited"}, "chain_broken", "error"),
        ("store", {"newest_ms": 200_000}, "record_future", "error"),
        ("store", {"shares_role": True}, "knowledge_role", "note"),
        ("sandbox", {"level": None, "problem": "no Landlock"}, "sandbox_missing", "note"),
        ("workers", {"demand": "none", "level": "none"}, "workers_unconfined", "warning"),
        ("workers", {"level": "namespaces", "problem": "no groups"}, "workers_namespaces", "warning"),
        ("workers", {"level": "landlock", "problem": "no view"}, "workers_landlock", "warning"),
        ("workers", {"level": "none", "problem": "no seccomp"}, "workers_bare", "warning"),
        ("workers", {"demand": "strict", "level": "landlock", "problem": "no view"}, "workers_refused", "error"),
    ],
)
def test_each_condition_has_its_finding(well, part, change, check, severity):
    facts = replace(well, **{part: replace(getattr(well, part), **change)})
    assert found(facts)[check] == severity


def test_the_limits_of_a_workspace_are_shown_where_they_are_enforced(well):
    bounds = GroupBounds(memory_mib=4096, processors=1.5, processes=None)
    facts = replace(well, workers=replace(well.workers, workspace=bounds))
    (limits,) = [finding for finding in examine(facts) if finding.check == "worker_limits"]
    assert limits.fields == {"memory": "4096", "processors": "1.5", "processes": "∞"}
    assert "worker_limits" not in found(replace(facts, workers=replace(facts.workers, controllers=())))


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"ready": False, "reasons": ({"problem": "the disk is full"},)}, "not_ready"),
        (
            {"plugins": (PluginFacts(name="a/p", status="quarantined", problem={"problem": "it crashed"}),)},
            "plugin_quarantined",
        ),
        (
            {"plugins": (PluginFacts(name="p", status="quarantined", problem={"problem": "it crashed"}),)},
            "plugin_unstarted",
        ),
        ({"agents": None}, "no_token"),
        ({"agents": (lacking("missing_models"),)}, "no_model"),
        ({"agents": (lacking("missing_tools"),)}, "agent_lacks"),
        ({"agents": (lacking("default_missing"),)}, "agent_lacks"),
        ({"only_demo": True}, "only_demo"),
    ],
)
def test_each_condition_of_a_running_host_has_its_finding(well, change, check):
    running = HostFacts(address="http://x", ready=True, version="1", agents=())
    assert check in found(replace(well, host=replace(running, **change)))


def test_a_workspace_without_a_default_model_is_reported_once(well):
    running = HostFacts(address="http://x", ready=True, version="1", agents=(lacking("default_missing"),))
    assert "only_demo" not in found(replace(well, host=replace(running, only_demo=True)))


def test_another_host_at_the_port_or_the_data_is_reported(well):
    data = replace(well.data, holder=7)
    port = PortFacts(taken=True, by="bollard", pid=9, is_host=True)
    assert {"data_busy", "port_other_host"} <= set(found(replace(well, data=data, port=port)))
    assert not {"data_busy", "port_other_host"} & set(found(replace(well, data=data, port=replace(port, pid=7))))
    assert not {"data_busy", "port_other_host"} & set(found(replace(well, data=data, port=replace(port, pid=None))))


def test_a_clock_jump_is_reported_in_both_directions(well):
    assert "clock_jump" in found(replace(well, drift_s=3600.0))
    assert "clock_jump" in found(replace(well, drift_s=-3600.0))
    assert "clock_jump" not in found(replace(well, drift_s=1.0))


def test_every_finding_has_a_text_a_reason_and_a_fix():
    said = {key.split(".")[1] for key in read_texts("en_US") if key.startswith("doctor.") and key.count(".") == 2}
    assert len(said) > 20
    for check in said:
        assert all(f"doctor.{check}{part}" in load_text("en_US") for part in ("", ".why", ".fix"))
    assert len(CHECKS) >= 9


# --- the real conditions ---


def test_an_empty_folder_is_healthy(ask):
    assert set(ask()) <= NOTES


def test_a_port_in_use_is_named_with_its_process(ask):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        stop = threading.Event()
        answering = threading.Thread(target=_answer_nonsense, args=(listener, stop))
        answering.start()
        told = ask("--port", str(listener.getsockname()[1]))["port_taken"]
        stop.set()
        answering.join()
    assert str(os.getpid()) in told["what"]
    assert "--port" in told["fix"]


def _answer_nonsense(listener: socket.socket, stop: threading.Event) -> None:
    listener.settimeout(0.1)
    while not stop.is_set():
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            connection.recv(1024)
            connection.sendall(b"220 mail.example.org ESMTP\r\n")


def test_an_address_of_another_machine_is_found(ask):
    told = ask(BOLLARD_HOST="192.0.2.7", BOLLARD_ORIGINS="https://bollard.example.org")
    assert "cannot listen on 192.0.2.7:1" in told["port_refused"]["what"]


def test_a_data_directory_that_is_a_file_is_found(ask, tmp_path):
    (tmp_path / "data").write_text("x")
    assert "data_no_folder" in ask()


def test_an_unwritable_or_unreadable_data_directory_is_found():
    program = (
        "import os, sys\n"
        "from bollard.cli.operate.doctor_probes import probe; from bollard.cli.operate.doctor_checks import examine\n"
        "probe({'HOME': sys.argv[1]}, {'data': sys.argv[1], 'port': 1}, None)  # loads what is loaded late\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "for name in ('closed', 'hidden/data'):\n"
        "    asked = {'data': os.path.join(sys.argv[1], name), 'port': 1}\n"
        "    print(*(finding.check for finding in examine(probe({'HOME': sys.argv[1]}, asked, None))))"
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hidden" / "data").mkdir(parents=True)
        (folder / "closed").mkdir()
        for path, mode in ((folder, 0o755), (folder / "closed", 0o555), (folder / "hidden", 0)):
            path.chmod(mode)
        done = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, check=False)
        (folder / "hidden").chmod(0o700)
    assert done.returncode == 0, done.stderr
    closed, hidden = (set(line.split()) for line in done.stdout.splitlines())
    assert "data_unwritable" in closed
    assert "data_unwritable" in hidden


def test_a_public_address_without_tls_is_found(ask):
    told = ask(BOLLARD_HOST="0.0.0.0")["public_bind"]
    assert "tls_cert" in told["fix"]
    assert told["fields"]["host"] == "0.0.0.0"


def test_a_public_address_of_the_settings_file_is_found(ask, write):
    write("bollard.toml", 'host = "0.0.0.0"\n')
    assert ask()["public_bind"]["fields"]["host"] == "0.0.0.0"


def test_invalid_settings_are_found(ask):
    assert "workers" in ask(BOLLARD_WORKERS="0")["settings"]["what"]


def test_an_unreachable_database_is_found(ask):
    told = ask("--database", "postgresql://postgres@127.0.0.1:1/nothing")
    assert "PostgreSQL" in told["store_unreachable"]["what"]


def test_an_older_schema_is_a_note_and_a_newer_one_a_problem(ask, past, bollard):
    assert ask()["schema_older"]["severity"] == "note"
    with sqlite3.connect(past / "bollard.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    assert "9999" in ask()["schema_newer"]["what"]


def test_a_key_readable_by_others_is_found(ask, past):
    (past / "keys").mkdir()
    key = past / "keys" / "admin-token.sha256"
    key.write_text("x")
    key.chmod(0o644)
    assert str(key) in ask()["key_readable"]["what"]
    key.chmod(0o600)
    assert "key_readable" not in ask()


def test_a_changed_log_is_found(ask, past):
    assert "chain_broken" not in ask()
    with sqlite3.connect(past / "bollard.db") as connection:
        connection.execute("UPDATE records SET data = X'7b7d' WHERE id = (SELECT max(id) FROM records)")
    connection.close()
    assert "data was changed" in ask()["chain_broken"]["what"]


def test_a_record_of_the_future_is_found(ask, past):
    with sqlite3.connect(past / "bollard.db") as connection:
        later = round(time.time() * 1000) + 3_600_000
        connection.execute("UPDATE records SET created_ms = ? WHERE id = (SELECT max(id) FROM records)", (later,))
    connection.close()
    told = ask()
    assert int(told["record_future"]["fields"]["seconds"]) > 3500
    assert "chain_broken" in told  # the time is part of the signed data


def test_a_nearly_full_disk_is_found(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing: it gives the doctor a small disk")
    (tmp_path / "data").mkdir()
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" doctor --data "$1"'
    command = ["unshare", "-Urm", "sh", "-c", script, "sh", str(tmp_path / "data"), BOLLARD]
    environment = {**os.environ, "BOLLARD_PORT": "1", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    if "mount" in done.stderr:
        pytest.skip(f"a tmpfs in a user namespace is missing: {done.stderr}")
    assert done.returncode == 1, done.stderr
    assert '"disk_full"' in done.stdout


def test_a_low_limit_of_open_files_is_found(tmp_path):
    command = ["sh", "-c", 'ulimit -n 300 && exec "$1" doctor --data nowhere', "sh", BOLLARD]
    environment = {**os.environ, "BOLLARD_PORT": "1", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert '"files_low"' in done.stdout
    assert done.returncode == 0, "a warning fails nothing"


def test_a_running_host_is_checked_and_healthy(host, bollard):
    done = bollard("doctor", "--data", str(host.data), **host.variables)
    assert done.code == 0, done.out
    assert done.json["host"] == host.url
    assert {finding["check"] for finding in done.json["findings"]} <= NOTES | {"disk_low"}
    told = bollard("doctor", "--data", str(host.data), "--text", **{**host.variables, "BOLLARD_LANG": "zh_Hans"})
    assert "没有问题" in told.out
    assert told.out.startswith("说明：")


def test_a_host_at_another_port_and_one_with_other_data_are_distinguished(host, bollard, tmp_path):
    elsewhere = bollard("doctor", "--data", str(host.data), "--port", "1", XDG_CONFIG_HOME=str(tmp_path)).json
    busy = next(finding for finding in elsewhere["findings"] if finding["check"] == "data_busy")
    assert busy["fields"]["pid"] == host.process.pid
    other = bollard("doctor", "--data", str(tmp_path / "other"), "--port", str(host.port)).json
    assert "port_other_host" in {finding["check"] for finding in other["findings"]}


def test_a_clock_jump_since_the_start_is_found(new_host, bollard):
    host = new_host().start()
    lock = host.data / "lock"
    hour_ago = time.time() - 3600
    os.utime(lock, (hour_ago, hour_ago))  # as if the wall clock had been an hour behind when the host started
    found = {f["check"]: f for f in bollard("doctor", "--data", str(host.data), **host.variables).json["findings"]}
    assert found["clock_jump"]["fields"]["seconds"].startswith("+3")


@pytest.mark.full
def test_a_plugin_in_quarantine_and_an_agent_without_its_model_are_found_with_the_reason(new_host, bollard):
    host = new_host()
    (host.folder / "crashes.py").write_text(CRASHES)
    (host.folder / "needy.py").write_text(NEEDY)
    host.start("--plugins", "crashes.py", "--plugins", "needy.py", agents=("demo", "echo", "needy"))
    host.wait_for("plugin.failed")
    needy = bollard("agents", "new", "chooser", "--runner", "needy", **host.variables).json
    needy["config"]["model"] = "gpt-none"
    assert bollard("agents", "save", "-", stdin=json.dumps(needy), **host.variables).code == 0
    done = bollard("doctor", "--data", str(host.data), **host.variables)
    assert done.code == 1
    found = {finding["check"]: finding for finding in done.json["findings"]}
    assert found["plugin_unstarted"]["fields"]["plugin"] == "crashes"
    assert found["plugin_unstarted"]["fields"]["problem"]
    assert found["no_model"]["fields"] == {"agent": "chooser", "models": "gpt-none"}
    assert found["no_model"]["fix"].startswith("add it with `bollard models add gpt-none --preset NAME`")
    host.signal(signal.SIGTERM)
