"""A call is parked, the host is killed, and the call is approved after the restart: it is made once, and the
conversation gets a report. The same holds if the host is killed right after the approval or right after the call."""

import asyncio
import json
import os
import random
import sys

import pytest
from tests.chaos.patience import PATIENCE_S

AGENT = "courier"
POINTS = ["approval.before_detached", "approval.after_detached"]
ACCESS = {"permissions": {"tools": ["call", "detail"]}, "resources": {"tools": {"add": ["tool:local/courier/deliver"]}}}


async def until(ask, fits):
    """Ask until the answer fits, for a bounded time."""
    async with asyncio.timeout(PATIENCE_S):
        while not fits(found := await ask()):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    return found


async def command(host, *arguments):
    """The real command line, as a person at another terminal."""
    environment = {**os.environ, "BOLLARD_URL": f"http://127.0.0.1:{host.port}", "BOLLARD_TOKEN": host._token()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from bollard.cli.main import main; main()",
        *arguments,
        "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    async with host.awaiting("the command to end"):
        said, problem = await process.communicate()
    return process.returncode, json.loads(said) if said else problem.decode()


async def parked(host, ledger):
    """A run whose call waits for a yes; its approval."""
    body = {"runner_id": "plugin:local/courier/default", "config": {}, "policy": {"access": ACCESS}}
    await host.start()
    await host.ready(AGENT)
    async with host.client.request("PUT", f"/api/v1/agents/{AGENT}", body) as answer:
        assert answer.status in (200, 201), await answer.json()
    said = {"agent": AGENT, "input": {"text": "go"}, "conversation": "room"}
    data = {"ledger": str(ledger), "parcel": "one"}
    run = await host.client.post("/api/v1/runs", {**said, "data": data})
    path = f"/api/v1/runs/{run['run_id']}"
    found = await until(lambda: host.client.get(path), lambda run: run["status"] not in ("running", "dispatching"))
    assert found["status"] == "waiting", json.dumps(await host.client.get(f"{path}/records"))
    (item,) = (await host.client.get("/api/v1/approvals?status=requested"))["items"]
    assert item["run_id"] == run["run_id"]
    return item


def conversation(host):
    return host.client.get("/api/v1/conversations/room/messages")


@pytest.mark.parametrize("killed", ["once", "again"])
async def test_an_approval_after_the_kill_is_executed_once_and_reported(
    make_host, plugin_path, tmp_path, killed, seed, rounds
):
    points = [""] if killed == "once" else POINTS if rounds > len(POINTS) * 2 else [random.Random(seed).choice(POINTS)]
    for number, again in enumerate(points):
        await one_yes(make_host(plugin_path("courier")), tmp_path / f"delivered-{number}", again)


async def one_yes(host, ledger, again):
    """Parked, killed, allowed; and, with `again`, killed at that point behind the yes."""
    item = await parked(host, ledger)
    await host.kill()
    assert not ledger.exists()

    await host.start(again)
    path = f"/api/v1/approvals/{item['approval_id']}"
    await until(lambda: host.client.get(f"/api/v1/runs/{item['run_id']}"), lambda run: run["status"] == "failed")
    assert (await host.client.get(path))["status"] == "requested"
    code, said = await command(host, "approvals", "allow", item["approval_id"])
    if again:  # the host dies in the middle of it, and its answer may be lost with it
        await host.died()
        await host.start()
    else:
        assert code == 0, said
        assert said["status"] in ("granted", "used")
        assert said["by"] == "admin-token"

    await until(lambda: host.client.get(path), lambda found: found["status"] == "used")
    assert ledger.read_text() == "one\n"
    page = await until(lambda: conversation(host), lambda page: "the parcel" in json.dumps(page))
    told = [message["content"] for message in page["items"] if message["role"] == "assistant"]
    assert told.count("the parcel: completed") == 1

    code, said = await command(host, "approvals", "allow", item["approval_id"])
    assert code != 0
    assert ledger.read_text() == "one\n"
    await host.kill()
