"""A call that needs an approval is parked: on disk, with a waiting run whose deadline stops."""

import asyncio
from typing import Any

import pytest

from bollard.host.agents.policies import AudienceRule
from bollard.host.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalRequired,
    AuditUnavailable,
    InvalidRequest,
    Overloaded,
)
from bollard.host.limits import APPROVALS_OF_RUN

from .conftest import SECRET, ApprovalHost, capability


async def test_a_call_waits_for_its_approval_and_runs_once(host: ApprovalHost) -> None:
    run = await host.run()
    task, approval = await host.parked(run)
    assert host.stage.row(run.facts.run_id).status == "waiting"
    assert host.status(approval) == "requested"
    assert host.done == []

    await host.decide(approval, "allow_once")
    permission = await task
    assert permission.by == "user:ann"
    assert host.done == [(run.facts.run_id, approval.call_id, approval.digest)]
    assert await run.written()
    assert host.status(approval) == "used"
    assert host.stage.row(run.facts.run_id).status == "running"
    types = host.stage.types(run.facts.run_id)
    assert [kind for kind in types if kind.startswith(("approval.", "run.waiting", "run.resumed"))] == [
        "run.waiting",
        "approval.requested",
        "approval.granted",
        "run.resumed",
        "approval.used",
    ]
    assert len(host.approvals.registry) == 0


async def test_the_approval_record_holds_every_byte_of_the_call(host: ApprovalHost) -> None:
    run = await host.run()
    arguments: Any = {"to": "ann\u202e", "deep": [{"n": 1.5, "t": None}], "long": "x" * 5000}
    task, approval = await host.parked(run, arguments=arguments, explanation="because", target="room")
    (kept,) = host.stage.data(run.facts.run_id, "approval.requested")
    assert kept["arguments"] == arguments
    assert kept["digest"] == approval.digest
    assert (kept["explanation"], kept["target"]) == ("because", "room")
    await host.decide(approval, "deny")
    with pytest.raises(ApprovalDenied):
        await task


async def test_a_denial_reaches_the_run_which_continues(host: ApprovalHost) -> None:
    run = await host.run()
    task, approval = await host.parked(run)
    await host.decide(approval, "deny")
    with pytest.raises(ApprovalDenied):
        await task
    assert host.done == []
    assert await run.written()
    assert host.stage.row(run.facts.run_id).status == "running"


async def test_deny_and_stop_ends_the_run_too(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    await fast_host.decide(approval, "deny_stop")
    with pytest.raises(ApprovalDenied):
        await task
    assert run.state.cancel == "cancelled"


async def test_the_deadline_of_a_waiting_run_stops(fast_host: ApprovalHost, loop_time: Any) -> None:
    run = await fast_host.run()
    left = run.left_s
    task, approval = await fast_host.parked(run)
    parked = run.left_s
    loop_time.advance(run.facts.deadline_s * 2)
    fast_host.stage.clock.advance(run.facts.idle_s * 2)
    run.check_idle(fast_host.stage.clock.monotonic())
    assert run.left_s == parked
    assert 0 < parked <= left
    assert run.state.cancel is None

    fast_host.stage.clock.advance(-run.facts.idle_s * 2)
    await fast_host.decide(approval, "allow_once")
    await task
    loop_time.advance(run.facts.deadline_s * 2)
    assert run.left_s < 0  # it goes on


async def test_the_run_resumes_after_the_last_of_two_waiting_calls(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    first, one = await fast_host.parked(run)
    second, two = await fast_host.parked(run)
    await fast_host.decide(one, "allow_once")
    await first
    assert run.state.status == "waiting"
    await fast_host.decide(two, "allow_once")
    await second
    assert run.state.status == "running"
    assert await run.written()
    assert fast_host.stage.types(run.facts.run_id).count("run.waiting") == 1


async def test_a_calling_run_waits_with_the_called_run(fast_host: ApprovalHost) -> None:
    caller, stage = await fast_host.run(), fast_host.stage
    accepted = await stage.intake.call(stage.event(source="run:1"), stage.agents.get("parrot"), caller)
    called = stage.dispatcher.live[accepted.run_id]
    await fast_host.settled(lambda: called.state.status == "running")
    task, approval = await fast_host.parked(called)
    assert (caller.state.status, called.state.status) == ("waiting", "waiting")
    assert approval.run_id == called.facts.run_id
    await fast_host.decide(approval, "allow_once")
    await task
    assert (caller.state.status, called.state.status) == ("running", "running")


async def test_an_expired_approval_is_a_denial(host: ApprovalHost) -> None:
    run = await host.run()
    task, approval = await host.parked(run)
    host.stage.clock.advance(901)
    host.approvals.sweep()
    with pytest.raises(ApprovalExpired):
        await task
    assert host.status(approval) == "expired"
    told = await host.refused(approval, "allow_once")
    assert (told.code, told.details["status"]) == ("conflict", "expired")
    assert host.done == []


async def test_an_approval_for_the_run_covers_only_the_same_tool_definition(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    await fast_host.decide(approval, "allow_run")
    await task
    again = await fast_host.ask(run, fast_host.proposal(run, arguments={"to": "bob"}))
    assert again.approval_id == approval.approval_id
    assert await run.written()
    assert fast_host.stage.types(run.facts.run_id).count("approval.used") == 2

    for other in (
        {"capability": capability("burn")},
        {"capability": capability(description="Sends a letter and burns the house.")},
        {"why": ("risk", "flow")},
        {"why": ("always",)},
    ):
        waiting, question = await fast_host.parked(run, **other)
        assert question.approval_id != approval.approval_id
        await fast_host.decide(question, "deny")
        with pytest.raises(ApprovalDenied):
            await waiting

    another = await fast_host.run()
    waiting, question = await fast_host.parked(another)
    await fast_host.decide(question, "deny")
    with pytest.raises(ApprovalDenied):
        await waiting


async def test_without_an_approver_the_call_is_denied_at_once(fast_host: ApprovalHost) -> None:
    fast_host.agent(audience={"approve": AudienceRule(who="listed")})
    run = await fast_host.run()
    with pytest.raises(ApprovalDenied) as told:
        await fast_host.ask(run, fast_host.proposal(run))
    assert "no approvers" in told.value.message
    assert "approval.requested" not in fast_host.stage.types(run.facts.run_id)
    assert fast_host.done == []


async def test_a_policy_that_does_not_wait_refuses_at_once(fast_host: ApprovalHost) -> None:
    fast_host.agent(approval={"when_asked": "fail_fast"})
    run = await fast_host.run()
    with pytest.raises(ApprovalRequired):
        await fast_host.ask(run, fast_host.proposal(run))
    assert run.state.status == "running"


async def test_a_secret_in_the_arguments_is_never_shown(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    with pytest.raises(InvalidRequest) as told:
        await fast_host.ask(run, fast_host.proposal(run, arguments={"key": SECRET}))
    assert SECRET not in str(told.value.message)
    assert await run.written()
    assert all(SECRET.encode() not in (row.data or b"") for row in fast_host.stage.records(run.facts.run_id))


async def test_approvals_of_one_run_have_a_limit(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    parked = [await fast_host.parked(run) for _ in range(APPROVALS_OF_RUN)]
    with pytest.raises(Overloaded):
        await fast_host.ask(run, fast_host.proposal(run))
    for task, approval in parked:
        await fast_host.decide(approval, "deny")
        with pytest.raises(ApprovalDenied):
            await task


async def test_a_runner_that_abandons_its_call_withdraws_the_approval(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await run.written()
    assert fast_host.status(approval) == "expired"
    assert run.state.status == "running"
    assert (await fast_host.refused(approval, "allow_once")).code == "conflict"
    assert fast_host.done == []


async def test_an_approval_request_that_is_not_written_in_time_expires(hosts: Any, gate: Any, monkeypatch: Any) -> None:
    host = await hosts(gate.store)
    run = await host.run()
    monkeypatch.setattr("bollard.host.approvals.registry.AUDIT_S", 0.05)
    gate.shut()
    with pytest.raises(AuditUnavailable):
        await host.ask(run, host.proposal(run, call_id="slow"))
    gate.lift()
    await host.settled(lambda: "approval.expired" in host.stage.types(run.facts.run_id))
    assert len(host.approvals.registry) == 0
    assert host.done == []
