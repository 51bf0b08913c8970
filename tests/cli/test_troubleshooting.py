"""The guide to troubleshooting: each symptom is brought about, and shows the message of its entry."""

import json
import re
import socket
import urllib.error
import urllib.request
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.cli.certificates import self_signed
from tests.cli.conftest import Serve

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = dict(re.findall(r"^### (.+)\n\nMessage: `(.+)`$", GUIDE, re.MULTILINE))
"""The message of each entry."""

ELSEWHERE = {
    "A workspace has no default model": (
        "tests/cli/test_failed_runs.py",
        "test_a_second_workspace_without_the_default_model_learns_its_name",
    ),
    "A plugin is quarantined": (
        "tests/chaos/test_worker_faults.py",
        "test_five_crashes_quarantine_a_plugin_with_a_reason_and_leave_the_others_alone",
    ),
    "The disk is full": (
        "tests/chaos/test_full_disk.py",
        "test_a_full_disk_refuses_new_work_serves_reads_and_heals_by_itself",
    ),
    "The storage does not answer": (
        "tests/chaos/test_stalls.py",
        "test_requests_to_a_frozen_journal_get_storage_stalled_and_repeats_return_the_first_outcome",
    ),
    "Commits are slow": ("tests/chaos/test_pressure.py", "test_a_slow_disk_makes_larger_commits_and_fails_no_run"),
    "Records of reads are missing": (
        "tests/host/runs/test_live.py",
        "test_code_of_a_run_with_another_owner_costs_its_worker_unless_it_stops",
    ),
    "Runs wait": (
        "tests/host/http/test_draining.py",
        "test_queued_runs_stay_on_disk_during_a_drain_and_start_afterwards",
    ),
    "An answer does not reach its channel": (
        "tests/host/http/test_channels.py",
        "test_a_program_that_refuses_a_message_shows_in_the_deliveries",
    ),
    "The witness takes no heads": (
        "tests/host/http/test_audit.py",
        "test_a_host_without_its_witness_continues_warns_and_records_the_gap_later",
    ),
}
"""Entries whose fault needs more than a command: the module and the test that bring it about."""


def shows(entry: str, output: str) -> bool:
    """Whether an output contains the message of an entry."""
    parts = [re.escape(part) for part in MESSAGES[entry].split("…")]
    return re.search(".*".join(parts), output) is not None


@pytest.fixture
def ask(host: Any, bollard: Any) -> Any:
    """Run a command on the shared host; returns its output."""

    def run(*arguments: str, **variables: str) -> str:
        done = bollard(*arguments, "--text", **{**host.variables, **variables})
        return done.out + done.err

    return run


def key(ask: Any, *rights: str) -> str:
    wanted = [part for right in rights for part in ("--right", right)]
    return re.search(r"blk_\S+", ask("keys", "add", "--name", "trouble", "--expires", "1d", *wanted))[0]


def test_every_entry_has_a_message_and_a_test_of_its_fault() -> None:
    entries = re.findall(r"^### (.+)$", GUIDE, re.MULTILINE)
    assert entries == list(MESSAGES)
    source = Path(__file__).read_text(encoding="utf-8")
    here = set(re.findall(r'shows\(\s*"([^"]+)"', source))
    assert here | set(ELSEWHERE) == set(entries)
    assert not here & set(ELSEWHERE)
    for module, name in ELSEWHERE.values():
        assert f"def {name}(" in (ROOT / module).read_text(encoding="utf-8"), name


@pytest.mark.full
def test_a_host_that_fails_to_start_gives_a_reason(bollard: Any, host: Any, tmp_path: Path) -> None:
    def up(*arguments: str, **variables: str) -> str:
        return bollard("up", *arguments, **variables).err

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = up("--data", str(tmp_path / "new"), "--port", str(taken.getsockname()[1]))
    assert shows("The port is in use", used)
    assert shows("The data directory is in use", up("--data", str(host.data), "--port", "0"))
    assert shows("A public address is refused", up("--data", str(tmp_path / "new"), "--host", "0.0.0.0"))
    (tmp_path / "file").write_text("")
    written = up("--data", str(tmp_path / "new"), BOLLARD_LOG_DIR=str(tmp_path / "file"))
    assert shows("The log folder cannot be written", written)
    (tmp_path / "bollard.toml").write_text("prot = 1\n")
    assert shows("A setting is not known", up())


@pytest.mark.full
def test_a_refused_request_gives_a_reason(ask: Any, host: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert shows("No host answers", ask("runs", "list", "--url", f"http://127.0.0.1:{free.getsockname()[1]}"))
    assert shows("The address has the wrong scheme", ask("runs", "list", "--url", host.url.replace("http", "https")))
    assert shows("The token is rejected", ask("runs", "list", "--token", "wrong"))
    reader = key(ask, "runs.read", "conversations.read")
    assert shows("A right is missing", ask("agents", "list", "--token", reader))
    ask("chat", "--agent", "echo", "--conversation", "not yours", "--message", "hi")
    assert shows("A conversation or a run is missing", ask("conversations", "show", "not yours", "--token", reader))
    request = urllib.request.Request(f"{host.url}/metrics")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value as answer:
        assert shows("Prometheus cannot read the host", answer.read().decode())


@pytest.mark.full
def test_an_inactive_agent_gives_a_reason(ask: Any, bollard: Any, host: Any, tmp_path: Path) -> None:
    assert shows("A message started no run", ask("events", "post", "--type", "webhook.received"))
    failed = bollard("chat", "--agent", "demo", "--message", "fail", "--json", **host.variables).lines[0]["run_id"]
    assert shows("A run fails in its runner", ask("runs", "show", failed))
    agent = {"agent_id": "toolless", "runner_id": "plugin:bollard/demo/default", "policy": {}}
    (tmp_path / "agent.json").write_text(json.dumps(agent))
    ask("agents", "save", str(tmp_path / "agent.json"))
    assert shows("An agent does not get a tool", ask("chat", "--agent", "toolless", "--message", "call now {}"))
    add = ("models", "add", "near", "--style", "openai-chat", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert shows("A model or a tool may not reach an address", ask(*add))


@pytest.mark.full
def test_an_address_of_another_server_gives_a_reason(ask: Any, serve: Serve, tmp_path: Path) -> None:
    page, secure = serve(SimpleHTTPRequestHandler), serve(SimpleHTTPRequestHandler, self_signed(tmp_path, "127.0.0.1"))
    assert shows("Another program answers", ask("runs", "list", "--url", f"http://127.0.0.1:{page}"))
    secure = f"https://127.0.0.1:{secure}"
    assert shows("The certificate is not trusted", ask("runs", "list", "--url", secure))


def test_unconfined_plugins_give_a_reason(bollard: Any, tmp_path: Path) -> None:
    said = bollard("doctor", "--data", str(tmp_path), "--text", BOLLARD_WORKER_SANDBOX="none")
    assert shows("Plugins are not confined", said.out)


@pytest.mark.full
def test_a_silent_model_gives_a_reason(bollard: Any, steady_host: Any) -> None:
    add = ("models", "add", "silent", "--style", "openai-chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m")
    assert bollard(*add, **steady_host.variables).code == 0
    assert shows("A model does not answer", bollard("models", "test", "silent", "--text", **steady_host.variables).out)
    assert bollard("models", "remove", "silent", **steady_host.variables).code == 0


@pytest.mark.full
def test_a_run_that_waits_for_an_approval_shows_it(ask: Any, host: Any, started: Any, tmp_path: Path) -> None:
    agent = {
        "agent_id": "asking",
        "runner_id": "plugin:bollard/demo/default",
        "policy": {
            "access": {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/now"]}}},
            "approval": {"mode": "always"},
        },
    }
    (tmp_path / "agent.json").write_text(json.dumps(agent))
    ask("agents", "save", str(tmp_path / "agent.json"))
    chat = started("chat", "--agent", "asking", "--message", "call now {}", "--json", **host.variables)
    asked = next(line for line in map(json.loads, chat.stdout) if line.get("type") == "approval.requested")
    assert shows("A run waits for an approval", ask("runs", "show", asked["run_id"]))
    assert "denied: now" in ask("approvals", "deny", asked["data"]["approval_id"], "--yes")
    chat.communicate()
