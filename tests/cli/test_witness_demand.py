"""A log without a witness is reported, and an operator may require one on another machine."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

RECEIVER = Path(__file__).parents[2] / "examples/witness/receiver.py"
TOKEN = "t0ken"


def cut(data, witness=None):
    """Delete the end of the log together with the heads that know of it; and the witness."""
    with sqlite3.connect(data / "bollard.db") as connection:
        (chain,) = connection.execute("SELECT chain FROM records ORDER BY id DESC LIMIT 1").fetchone()
        (first,) = connection.execute("SELECT min(position) FROM heads WHERE chain = ?", (chain,)).fetchone()
        kept = (chain, first)
        assert connection.execute("DELETE FROM records WHERE chain = ? AND position > ?", kept).rowcount > 0
        connection.execute("DELETE FROM heads WHERE chain = ? AND position > ?", kept)
    connection.close()
    if witness is not None:
        witness.unlink()


def test_a_log_without_a_witness_verifies_with_its_own_exit_code(new_host, bollard):
    host = new_host().start()
    assert bollard("chat", "--agent", "echo", "--message", "hello", **host.variables).code == 0
    host.signal(signal.SIGTERM)
    verify = ("audit", "verify", "--log-only", "--data", str(host.data))
    well = bollard(*verify, "--text")
    assert well.code == 0
    assert "the only witness is in the data directory" in well.out
    cut(host.data, host.data / "witness" / "heads.jsonl")
    unwitnessed = bollard(*verify)
    assert (unwitnessed.code, unwitnessed.json["witnessed"], unwitnessed.json["problems"]) == (5, False, [])
    assert bollard(*verify, "--text").out.count("UNWITNESSED") == 1
    assert "未经见证" in bollard(*verify, "--text", "--lang", "zh_Hans").out
    with sqlite3.connect(host.data / "bollard.db") as connection:
        connection.execute("DELETE FROM records")
        connection.execute("DELETE FROM heads")
    connection.close()
    emptied = bollard(*verify, "--text")
    assert emptied.code == 5
    assert "UNWITNESSED: the log is empty" in emptied.out


@pytest.fixture
def receiver(tmp_path):
    """Starts the receiver of the examples; ends all that it started."""
    started = []

    def start(port=0):
        command = [sys.executable, str(RECEIVER), str(tmp_path / "elsewhere.jsonl"), str(port)]
        environment = {**os.environ, "WITNESS_TOKEN": TOKEN}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.full
def test_a_host_that_requires_a_remote_witness_does_not_start_without_it(new_host, bollard, receiver, tmp_path):
    process, url = receiver()
    demanded = {"BOLLARD_WITNESS": f"{url}/heads", "BOLLARD_WITNESS_TOKEN": TOKEN, "BOLLARD_WITNESS_REQUIRED": "1"}
    host = new_host().start(**demanded)
    assert bollard("chat", "--agent", "echo", "--message", "hello", **host.variables).code == 0
    host.signal(signal.SIGTERM)
    verify = ("audit", "verify", "--data", str(host.data))
    verified = bollard(*verify, **demanded)
    assert (verified.code, verified.json["witnessed"], verified.json["unwitnessed"]) == (0, True, 0)

    host.start(**demanded)
    process.kill()
    process.wait()
    done = bollard("chat", "--agent", "echo", "--message", "the witness is down", **host.variables)
    assert done.code == 0, "only the witness may be down"
    host.signal(signal.SIGTERM)
    up = ("up", "--port", "0", "--data", str(host.data))
    refused = bollard(*up, **demanded)
    assert refused.code == 4
    assert "cannot be read: Connection refused" in refused.err
    assert TOKEN not in refused.err + host.log

    _, again = receiver(int(url.rpartition(":")[2]))
    assert again == url
    host.start(**demanded)  # the missing heads are sent to the witness now
    assert bollard("chat", "--agent", "echo", "--message", "again", **host.variables).code == 0
    host.signal(signal.SIGTERM)
    cut(host.data)
    broken = bollard(*verify, "--log-only", **demanded)
    assert (broken.code, [each["kind"] for each in broken.json["problems"]]) == (1, ["truncated"])
    refused = bollard(*up, **demanded)
    assert refused.code == 4
    assert "the witness names record" in refused.err
    name = refused.err.rpartition("BOLLARD_BROKEN_LOG=")[2].strip()
    host.start(BOLLARD_BROKEN_LOG=name, **demanded)
    gaps = bollard("audit", "show", "--type", "audit.gap", **host.variables)
    assert gaps.json["items"], "the log says that it goes on behind what the witness knew"
    host.signal(signal.SIGTERM)
    host.start(**demanded)
    lines = [json.loads(line) for line in (tmp_path / "elsewhere.jsonl").read_text().splitlines()]
    assert {line["chain"] for line in lines} > {name.partition(":")[0]}
