"""`bollard backup`, `restore`, `export`, `import` and `migrate` as an operator uses them."""

import json
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.full


BOLLARD = str(Path(sys.executable).with_name("bollard"))
FIXTURES = Path(__file__).parents[1] / "host/backup/fixtures"


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """A data directory with a database of the previous revision."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with sqlite3.connect(data / "bollard.db") as connection:
        connection.executescript((FIXTURES / "v0001.sqlite.sql").read_text(encoding="utf-8"))
    connection.close()
    return data


@pytest.mark.smoke
def test_a_backup_of_a_running_host_is_restored_and_answers_as_before(new_host, bollard, tmp_path):
    host = new_host().start()
    bollard("chat", "--message", "hello", "--message", "count 3", **host.variables)
    archive = tmp_path / "all.zip"
    done = bollard("backup", str(archive), "--data", str(host.data), "--with-keys")
    assert (done.code, done.err) == (0, "")
    assert done.json["missing"] == []
    assert done.json["records"] > 10
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    before = bollard("runs", **host.variables).json
    bollard("chat", "--message", "after the backup", **host.variables)
    host.signal(signal.SIGTERM)

    there = tmp_path / "there"
    restored = bollard("restore", str(archive), "--data", str(there), "--trust", done.json["signed_by"])
    assert (restored.code, restored.err) == (0, "")
    assert restored.json["runs_ended"] == 0
    host.data.rename(host.folder / "old")
    there.rename(host.data)
    host.start()
    assert bollard("runs", **{**host.variables, "BOLLARD_TOKEN": host.token}).json == before
    assert bollard("doctor", "--data", str(host.data), **host.variables).code == 0
    said = bollard("chat", "--message", "hello", **{**host.variables, "BOLLARD_TOKEN": host.token})
    assert said.code == 0


def test_a_restore_without_keys_warns_and_the_next_start_prints_a_new_token(new_host, bollard, tmp_path):
    host = new_host().start()
    bollard("chat", "--message", "hello", **host.variables)
    first = host.token
    told = bollard("backup", str(tmp_path / "a.zip"), "--data", str(host.data), "--text")
    assert "The archive contains no keys." in told.out
    (fingerprint,) = re.findall(r"signed by the key ([0-9a-f]{64})", told.out)
    host.signal(signal.SIGTERM)
    host.data.rename(host.folder / "old")
    told = bollard("restore", str(tmp_path / "a.zip"), "--data", str(host.data), "--text", "--trust", fingerprint)
    assert "prints a new admin token" in told.out
    host.start()
    assert host.token != first
    refused = bollard("agents", "--url", host.url, "--token", first, XDG_CONFIG_HOME="/nonexistent")
    assert "rejected the token" in refused.err
    assert bollard("runs", **{**host.variables, "BOLLARD_TOKEN": host.token}).json["items"]


def test_an_obstacle_of_a_backup_or_restore_is_named_and_nothing_is_written(bollard, past, tmp_path):
    archive = tmp_path / "all.zip"
    lost = bollard("backup", str(archive), "--data", str(past))
    assert lost.code == 1
    assert "contents that the log refers to are missing from the data directory" in lost.err
    assert "--incomplete" in lost.err
    done = bollard("backup", str(archive), "--data", str(past), "--incomplete")
    assert done.json["missing"] != []
    trust = ("--trust", done.json["signed_by"])
    again = bollard("backup", str(archive), "--data", str(past))
    assert (again.code, again.err.splitlines()[0]) == (2, "bollard: all.zip exists already and is not overwritten")
    nowhere = bollard("backup", "b.zip", "--data", "nowhere")
    assert (nowhere.code, nowhere.err.splitlines()[0]) == (2, "bollard: nowhere is not a folder")
    busy = bollard("restore", str(archive), "--data", str(past), *trust)
    assert busy.code == 2
    assert "is not empty" in busy.err
    whole = archive.read_bytes()
    archive.write_bytes(whole[:300] + b"\xff" + whole[301:])
    broken = bollard("restore", str(archive), "--data", "new", *trust)
    assert broken.code == 1
    assert "hint: " in broken.err
    assert not (tmp_path / "new").exists()
    missing = bollard("restore", "absent.zip", "--data", "new")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "bollard: there is no file absent.zip")


def test_a_workspace_moves_from_one_host_to_another(bollard, past, tmp_path):
    done = bollard("export", "w.zip", "--workspace", "default", "--data", str(past), "--incomplete")
    assert (done.code, done.err) == (1, ""), "its contents are not in this directory"
    assert done.json["gone"] != []
    assert done.json["records"] > 10
    there = tmp_path / "there"
    there.mkdir()
    assert bollard("migrate", "--data", "there").json["migrated"] is True
    trust = ("--trust", done.json["signed_by"])
    came = bollard("import", "w.zip", "--data", "there", *trust)
    assert (came.code, came.err) == (0, "")
    assert (came.json["workspace"], came.json["runs_ended"]) == ("default", 1)
    again = bollard("import", "w.zip", "--data", "there", *trust)
    assert again.code == 2
    assert "is not empty here" in again.err
    wrong = bollard("export", "x.zip", "--workspace", "nobody", "--data", str(past))
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "bollard: there is no workspace 'nobody'")
    kind = bollard("restore", "w.zip", "--data", "new")
    assert "import the archive of a workspace with `bollard import`" in kind.err


def test_an_erased_person_stays_erased_in_a_restore_and_an_import(new_host, bollard, tmp_path):
    host = new_host().start()
    for name in ("dora", "carl"):
        posted = ("--agent", "echo", "--message", f"of {name}", "--actor", f"room:{name}")
        assert bollard("events", "post", "--type", "note.taken", *posted, **host.variables).code == 0
    taken = bollard("backup", "all.zip", "--data", str(host.data))
    export = bollard("export", "w.zip", "--workspace", "default", "--data", str(host.data))
    erased = bollard("people", "erase", "room:dora", "--yes", **host.variables)
    assert erased.code == 0, erased.err
    host.signal(signal.SIGTERM)
    trust = ("--erasures", str(host.data / "erasures.jsonl"), "--trust")
    restored = bollard("restore", "all.zip", "--data", "there", *trust, taken.json["signed_by"])
    assert (restored.code, restored.json["records_erased"] > 3) == (0, True), restored.err
    (tmp_path / "new").mkdir()
    assert bollard("migrate", "--data", "new").code == 0
    came = bollard("import", "w.zip", "--data", "new", *trust, export.json["signed_by"])
    assert (came.code, came.json["records_erased"] > 3) == (0, True), came.err
    for data in ("there", "new"):
        with sqlite3.connect(tmp_path / data / "bollard.db") as database:
            said = [row[0] for row in database.execute("SELECT data FROM records WHERE data IS NOT NULL")]
        database.close()
        assert not [row for row in said if b"of dora" in bytes(row)]
        assert [row for row in said if b"of carl" in bytes(row)]
    for name, problem in (("absent.jsonl", "there is no"), ("wrong.jsonl", "line 1 of ")):
        (tmp_path / "wrong.jsonl").write_text("{}\n")
        refused = bollard(
            "restore", "all.zip", "--data", "more", "--erasures", name, *trust[2:], taken.json["signed_by"]
        )
        assert refused.code != 0
        assert problem in refused.err
    assert not (tmp_path / "more").exists()


def test_an_invalid_archive_creates_no_directory(bollard, tmp_path):
    (tmp_path / "notes.txt").write_text("not a zip")
    for name in ("absent.zip", "notes.txt"):
        refused = bollard("import", name, "--data", "there")
        assert refused.code != 0
        assert "hint:" in refused.err
    assert not (tmp_path / "there").exists()


def test_a_workspace_is_not_imported_under_a_running_host(new_host, bollard, past, tmp_path):
    trust = ("--trust", bollard("export", "w.zip", "--data", str(past), "--incomplete").json["signed_by"])
    host = new_host().start()
    refused = bollard("import", "w.zip", "--data", str(host.data), *trust)
    assert refused.code == 2
    assert f"is in use by process {host.process.pid}" in refused.err


def test_migrate_prints_both_schemas_and_upgrades(bollard, past, tmp_path):
    empty = bollard("migrate", "--check", "--data", "nowhere")
    assert (empty.code, empty.json["state"]) == (0, "empty")
    older = bollard("migrate", "--check", "--data", str(past))
    assert (older.code, older.json["current"], older.json["state"]) == (1, "0001", "older")
    assert older.json["migrated"] is False
    done = bollard("migrate", "--data", str(past))
    assert (done.code, done.json["migrated"]) == (0, True)
    now = bollard("migrate", "--check", "--data", str(past))
    assert (now.code, now.json["state"]) == (0, "current")
    assert now.json["current"] == now.json["needed"] == older.json["needed"]
    assert "升级" in bollard("migrate", "--data", str(past), "--text", "--help", BOLLARD_LANG="zh_Hans").out


@pytest.mark.parametrize("command", [("migrate", "--check"), ("migrate",), ("up", "--port", "0"), ("log", "rebuild")])
def test_an_older_program_refuses_a_newer_database_in_every_command(bollard, past, command):
    with sqlite3.connect(past / "bollard.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    done = bollard(*command, "--data", str(past))
    assert done.code == 4
    assert done.err.startswith("bollard: a newer version wrote the data: ")
    assert "9999" in done.err
    assert "hint: run that version, or restore a backup made before the upgrade" in done.err


def test_a_backup_of_the_previous_revision_is_restored_by_this_one(bollard, past, tmp_path):
    archive = tmp_path / "old.zip"
    taken = bollard("backup", str(archive), "--data", str(past), "--incomplete")
    assert taken.code == 1, "its contents are not here"
    with zipfile.ZipFile(archive) as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
    assert manifest["revision"] == "0001"
    assert len(manifest["missing"]) > 0
    done = bollard("restore", str(archive), "--data", "new", "--trust", taken.json["signed_by"])
    assert (done.code, done.json["runs_ended"]) == (0, 1)
    assert bollard("migrate", "--check", "--data", "new").json["state"] == "current"


def test_a_backup_is_restored_into_a_mounted_folder(bollard, past, tmp_path):
    """As a volume of a container: it is empty, and it cannot be replaced."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing: it gives the command a disk of its own")
    trust = bollard("backup", "all.zip", "--data", str(past), "--incomplete").json["signed_by"]
    (tmp_path / "volume").mkdir()
    script = (
        "mount -t tmpfs tmpfs volume && mkdir volume/lost+found && "
        '"$1" restore all.zip --data volume --trust "$2" && ls -A volume'
    )
    command = ["unshare", "-Urm", "sh", "-c", script, "sh", BOLLARD, trust]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    if "mount" in done.stderr:
        pytest.skip(f"a tmpfs in a user namespace is missing: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert {"bollard.db", "keys", "lost+found"} <= set(done.stdout.splitlines())
    assert not [name for name in done.stdout.splitlines() if "restoring" in name]


def test_a_progress_bar_is_drawn_on_a_terminal(terminal, past):
    shown = terminal("backup", "a.zip", "--data", str(past), "--incomplete", "--text", columns=120)
    shown.expect("wrote a.zip")
    assert shown.end() == 1


PAST = FIXTURES / "revision_0004"


def test_an_archive_of_an_unknown_signer_is_refused_unattended_and_writes_nothing(bollard, past, tmp_path):
    taken = bollard("backup", "all.zip", "--data", str(past), "--incomplete").json
    bollard("export", "w.zip", "--data", str(past), "--incomplete")
    past.rename(tmp_path / "gone")  # where a command looks for the host of this machine
    for words in (("restore", "all.zip"), ("import", "w.zip")):
        refused = bollard(*words, "--data", "new", "--text")
        assert refused.code == 1
        assert f"--trust {taken['signed_by']}" in refused.err
        other = bollard(*words, "--data", "new", "--trust", "0" * 64, "--unsigned")
        assert (other.code, taken["signed_by"] in other.err) == (1, True)
        chinese = bollard(*words, "--data", "new", BOLLARD_LANG="zh_Hans")
        assert "未知的密钥" in chinese.err
    wrong = bollard("restore", "all.zip", "--data", "new", "--trust", "abc")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "bollard: abc is not a fingerprint")
    for words in (("restore", PAST / "backup.zip"), ("import", PAST / "export.zip", "--incomplete")):
        refused = bollard(*map(str, words), "--data", "new")
        assert refused.code == 1
        assert "is not signed" in refused.err
        assert "--unsigned" in refused.err
    assert not (tmp_path / "new").exists()


def test_an_unsigned_archive_is_restored_on_request(bollard):
    restored = bollard("restore", str(PAST / "backup.zip"), "--data", "restored", "--unsigned", "--text")
    assert restored.code == 0, restored.err
    assert "2 runs ended as lost, 1 approvals and 1 questions expired" in restored.out
    assert ": book was not decided (run " in restored.out
    assert "Which one?" in restored.out
    imported = bollard("import", str(PAST / "export.zip"), "--data", "imported", "--unsigned", "--incomplete")
    assert imported.code == 0, imported.err
    assert len(imported.json["missing"]) == 2
    assert [each["name"] for each in imported.json["approvals_expired"]] == ["book"]


def test_the_own_key_of_the_default_data_directory_is_trusted(bollard, past):
    """A backup of the host of this machine is restored beside it without a question."""
    usual = {"BOLLARD_DATA": str(past.rename(past.with_name("usual")))}
    bollard("backup", "all.zip", "--incomplete", **usual)
    assert bollard("restore", "all.zip", "--data", "restored", **usual).code == 0


def test_a_user_confirms_the_fingerprint_of_an_archive_or_nothing_is_written(bollard, terminal, past, tmp_path):
    fingerprint = bollard("backup", "all.zip", "--data", str(past), "--incomplete").json["signed_by"]
    past.rename(tmp_path / "gone")
    asked = terminal("restore", "all.zip", "--data", "new")
    asked.expect(fingerprint)
    asked.expect("Do the fingerprints match")
    asked.send("no\n")
    asked.expect("Nothing was written")
    assert asked.end() == 1
    assert not (tmp_path / "new").exists()
    asked = terminal("restore", "all.zip", "--data", "new", BOLLARD_LANG="zh_Hans")
    asked.expect(fingerprint)
    asked.expect("输入 yes 继续")
    asked.send("yes\n")
    asked.expect("恢复到 new")
    assert asked.end() == 0
    asked = terminal("import", str(PAST / "export.zip"), "--data", "there", "--incomplete")
    asked.expect("IT IS NOT SIGNED")
    asked.expect("Type yes to continue")
    asked.send("yes\n")
    asked.expect("imported default")
    assert asked.end() == 0
