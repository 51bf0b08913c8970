"""`bollard audit` as an auditor uses it: shown, taken away, verified, changed behind the host's back, proved."""

import json
import shutil
import signal
import sqlite3

import pytest


@pytest.fixture
def stopped(new_host, bollard, tmp_path):
    """A host that had a run and was stopped in order; its data directory, and the run."""
    host = new_host().start()
    bollard("chat", "--message", "hello", **host.variables)
    (run,) = bollard("runs", **host.variables).json["items"]
    out = tmp_path / "all.jsonl"
    taken = bollard("audit", "export", "--type", "run.ended", "--out", str(out), **host.variables)
    assert (taken.code, taken.json["records"]) == (0, 1)
    assert out.stat().st_mode & 0o777 == 0o600
    assert json.loads(out.read_text())["run_id"] == run["run_id"]
    table = bollard("audit", "show", "--limit", "300", "--text", **host.variables)
    assert (table.code, table.err) == (0, "")
    assert "audit.exported" in table.out
    assert run["run_id"] in table.out
    host.signal(signal.SIGTERM)
    return host.data, run["run_id"]


def test_a_log_verifies_one_changed_byte_is_found_and_a_run_is_proved_by_public_key(stopped, bollard, tmp_path):
    data, run_id = stopped
    well = bollard("audit", "verify", "--data", str(data), "--text")
    assert well.code == 0, well.out
    assert well.out.startswith("the log is intact: ")
    assert "unsigned" not in well.out
    proof = tmp_path / "run.json"
    written = bollard("audit", "prove", run_id, "--out", str(proof), "--data", str(data))
    assert (written.code, written.err) == (0, "")
    assert proof.stat().st_mode & 0o777 == 0o600
    (key,) = json.loads(proof.read_text())["public_keys"].values()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    checked = bollard("audit", "verify", "--proof", str(proof), "--public-key", key, cwd=elsewhere)
    assert (checked.code, checked.json["proved"], checked.json["run_id"]) == (0, True, run_id)
    proof.write_text(proof.read_text().replace("hello", "hallo"))
    forged = bollard("audit", "verify", "--proof", str(proof), "--text")
    assert forged.code == 1
    assert "Compare" in forged.out, "whose key it is must be said"

    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    with sqlite3.connect(copy / "bollard.db") as connection:
        (place,) = connection.execute("SELECT position FROM records WHERE type = 'run.ended'").fetchone()
        connection.execute(
            "UPDATE records SET data = CAST(replace(data, 'completed', 'cOmpleted') AS BLOB) WHERE type = 'run.ended'"
        )
    connection.close()
    told = bollard("audit", "verify", "--data", str(copy), "--lang", "zh_Hans", "--text")
    assert told.code == 1
    assert f"第 {place} 条" in told.out

    with sqlite3.connect(data / "bollard.db") as connection:  # the end, with every head that knows of it
        (last,) = connection.execute("SELECT max(position) FROM records WHERE workspace = 'default'").fetchone()
        connection.execute("DELETE FROM records WHERE position > ?", (last - 2,))
        connection.execute("DELETE FROM heads WHERE position > ?", (last - 2,))
    connection.close()
    cut = bollard("audit", "verify", "--data", str(data))
    assert (cut.code, [(each["kind"], each["position"]) for each in cut.json["problems"]]) == (
        1,
        [("truncated", last - 1)],
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("verify", "--data", "{empty}"), "no public key in"),
        (("verify", "--proof", "nowhere.json"), "cannot be read as a proof"),
        (("verify", "--public-key", "abc", "--data", "{empty}"), "is not a public key"),
        (("show", "--severity", "loud"), "loud"),
    ],
)
def test_wrong_usage_is_refused_with_a_hint(bollard, tmp_path, arguments, sentence):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = bollard("audit", *(each.format(empty=empty) for each in arguments))
    assert done.code == 2, done
    assert sentence in done.err
    assert "hint" in done.err
