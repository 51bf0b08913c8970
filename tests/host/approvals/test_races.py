"""Answers that meet something at the wrong moment: another answer, a disk that is slow, a run that is lost."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from bollard.host.approvals import decisions as decisions_module
from bollard.host.approvals.approval import Decision, Permission
from bollard.host.errors import ApprovalDenied, Overloaded
from bollard.host.runs.machine import Ending

from .conftest import ApprovalHost, capability


def decisions(host: ApprovalHost) -> list[tuple[str, str]]:
    """Every answer that the log has, with who gave it."""
    rows = host.stage.store.records(0, 10_000)
    told = [row for row in rows if row.type in ("approval.granted", "approval.denied")]
    return [(row.type, msgspec.json.decode(row.data or b"{}")["by"]) for row in told]


@pytest.mark.parametrize("detached", [False, True], ids=["a run that waits", "a run that was lost"])
@pytest.mark.parametrize("how", ["too slow", "given up"])
@pytest.mark.parametrize(("first", "second"), [("allow_once", "deny"), ("deny", "allow_once")])
async def test_a_second_decision_is_refused_while_the_first_may_reach_the_disk(
    hosts: Any, gate: Any, monkeypatch: Any, detached: bool, how: str, first: Decision, second: Decision
) -> None:
    host: ApprovalHost = await hosts(gate.store)
    run = await host.run()
    task, approval = await host.parked(run)
    if detached:
        await host.crash(run)
        await asyncio.gather(task, return_exceptions=True)
    pending = host.open(run, approval.call_id)
    assert pending is not None
    await host.settled(lambda: host.stage.journal.waiting == 0)
    gate.shut()
    if how == "too slow":
        with monkeypatch.context() as patched:
            patched.setattr("bollard.host.approvals.registry.AUDIT_S", 0.05)
            assert (await host.refused(approval, first)).code == "audit_unavailable"
    else:
        giving_up = asyncio.create_task(host.decide(approval, first))
        await host.settled(lambda: pending.deciding and host.stage.journal.waiting > 0)
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)
    assert (await host.refused(approval, second, by="user:bob")).code == "conflict"
    gate.lift()
    await host.settled(lambda: host.status(approval) in ("used", "denied", "granted"))
    if not detached:
        await asyncio.gather(task, return_exceptions=True)
    elif first == "allow_once":
        await host.settled(lambda: host.status(approval) == "used")
    else:
        await host.settled(lambda: bool(host.raised))
    assert len(host.done) == (first == "allow_once")
    assert decisions(host) == [(f"approval.{'granted' if first == 'allow_once' else 'denied'}", "user:ann")]


@pytest.mark.parametrize(
    ("kind", "thing", "revoked"),
    [
        ("channel", "channel:post/message.edit", {"resources": {"platform": ["message.edit"]}}),
        ("channel", "channel:post/message.edit", {"operations": ["platform.request"]}),
        ("agent", "agent:polly", {"resources": {"agents": ["polly"]}}),
        ("mcp", "mcp:post/send", {"operations": ["tools.call"]}),
    ],
)
async def test_a_call_revoked_under_another_name_is_not_executed_either(
    fast_host: ApprovalHost, kind: str, thing: str, revoked: Any
) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run, capability=capability(id=thing, kind=kind))
    run.note("grant.revoked", {**revoked, "by": "admin-token"})
    await fast_host.crash(run)
    with pytest.raises(ApprovalDenied):
        await task
    await fast_host.decide(approval, "allow_once")
    await fast_host.settled(lambda: fast_host.status(approval) == "used")
    assert fast_host.done == []
    assert "revoked from its run" in str(fast_host.raised[0].data["error"])


async def test_opening_one_of_two_attachments_does_not_count_as_inspecting_both(fast_host: ApprovalHost) -> None:
    run = await fast_host.run()
    task, approval = await fast_host.parked(run, arguments={"one": "a" * 5_000, "two": "b" * 5_000})
    pending = fast_host.open(run, approval.call_id)
    assert pending is not None
    pending.opened_by.add(("user:ann", 1))
    told = await fast_host.refused(approval, "allow_once", inspected=True)
    assert (told.code, "attachment 2" in told.message) == ("invalid_argument", True)
    pending.opened_by.add(("user:ann", 2))
    await fast_host.decide(approval, "allow_once", inspected=True)
    assert (await task).approval_id == approval.approval_id


async def test_open_approvals_have_a_total_size_limit(fast_host: ApprovalHost, monkeypatch: Any) -> None:
    """They stay in memory for days, also when their runs are long gone."""
    monkeypatch.setattr("bollard.host.approvals.approvals.APPROVAL_BYTES_OF_WORKSPACE", 25_000)
    run = await fast_host.run()
    _, first = await fast_host.parked(run, arguments={"script": "x" * 10_000})
    await fast_host.crash(run)
    run = await fast_host.run("again")
    await fast_host.parked(run, arguments={"script": "x" * 10_000})
    with pytest.raises(Overloaded, match="exceed"):
        await fast_host.parked(run, arguments={"script": "x" * 10_000})
    await fast_host.decide(first, "deny")
    await fast_host.parked(run, arguments={"script": "x" * 10_000})


async def test_the_display_is_rendered_outside_the_event_loop(fast_host: ApprovalHost, monkeypatch: Any) -> None:
    """A megabyte of arguments takes seconds to look through."""
    threads: list[threading.Thread] = []
    shown = decisions_module.display

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return shown(*args)

    monkeypatch.setattr(decisions_module, "display", noted)
    run = await fast_host.run()
    task, approval = await fast_host.parked(run, arguments={"script": "x" * 10_000})
    await fast_host.decide(approval, "allow_once", inspected=False)
    await task
    assert threads
    assert threading.current_thread() not in threads


async def test_an_approval_during_the_loss_of_its_run_is_executed_once(fast_host: ApprovalHost) -> None:
    """The yes is there, the call has not gone on yet, and the run is over."""
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    pending = fast_host.open(run, approval.call_id)
    assert pending is not None
    yes = Permission(approval_id=approval.approval_id, decision="allow_once", by="user:ann", digest=approval.digest)
    pending.status, pending.permission = "granted", yes
    pending.resolve(yes)
    run.outcome = Ending("failed", "runner.crashed")
    fast_host.approvals.open.run_ended(run)
    with pytest.raises(ApprovalDenied):
        await task
    await fast_host.crash(run)
    await fast_host.settled(lambda: fast_host.status(approval) == "used")
    assert len(fast_host.done) == 1


async def test_an_approval_can_be_decided_as_soon_as_it_is_on_disk(fast_host: ApprovalHost, monkeypatch: Any) -> None:
    """The store has the approval a moment before the run learns of it."""
    run = await fast_host.run()
    task, approval = await fast_host.parked(run)
    book, looks = fast_host.approvals.registry, [0]
    get = book.get

    def late(*args: Any) -> Any:
        looks[0] += 1
        return None if looks[0] == 1 else get(*args)

    monkeypatch.setattr(book, "get", late)
    await fast_host.decide(approval, "allow_once")
    assert (await task).approval_id == approval.approval_id
