"""Workers that break the protocol: real processes without the SDK, in a pool."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from bollard.host.errors import WorkerUnavailable
from bollard.host.limits import WORKER_CRASHES
from bollard.wire import Violation

READY_S = 60.0
HOSTILE = Path(__file__).with_name("hostile.py").read_text(encoding="utf-8")


def open_hostile(pools: Any, *arguments: str, env: list[str] | None = None, **more: Any) -> tuple[Any, list[Violation]]:
    """A pool of a program with a manifest, whose workers use the interpreter of the tests."""
    found: list[Violation] = []
    folder = pools.write_folder("hostile", HOSTILE, env or [])
    command = (sys.executable, str(folder / "runner.py"), *arguments)
    return pools._open("hostile", folder, command=command, violated=found.append, **more), found


async def strike_out(pool: Any, gone: Any) -> None:
    """Wait for one worker after the other, until the plugin gets none any more."""
    while True:
        slot = await pool.wait_ready(READY_S)
        await asyncio.to_thread(gone, slot.pid)


@pytest.mark.requirement("P05-42", "P11-43")
async def test_workers_that_strike_out_quarantine_their_plugin_and_no_other(
    pools: Any, gone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARROT_KEY", "sk-very-secret")
    good = pools.open()
    kept = await good.wait_ready(READY_S)
    bad, found = open_hostile(pools, "strikes", env=["PARROT_KEY"])
    with pytest.raises(WorkerUnavailable, match="quarantined") as refusal:
        await strike_out(bad, gone)
    assert "an answer to no call" in refusal.value.message
    assert [(each.kind, each.run_id, each.ends) for each in found] == [
        ("foreign_result", "theirs", "nothing"),
        ("foreign_call", "key ***", "nothing"),
        ("forged_answer", None, "worker"),
    ] * WORKER_CRASHES
    assert (bad.status, bad.pids, bad.crashes) == ("quarantined", [], WORKER_CRASHES)
    assert (good.pick(), good.crashes) == (kept, 0), "its worker goes on, and nothing was restarted"
    assert (await pools.run(kept, "hello").spoke()) == "hello"


async def test_a_worker_with_another_version_than_its_manifest_is_refused(pools: Any) -> None:
    pool, found = open_hostile(pools, "version")
    problem = await pool.prove()
    sentence = "the worker states version '6.6.6', but its manifest says 1.0.0"
    assert sentence in str(problem)
    assert problem.details["inner"] == {
        "problem": sentence,
        "problem_type": "worker.other_version",
        "found": "6.6.6",
        "wanted": "1.0.0",
    }
    assert (found[0].kind, found[0].detail, found[0].ends) == ("identity", sentence, "worker")


async def test_the_version_of_a_pinned_plugin_is_that_of_its_installation(pools: Any) -> None:
    pool, found = open_hostile(pools, env=[])
    assert (await pool.prove(), found) == (None, [])
    pinned = pools._open("hostile", pool.source.path, command=pool.source.command, version="2.0.0", env=())
    assert "its manifest says 2.0.0" in str(await pinned.prove())


async def test_a_list_of_a_thousand_runners_that_cannot_be_read_is_refused_with_a_sentence(pools: Any) -> None:
    pool, found = open_hostile(pools, "runners")
    problem = await pool.prove()
    assert "the worker's answer to runners/list cannot be read: a frame is larger than 2097152 bytes" in str(problem)
    assert problem.details["inner"]["problem_type"] == "worker.unreadable"
    assert found[0].kind == "oversized"


async def test_a_list_of_a_thousand_runners_that_fits_into_a_frame_is_refused_with_a_sentence(pools: Any) -> None:
    pool, found = open_hostile(pools, "many")
    problem = await pool.prove()
    assert "the worker's answer to runners/list cannot be read: more than 10000 JSON values" in str(problem)
    assert problem.details["inner"]["problem_type"] == "worker.unreadable"
    assert found[0].kind == "nodes"
