"""An approval outlives a lost run: the call is executed once, through any crash, and reported."""

import asyncio
from typing import Any

import msgspec
import pytest

from bollard.host.approvals.approval import Approval
from bollard.host.capabilities.capability import Flow
from bollard.host.errors import ApprovalDenied
from bollard.host.limits import DETACHED_WAIT_S
from bollard.host.runs.live_run import LiveRun

from .conftest import ApprovalHost


async def lost(host: ApprovalHost) -> tuple[LiveRun, Approval]:
    """A run whose worker went away while a call of it was parked."""
    run = await host.run()
    task, approval = await host.parked(run, flow=Flow.of_bits(3))
    await host.crash(run)
    with pytest.raises(ApprovalDenied):  # its waiter is gone
        await task
    return run, approval


async def test_an_approval_after_the_run_was_lost_is_executed_once_and_reported(host: ApprovalHost) -> None:
    run, approval = await lost(host)
    row = host.stage.row(run.facts.run_id)
    assert (row.status, row.reason) == ("failed", "runner.crashed")
    assert host.status(approval) == "requested"
    assert host.done == []

    await host.decide(approval, "allow_once")
    await host.settled(lambda: len(host.approvals.registry) == 0)
    assert host.status(approval) == "used"
    assert host.done == [(run.facts.run_id, approval.call_id, approval.digest)]
    (event,) = host.raised
    assert event.event_type == "approval.decided"
    assert event.flow == 3, "what the call had to do with goes on with its result"
    assert (event.scope.conversation, event.trigger) == ("room", "system")
    assert event.data["call_id"] == approval.call_id
    assert event.data["outcome"] == "completed"
    assert event.data["result"] == {"content": [{"type": "text", "text": "sent"}]}
    runs = [row for row in host.stage.store.unfinished_runs("", 100) if row.run_id != run.facts.run_id]
    assert [each.conversation for each in runs] == ["room"]  # the continuation
    assert (await host.refused(approval, "allow_once")).details["status"] == "used"
    assert len(host.done) == 1


async def test_a_denial_after_the_run_was_lost_is_reported_without_a_call(host: ApprovalHost) -> None:
    _, approval = await lost(host)
    await host.decide(approval, "deny")
    await host.settled(lambda: bool(host.raised))
    assert host.raised[0].data["outcome"] == "denied"
    assert host.status(approval) == "denied"
    assert host.done == []


async def test_a_denial_that_stops_the_run_is_not_reported(fast_host: ApprovalHost) -> None:
    _, approval = await lost(fast_host)
    await fast_host.decide(approval, "deny_stop")
    await fast_host.approvals.close()
    assert fast_host.raised == []


async def test_an_approval_of_a_lost_run_still_expires(host: ApprovalHost) -> None:
    _, approval = await lost(host)
    host.stage.clock.advance(901)
    assert (await host.refused(approval, "allow_once")).details["status"] == "expired"
    host.approvals.sweep()
    await host.settled(lambda: len(host.approvals.registry) == 0)
    assert host.status(approval) == "expired"
    assert host.done == []


@pytest.mark.parametrize("status", ["requested", "granted"])
async def test_an_open_approval_survives_a_restart_of_the_host(store: Any, hosts: Any, status: str) -> None:
    first: ApprovalHost = await hosts(store)
    run = await first.run()
    _, approval = await first.parked(run)
    if status == "granted":  # the yes is on disk, and the host dies before the call
        first.approvals.registry.remove(approval)
        data = {"approval_id": approval.approval_id, "call_id": approval.call_id, "by": "user:ann"}
        run.note("approval.granted", {**data})
    assert await run.written()

    second: ApprovalHost = await hosts(store, incarnation="i2")
    await second.approvals.load(second.stage.core.startup_recovery.lost_are_ended)
    if status == "requested":
        told = await second.refused(approval, "allow_once")  # its run has not been ended yet
        assert told.code == "conflict"
    await second.stage.core.startup_recovery.run()
    if status == "requested":
        assert second.done == []
        await second.decide(approval, "allow_once")
    await second.settled(lambda: second.status(approval) == "used")
    assert second.done == [(run.facts.run_id, approval.call_id, approval.digest)]
    assert [event.data["outcome"] for event in second.raised] == ["completed"]

    third: ApprovalHost = await hosts(store, incarnation="i3")
    await third.approvals.load(third.stage.core.startup_recovery.lost_are_ended)
    assert len(third.approvals.registry) == 0
    assert len(third.done) == 1


async def test_an_approved_call_executed_before_a_crash_is_not_executed_again(sqlite_store: Any, hosts: Any) -> None:
    first: ApprovalHost = await hosts(sqlite_store)
    run, approval = await lost(first)
    stuck, reached = asyncio.Event(), asyncio.Event()

    async def dies() -> None:
        begun: Any = {
            "call_id": approval.call_id,
            "capability": approval.capability,
            "name": approval.name,
            "arguments_sha256": "0" * 64,
            "run_id": run.facts.run_id,
        }
        entry = first.approvals.detached._log  # where the executor writes, too
        await entry.beside(approval, "action.started", begun, lambda: None)
        reached.set()
        await stuck.wait()

    first.before_execute = dies
    await first.decide(approval, "allow_once")
    async with asyncio.timeout(120):
        await reached.wait()
    await first.close()

    second: ApprovalHost = await hosts(sqlite_store, incarnation="i2")
    await second.stage.core.startup_recovery.run()
    await second.approvals.load(second.stage.core.startup_recovery.lost_are_ended)
    await second.settled(lambda: second.status(approval) == "used")
    assert second.done == []
    assert [event.data["outcome"] for event in second.raised] == ["unknown"]


async def test_a_call_revoked_before_the_run_was_lost_is_not_executed(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    run.note("grant.revoked", {"resources": {"tools": [approval.capability]}, "by": "admin-token"})
    await fast_host.crash(run)
    with pytest.raises(ApprovalDenied):
        await task
    await fast_host.decide(approval, "allow_once")
    await fast_host.settled(lambda: fast_host.status(approval) == "used")
    assert fast_host.done == []
    assert fast_host.raised[0].data["outcome"] == "rejected"
    assert fast_host.raised[0].data["code"] == "capability_denied"


async def test_an_approved_call_of_a_withdrawn_agent_is_not_executed(fast_host: ApprovalHost) -> None:
    _, approval = await lost(fast_host)
    fast_host.stage.agents.withdraw("plugin:acme/parrot/default")
    await fast_host.decide(approval, "allow_once")
    assert fast_host.done == []
    fast_host.stage.clock.advance(DETACHED_WAIT_S)  # it may come back for so long
    await fast_host.settled(lambda: fast_host.stage.clock.advance(1) or fast_host.status(approval) == "used")
    assert fast_host.done == []


async def test_a_rebuild_from_the_log_gives_the_same_approvals(host: ApprovalHost) -> None:
    _, approval = await lost(host)
    await host.decide(approval, "allow_once")
    await host.settled(lambda: host.status(approval) == "used")
    row = host.stage.store.approval("default", approval.approval_id)
    assert row is not None
    assert msgspec.json.decode(row.decision or b"{}")["by"] == "user:ann"
    assert row.digest == approval.digest
