"""Data directories, backups and exports of revisions since 0004: a host starts on the first and reads the others."""

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from tests.host.backup.conftest import believing

from bollard.host.backup.archive_verification import ArchiveTrust
from bollard.host.backup.backup import BackupSource
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive
from bollard.host.store.blobs import BlobStore
from bollard.host.store.queries import RunQuery
from bollard.host.store.selection import choose_store

FIXTURES = Path(__file__).parent / "fixtures"
DISTRUST = {"0004": "not signed", "0005": "signed by"}
MISSING_FROM_EXPORT = {"0004": 2, "0005": 0}
"""Exports of revision 0004 have neither bodies of events nor files of skills."""
BOLLARD = str(Path(sys.executable).with_name("bollard"))
LETTER = b"A letter that is no JSON becomes an artifact of its event.\n"


@pytest.fixture(params=["0004", "0005"])
def revision(request):
    return request.param


@pytest.fixture
def past(revision):
    """The folder of the revision."""
    return FIXTURES / f"revision_{revision}"


@pytest.fixture
def held(past):
    """The content of the data directory."""
    return json.loads((past / "held.json").read_text(encoding="utf-8"))


@pytest.fixture
def data(tmp_path, past):
    """A copy of the data directory, as its host left it when it was killed."""
    with tarfile.open(past / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return tmp_path / "data"


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


class Started:
    """A host on a data directory, in a separate process."""

    def __init__(self, data, token):
        self._token = token
        places = {"HOME": str(data.parent), "XDG_CONFIG_HOME": str(data.parent / "config"), "LANG": "C.UTF-8"}
        command = [BOLLARD, "up", "--data", str(data), "--port", "0"]
        env = {"PATH": os.environ["PATH"], **places}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, cwd=data.parent, env=env, **pipes)

    def __enter__(self):
        for line in self._process.stdout:
            entry = json.loads(line)
            if entry["event"] == "listening":
                self._address = entry["address"]
            if entry["event"] == "agent.ready":
                return self
        raise AssertionError("the host ended before it had an agent")

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def ask(self, path, token=None, body=None):
        token = self._token if token is None else token
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


def test_a_host_starts_on_a_data_directory_of_an_earlier_revision_and_serves_its_content(data, held):
    with Started(data, held["token"]) as host:
        runs = {run["run_id"]: run["status"] for run in host.ask("runs")["items"]}
        assert runs.keys() == held["runs"].keys()
        # ADR 0108: a saved agent keeps its audience; a key sees no runs of others with a built-in agent.
        assert host.ask("agents/helper")["policy"]["audience"]["see"]["who"] == "everyone"
        assert {run["agent_id"] for run in host.ask("runs", held["key"])["items"]} == {"helper"}
        assert [runs[run_id] for run_id, status in held["runs"].items() if status == "completed"] == ["completed"] * 2
        session = host.ask("session", "", {"user": "ann", "password": held["password"]})
        assert session["user_id"] == "ann"
        assert "ann" in ids(host.ask("users"), "user_id")
        assert "helper" in ids(host.ask("agents"), "agent_id")
        assert ids(host.ask("bindings"), "binding_id") == {"pushes"}
        assert ids(host.ask("secrets"), "secret_name") == {"POST"}
        assert ids(host.ask("skills"), "skill_id") == {"report-writer"}
        said = [message["content"] for message in host.ask("conversations/room/messages")["items"]]
        assert said == ["you said hello", "hello"]
        assert host.ask(f"artifacts/{held['event_artifact']}/content") == LETTER
        assert host.ask(f"files/{held['file_id']}/content") == b"notes of the workspace\n"
        assert ids(host.ask("approvals"), "approval_id") == {held["approval_id"]}
        assert host.ask("audit/heads")["items"] != []


def test_a_backup_of_an_earlier_revision_restores_when_it_is_trusted(target, past, held, revision):
    archive, places = past / "backup.zip", {"data": target.data, "database": target.database}
    with pytest.raises(BadArchive, match=DISTRUST[revision]):
        restore(archive, **places, trust=ArchiveTrust(), clock=SystemClock())
    assert not target.data.exists()
    report = restore(archive, **places, trust=believing(archive), clock=SystemClock())
    assert (report.settled.runs, report.missing) == (2, ())
    with opened(target) as store:
        assert {run.run_id for run in store.runs(RunQuery(workspace="default", limit=10))} == held["runs"].keys()
        assert store.unfinished_runs("", 10) == []
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        assert [row.id for row in store.all_kept("password")] == ["ann"]
        letter = store.artifact("default", held["event_artifact"])
    assert BlobStore(target.data / "blobs").read(letter.sha256) == LETTER


def test_a_trusted_export_of_an_earlier_revision_is_imported_even_if_incomplete(tmp_path, past, held, revision):
    archive, target = past / "export.zip", BackupSource(database="", data=tmp_path / "there")
    missing, trust = MISSING_FROM_EXPORT[revision], believing(archive)
    with pytest.raises(BadArchive, match=DISTRUST[revision]):
        import_workspace(archive, target, trust=ArchiveTrust(), clock=SystemClock(), incomplete=True)
    if missing:
        with pytest.raises(BadArchive, match="is not in the archive"):
            import_workspace(archive, target, trust=trust, clock=SystemClock())
    assert not target.data.exists()
    report = import_workspace(archive, target, trust=trust, clock=SystemClock(), incomplete=bool(missing))
    assert (report.workspace, report.settled.runs, len(report.missing)) == ("default", 2, missing)
    with opened(target) as store:
        assert {run.run_id for run in store.runs(RunQuery(workspace="default", limit=10))} == held["runs"].keys()
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        assert [row.id for row in store.policies("binding", "default")] == ["pushes"]
