"""F18: a backup of an earlier moment is restored. Unfinished work of that moment is not repeated, and positions from
the time between are never mistaken. Interrupted copies leave nothing half done."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos.test_parked_calls import command as say
from tests.chaos.test_parked_calls import parked, until
from tests.simulation.history import View

from bollard.host.backup.archive_verification import own_fingerprints

BOLLARD = str(Path(sys.executable).with_name("bollard"))
FIXTURES = Path(__file__).parents[1] / "host/backup/fixtures"
ENDLESS = {"deltas": 1_000_000, "pause_ms": 20}


def command(*arguments):
    return subprocess.run(
        [BOLLARD, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment()
    )


def environment():
    return {**os.environ, "LANG": "C.UTF-8"}


async def _run(client, number, data):
    body = {"source": "old", "id": f"e{number}", "type": "message.received", "agent": "scripted", "text": "go"}
    return (await client.post("/api/v1/events", {**body, "data": data}))["run_id"]


async def test_unfinished_work_of_an_old_backup_is_not_repeated_and_later_positions_get_a_gap(
    make_host, scripted, tmp_path
):
    host = make_host(scripted)
    await host.start()
    await host.ready("scripted")
    first = await _run(host.client, 1, {"deltas": 3})
    going = await _run(host.client, 2, ENDLESS)
    view = View(going)
    reader = asyncio.create_task(host.client.watch(view))
    async with host.awaiting("the first records"):
        while len(view.records) < 20:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    done = await asyncio.to_thread(command, "backup", tmp_path / "old.zip", "--data", host.data, "--with-keys")
    assert done.returncode == 0, done.stderr
    seen = len(view.records)
    async with host.awaiting("records after the backup"):
        while len(view.records) < seen + 50:  # noqa: ASYNC110 -- the time that the backup knows nothing of
            await asyncio.sleep(0.01)
    later = await _run(host.client, 3, {"deltas": 1})
    page = await host.client.get("/api/v1/runs?limit=1")
    place = view.place
    token = (host.data / "token").read_text()
    await host.kill()
    with contextlib.suppress(Exception):
        await reader

    shutil.rmtree(host.data)
    trust = ("--trust", json.loads(done.stdout)["signed_by"])
    done = await asyncio.to_thread(command, "restore", tmp_path / "old.zip", "--data", host.data, *trust)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs_ended"] == 1
    (host.data / "token").write_text(token)  # the keys came back, so it is valid
    await host.start()
    await host.ready("scripted")
    runs = {run["run_id"]: run for run in (await host.client.get("/api/v1/runs"))["items"]}
    assert runs[first]["status"] == "completed"
    assert (runs[going]["status"], later in runs) == ("failed", False)
    assert (await host.health())["runs"]["live"] == 0

    async with host.client.request("GET", f"/api/v1/runs/{going}/stream", headers={"last-event-id": place}) as answer:
        records = [record async for record in answer.events()]
    assert records[0].type == "gap"
    assert json.loads(records[0].json)["data"]["reason"] == "uncommitted"
    assert records[-1].type == "run.ended"
    assert b"host.lost" in records[-1].json
    async with host.client.request("GET", f"/api/v1/runs?limit=1&cursor={page['next_cursor']}") as answer:
        assert 400 <= answer.status < 500, "a page cursor of a time that never was"
    async with host.client.request("GET", f"/api/v1/runs/{later}/stream", headers={"last-event-id": "1.3"}) as answer:
        assert answer.status == 404
    again = await _run(host.client, 3, {"deltas": 1})
    assert again != later, "the event of the lost time is new to this host"


async def test_an_open_approval_of_a_backup_does_not_act_after_a_restore(make_host, plugin_path, tmp_path):
    """A yes after the backup had its effect; the restored store must not offer the same question again."""
    host, ledger = make_host(plugin_path("courier")), tmp_path / "delivered"
    item = await parked(host, ledger)
    path = f"/api/v1/approvals/{item['approval_id']}"
    done = await asyncio.to_thread(command, "backup", tmp_path / "old.zip", "--data", host.data, "--with-keys")
    assert done.returncode == 0, done.stderr
    assert (await say(host, "approvals", "allow", item["approval_id"]))[0] == 0
    await until(lambda: host.client.get(path), lambda found: found["status"] == "used")
    assert ledger.read_text() == "one\n"
    token = (host.data / "token").read_text()
    await host.kill()

    shutil.rmtree(host.data)
    trust = ("--trust", json.loads(done.stdout)["signed_by"])
    done = await asyncio.to_thread(command, "restore", tmp_path / "old.zip", "--data", host.data, *trust)
    assert done.returncode == 0, done.stderr
    assert [each["approval_id"] for each in json.loads(done.stdout)["approvals_expired"]] == [item["approval_id"]]
    (host.data / "token").write_text(token)  # the keys came back, so it is valid
    await host.start()
    await host.ready("courier")
    assert (await host.client.get(path))["status"] == "expired"
    code, said = await say(host, "approvals", "allow", item["approval_id"])
    assert code != 0, said
    assert ledger.read_text() == "one\n"


@pytest.fixture
def past(tmp_path):
    data = tmp_path / "past"
    data.mkdir()
    with sqlite3.connect(data / "bollard.db") as connection:
        connection.executescript((FIXTURES / "v0001.sqlite.sql").read_text(encoding="utf-8"))
    connection.close()
    return data


def _killed_after(seconds, *arguments):
    process = subprocess.Popen(
        [BOLLARD, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    return process.wait()


@pytest.mark.parametrize("wait_s", [0.3, 0.6, 0.9])
def test_a_killed_backup_or_restore_leaves_a_complete_result_or_nothing(past, tmp_path, wait_s):
    archive, there = tmp_path / "all.zip", tmp_path / "there"
    _killed_after(wait_s, "backup", archive, "--data", past, "--incomplete")
    if not archive.exists():
        command("backup", archive, "--data", past, "--incomplete")
    (fingerprint,) = own_fingerprints([past])
    _killed_after(wait_s, "restore", archive, "--data", there, "--trust", fingerprint)
    if not there.exists():
        done = command("restore", archive, "--data", there, "--trust", fingerprint)
        assert done.returncode == 0, "a whole archive, in spite of the kill"
    assert json.loads(command("migrate", "--check", "--data", there).stdout)["state"] == "current"
    assert command("doctor", "--data", there, "--port", "0").returncode == 0
    left = [path.name for path in tmp_path.iterdir() if path.name.endswith((".partial", ".restoring"))]
    assert len(left) <= 2, "what was cut off, until the next one"
