"""One decision, by a user who saw exactly this call, while it is open; every other attempt decides nothing and gets an
error."""

import asyncio
from typing import Any

import pytest

from bollard.host.approvals.decisions import Verdict
from bollard.host.errors import ApprovalDenied, HostError

from .conftest import ApprovalHost


async def test_the_first_of_two_decisions_counts_and_the_second_gets_a_conflict(host: ApprovalHost) -> None:
    run = await host.run()
    task, approval = await host.parked(run)
    answers = await asyncio.gather(
        host.decide(approval, "allow_once", by="user:ann"),
        host.decide(approval, "deny", by="user:bob"),
        host.decide(approval, "allow_run", by="user:eve"),
        return_exceptions=True,
    )
    assert answers[0] is None
    assert [getattr(answer, "code", None) for answer in answers[1:]] == ["conflict", "conflict"]
    assert (await task).by == "user:ann"
    assert len(host.done) == 1
    assert await run.written()
    assert (await host.refused(approval, "allow_once")).details["status"] == "used"


async def test_a_decision_with_the_digest_of_another_approval_is_a_conflict(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    _, other = await fast_host.parked(run, arguments={"to": "eve"})
    told = await fast_host.refused(approval, "allow_once", digest=other.digest)
    assert (told.code, told.details["digest"]) == ("conflict", approval.digest)
    assert not task.done()
    assert fast_host.done == []


async def test_an_approval_of_another_workspace_is_not_found(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    _, approval = await fast_host.parked(run)
    verdict = Verdict(decision="allow_once", digest=approval.digest, by="user:eve")
    with pytest.raises(HostError) as told:
        await fast_host.approvals.decide("other", approval.approval_id, verdict)
    with pytest.raises(HostError) as never:
        await fast_host.approvals.decide("other", "apr_never", verdict)
    assert (
        (told.value.code, told.value.message)
        == (never.value.code, never.value.message)
        == ("not_found", "there is no such approval")
    )
    assert fast_host.done == []


async def test_an_approval_with_attachments_states_whether_they_were_opened(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run, arguments={"script": "x" * 10_000})
    assert (await fast_host.refused(approval, "allow_once")).details["field"] == "inspected"
    assert (await fast_host.refused(approval, "allow_once", inspected=True)).details["field"] == "inspected"
    opened = fast_host.open(run, approval.call_id)
    assert opened is not None
    opened.opened_by.add(("user:bob", 1))
    assert (await fast_host.refused(approval, "allow_once", inspected=True)).code == "invalid_argument"
    await fast_host.decide(approval, "allow_once", by="user:bob", inspected=True)
    await task
    assert await run.written()
    (said,) = fast_host.stage.data(run.facts.run_id, "approval.granted")
    assert said["inspected"] is True


async def test_unopened_attachments_can_be_allowed_explicitly_and_denied_freely(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run, arguments={"script": "x" * 10_000})
    await fast_host.decide(approval, "allow_once", inspected=False)
    await task
    task, approval = await fast_host.parked(run, arguments={"script": "x" * 10_000})
    await fast_host.decide(approval, "deny")
    with pytest.raises(ApprovalDenied):
        await task


async def test_a_stopped_run_withdraws_its_approvals(host: ApprovalHost) -> None:
    run = await host.run()
    task, approval = await host.parked(run)
    run.cancel("cancelled")
    told = await host.refused(approval, "allow_once")
    assert told.code == "conflict"
    task.cancel()
    run.give_up("answered")
    await host.stage.ended(run.facts.run_id)
    await host.settled(lambda: len(host.approvals.registry) == 0)
    assert (await host.refused(approval, "allow_once")).details["status"] == "expired"
    assert host.done == []


@pytest.mark.parametrize("first", ["approve", "cancel"])
async def test_an_approval_and_a_stop_at_the_same_time_have_one_outcome(fast_host: ApprovalHost, first: str) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    deciding: Any
    if first == "approve":
        deciding = asyncio.create_task(fast_host.decide(approval, "allow_once"))
        await asyncio.sleep(0)
        run.cancel("cancelled")
    else:
        run.cancel("cancelled")
        deciding = asyncio.create_task(fast_host.decide(approval, "allow_once"))
    decided = await asyncio.gather(deciding, return_exceptions=True)
    if first == "approve":
        assert decided == [None]
        assert (await task).approval_id == approval.approval_id
        assert len(fast_host.done) == 1
    else:
        assert isinstance(decided[0], HostError)
        assert not task.done()
        assert fast_host.done == []
    task.cancel()


async def test_a_decision_that_is_not_written_in_time_fails_with_audit_unavailable(
    hosts: Any, gate: Any, monkeypatch: Any
) -> None:
    host = await hosts(gate.store)
    run = await host.run()
    task, approval = await host.parked(run)
    monkeypatch.setattr("bollard.host.approvals.registry.AUDIT_S", 0.05)
    gate.shut()
    assert (await host.refused(approval, "allow_once")).code == "audit_unavailable"
    assert not task.done()
    assert host.done == []
    gate.lift()
    assert (await task).approval_id == approval.approval_id  # what the log says counts, once it says it
