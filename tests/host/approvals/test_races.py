"""Answers that meet something at the wrong moment: another answer, a disk that is slow, a run that is lost."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from bollard.host.approvals import decisions as deciding
from bollard.host.approvals.approval import Decision, Permission
from bollard.host.errors import ApprovalDenied, Overloaded
from bollard.host.runs.machine import Ending

from .conftest import Desk, capability


def decisions(desk: Desk) -> list[tuple[str, str]]:
    """Every answer that the log has, with who gave it."""
    rows = desk.stage.store.records(0, 10_000)
    told = [row for row in rows if row.type in ("approval.granted", "approval.denied")]
    return [(row.type, msgspec.json.decode(row.data or b"{}")["by"]) for row in told]


@pytest.mark.parametrize("detached", [False, True], ids=["a run that waits", "a run that was lost"])
@pytest.mark.parametrize("how", ["too slow", "given up"])
@pytest.mark.parametrize(("first", "second"), [("allow_once", "deny"), ("deny", "allow_once")])
async def test_while_an_answer_may_still_reach_the_disk_there_is_no_other(
    desks: Any, gate: Any, monkeypatch: Any, detached: bool, how: str, first: Decision, second: Decision
) -> None:
    desk: Desk = await desks(gate.store)
    run = await desk.run()
    task, approval = await desk.parked(run)
    if detached:
        await desk.crash(run)
        await asyncio.gather(task, return_exceptions=True)
    open_one = desk.open(run, approval.call_id)
    assert open_one is not None
    await desk.settled(lambda: desk.stage.journal.waiting == 0)
    gate.shut()
    if how == "too slow":
        with monkeypatch.context() as patched:
            patched.setattr("bollard.host.approvals.registry.AUDIT_S", 0.05)
            assert (await desk.refused(approval, first)).code == "audit_unavailable"
    else:
        giving_up = asyncio.create_task(desk.decide(approval, first))
        await desk.settled(lambda: open_one.deciding and desk.stage.journal.waiting > 0)
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)
    assert (await desk.refused(approval, second, by="user:bob")).code == "conflict"
    gate.lift()
    await desk.settled(lambda: desk.status(approval) in ("used", "denied", "granted"))
    if not detached:
        await asyncio.gather(task, return_exceptions=True)
    elif first == "allow_once":
        await desk.settled(lambda: desk.status(approval) == "used")
    else:
        await desk.settled(lambda: bool(desk.raised))
    assert len(desk.done) == (first == "allow_once")
    assert decisions(desk) == [(f"approval.{'granted' if first == 'allow_once' else 'denied'}", "user:ann")]


@pytest.mark.parametrize(
    ("kind", "thing", "revoked"),
    [
        ("channel", "channel:post/message.edit", {"resources": {"platform": ["message.edit"]}}),
        ("channel", "channel:post/message.edit", {"operations": ["platform.request"]}),
        ("agent", "agent:polly", {"resources": {"agents": ["polly"]}}),
        ("mcp", "mcp:post/send", {"operations": ["tools.call"]}),
    ],
)
async def test_what_was_taken_away_by_another_name_is_not_carried_out_either(
    fast_desk: Desk, kind: str, thing: str, revoked: Any
) -> None:
    run = await fast_desk.run()
    task, approval = await fast_desk.parked(run, capability=capability(id=thing, kind=kind))
    run.note("grant.revoked", {**revoked, "by": "admin-token"})
    await fast_desk.crash(run)
    with pytest.raises(ApprovalDenied):
        await task
    await fast_desk.decide(approval, "allow_once")
    await fast_desk.settled(lambda: fast_desk.status(approval) == "used")
    assert fast_desk.done == []
    assert "it was taken away from the run" in str(fast_desk.raised[0].data["error"])


async def test_who_opened_one_of_two_contents_has_not_inspected_both(fast_desk: Desk) -> None:
    run = await fast_desk.run()
    task, approval = await fast_desk.parked(run, arguments={"one": "a" * 5_000, "two": "b" * 5_000})
    open_one = fast_desk.open(run, approval.call_id)
    assert open_one is not None
    open_one.opened_by.add(("user:ann", 1))
    told = await fast_desk.refused(approval, "allow_once", inspected=True)
    assert (told.code, "number 2" in told.message) == ("invalid_argument", True)
    open_one.opened_by.add(("user:ann", 2))
    await fast_desk.decide(approval, "allow_once", inspected=True)
    assert (await task).approval_id == approval.approval_id


async def test_open_questions_hold_so_much_together_and_no_more(fast_desk: Desk, monkeypatch: Any) -> None:
    """They stay in memory for days, also when their runs are long gone."""
    monkeypatch.setattr("bollard.host.approvals.approvals.APPROVAL_BYTES_OF_WORKSPACE", 25_000)
    run = await fast_desk.run()
    _, first = await fast_desk.parked(run, arguments={"script": "x" * 10_000})
    await fast_desk.crash(run)
    run = await fast_desk.run("again")
    await fast_desk.parked(run, arguments={"script": "x" * 10_000})
    with pytest.raises(Overloaded, match="too much"):
        await fast_desk.parked(run, arguments={"script": "x" * 10_000})
    await fast_desk.decide(first, "deny")
    await fast_desk.parked(run, arguments={"script": "x" * 10_000})


async def test_what_is_shown_is_made_beside_the_loop(fast_desk: Desk, monkeypatch: Any) -> None:
    """A megabyte of arguments takes seconds to look through."""
    threads: list[threading.Thread] = []
    shown = deciding.display

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return shown(*args)

    monkeypatch.setattr(deciding, "display", noted)
    run = await fast_desk.run()
    task, approval = await fast_desk.parked(run, arguments={"script": "x" * 10_000})
    await fast_desk.decide(approval, "allow_once", inspected=False)
    await task
    assert threads
    assert threading.current_thread() not in threads


async def test_a_run_that_is_lost_in_the_moment_of_the_yes_has_it_carried_out_once(fast_desk: Desk) -> None:
    """The yes is there, the call has not gone on yet, and the run is over."""
    run = await fast_desk.run()
    task, approval = await fast_desk.parked(run)
    open_one = fast_desk.open(run, approval.call_id)
    assert open_one is not None
    yes = Permission(approval_id=approval.approval_id, decision="allow_once", by="user:ann", digest=approval.digest)
    open_one.status, open_one.permission = "granted", yes
    assert open_one.tell(yes)
    run.outcome = Ending("failed", "runner.crashed")
    fast_desk.approvals.lasting.run_over(run)
    with pytest.raises(ApprovalDenied):
        await task
    await fast_desk.crash(run)
    await fast_desk.settled(lambda: fast_desk.status(approval) == "used")
    assert len(fast_desk.done) == 1


async def test_whoever_reads_a_question_as_soon_as_it_is_on_disk_can_answer_it(
    fast_desk: Desk, monkeypatch: Any
) -> None:
    """The store has it a moment before the run hears that it does."""
    run = await fast_desk.run()
    task, approval = await fast_desk.parked(run)
    book, looks = fast_desk.approvals.book, [0]
    get = book.get

    def late(*args: Any) -> Any:
        looks[0] += 1
        return None if looks[0] == 1 else get(*args)

    monkeypatch.setattr(book, "get", late)
    await fast_desk.decide(approval, "allow_once")
    assert (await task).approval_id == approval.approval_id
