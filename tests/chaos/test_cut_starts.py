"""A host that cannot start exits from any state; and a failed wait of a test reports the reason."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos import patience

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loop_that_ends_during_the_start_of_a_worker_leaves_no_worker(loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    program = [sys.executable, "-m", "tests.chaos.cut_starts", loop]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=patience.PATIENCE_S, check=False)
    *outcomes, left = done.stdout.split("\n")[:-1]
    assert (set(outcomes), left) == ({"cut", "started"}, "left 0"), done.stderr


async def test_a_host_without_its_port_reports_it_and_exits(make_host, scripted):
    host = make_host(scripted)
    with socket.create_server(("127.0.0.1", host.port)), pytest.raises(AssertionError, match="Address already in use"):
        await host.start()
    assert await host.died() == 1


async def test_a_failed_wait_reports_the_state_of_the_host(make_host, scripted, monkeypatch):
    host = make_host(scripted)
    await host.start()
    await host.ready("scripted")
    monkeypatch.setattr(patience, "PATIENCE_S", 0.01)
    with pytest.raises(AssertionError) as said:
        async with host.awaiting("something that never comes"):
            await asyncio.Event().wait()
    monkeypatch.undo()
    for part in ("something that never comes", "journal_process", '"scripted": {', "listening\n"):
        assert part in str(said.value)
