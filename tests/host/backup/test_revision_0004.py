"""A data directory, a backup and an export of revision 0004: the host starts on the first, and the others come back."""

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from bollard.host.backup.archive_verification import ArchiveTrust
from bollard.host.backup.backup import BackupSource
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive
from bollard.host.store.blobs import BlobStore
from bollard.host.store.queries import RunQuery
from bollard.host.store.selection import choose_store

PAST = Path(__file__).parent / "fixtures" / "revision_0004"
HELD = json.loads((PAST / "held.json").read_text(encoding="utf-8"))
BOLLARD = str(Path(sys.executable).with_name("bollard"))
LETTER = b"A letter that is no JSON becomes an artifact of its event.\n"


@pytest.fixture
def data(tmp_path):
    """A copy of the data directory, as its host left it when it was killed."""
    with tarfile.open(PAST / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return tmp_path / "data"


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


class Started:
    """A host on a data directory, in a process of its own."""

    def __init__(self, data):
        places = {"HOME": str(data.parent), "XDG_CONFIG_HOME": str(data.parent / "config"), "LANG": "C.UTF-8"}
        command = [BOLLARD, "up", "--data", str(data), "--port", "0"]
        env = {"PATH": os.environ["PATH"], **places}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=data.parent, env=env, **pipes)

    def __enter__(self):
        for line in self._process.stdout:
            told = json.loads(line)
            if told["event"] == "listening":
                self._address = told["address"]
            if told["event"] == "agent.ready":
                return self
        raise AssertionError("the host ended before it had an agent")

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def ask(self, path, token=HELD["token"], body=None):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["content-type"] = "application/json"
        request = urllib.request.Request(f"{self._address}/api/v1/{path}", sent, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
            return json.loads(content) if answer.headers["content-type"].startswith("application/json") else content


def ids(answer, name):
    return {item[name] for item in answer["items"]}


def test_a_host_starts_on_a_data_directory_of_revision_0004_and_serves_what_was_there(data):
    with Started(data) as host:
        runs = {run["run_id"]: run["status"] for run in host.ask("runs", HELD["key"])["items"]}
        assert runs.keys() == HELD["runs"].keys()
        assert [runs[run_id] for run_id, status in HELD["runs"].items() if status == "completed"] == ["completed"] * 2
        session = host.ask("session", None, {"user": "ann", "password": HELD["password"]})
        assert session["user_id"] == "ann"
        assert "ann" in ids(host.ask("users"), "user_id")
        assert "helper" in ids(host.ask("agents"), "agent_id")
        assert ids(host.ask("bindings"), "binding_id") == {"pushes"}
        assert ids(host.ask("secrets"), "secret_name") == {"POST"}
        assert ids(host.ask("skills"), "skill_id") == {"report-writer"}
        said = [message["content"] for message in host.ask("conversations/room/messages")["items"]]
        assert said == ["you said hello", "hello"]
        assert host.ask(f"artifacts/{HELD['event_artifact']}/content") == LETTER
        assert host.ask(f"files/{HELD['file_id']}/content") == b"notes of the workspace\n"
        assert ids(host.ask("approvals"), "approval_id") == {HELD["approval_id"]}
        assert host.ask("audit/heads")["items"] != []


def test_a_backup_of_revision_0004_restores_when_it_may_be_unsigned(target):
    places = {"data": target.data, "database": target.database}
    with pytest.raises(BadArchive, match="not signed"):
        restore(PAST / "backup.zip", **places, trust=ArchiveTrust(), clock=SystemClock())
    assert not target.data.exists()
    report = restore(PAST / "backup.zip", **places, trust=ArchiveTrust(unsigned=True), clock=SystemClock())
    assert (report.settled.runs, report.missing) == (2, ())
    with opened(target) as store:
        assert {run.run_id for run in store.runs(RunQuery(workspace="default", limit=10))} == HELD["runs"].keys()
        assert store.unfinished_runs("", 10) == []
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        assert [row.id for row in store.all_kept("password")] == ["ann"]
        letter = store.artifact("default", HELD["event_artifact"])
    assert BlobStore(target.data / "blobs").read(letter.sha256) == LETTER


def test_an_export_of_revision_0004_is_imported_when_it_may_be_unsigned_and_incomplete(tmp_path):
    target = BackupSource(database="", data=tmp_path / "there")
    trust = ArchiveTrust(unsigned=True)
    with pytest.raises(BadArchive, match="not signed"):
        import_workspace(PAST / "export.zip", target, trust=ArchiveTrust(), clock=SystemClock(), incomplete=True)
    with pytest.raises(BadArchive, match="is not in the archive"):
        import_workspace(PAST / "export.zip", target, trust=trust, clock=SystemClock())
    assert not target.data.exists()
    report = import_workspace(PAST / "export.zip", target, trust=trust, clock=SystemClock(), incomplete=True)
    assert (report.workspace, report.settled.runs) == ("default", 2)
    assert len(report.missing) == 2, "exports of then have neither bodies of events nor files of skills"
    with opened(target) as store:
        assert {run.run_id for run in store.runs(RunQuery(workspace="default", limit=10))} == HELD["runs"].keys()
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        assert [row.id for row in store.policies("binding", "default")] == ["pushes"]
