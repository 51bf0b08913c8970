"""Cancellation: the reason, last words, the grace, and the silence after it."""

import asyncio

from bollard.conformance.connection import shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.limits import GRACE_EARLY_S, GRACE_LATE_S
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import ScriptedRun, step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, limits

CASES = Cases()

_FOREVER: JsonObject = {"do": "wait_forever"}
_REASONS = ("cancelled", "runner.timeout", "revoked", "budget_exceeded", "host.lost")


@CASES.shared("a cancelled run ends with run.failed and the reason as its code", "P08-01")
async def cancel_gives_the_reason(session: Session) -> None:
    for reason in _REASONS:
        run = session.start([step("delta", text="x"), _FOREVER])
        await run.has(1)
        run.cancel(reason)
        await run.fails_with(reason)


@CASES.shared("last results of a runner with interrupt come before the terminal one", "P08-02")
async def cancel_last_results(session: Session) -> None:
    last = [step("delta", text="bye "), step("completed", text="bye now")]
    run = session.start([step("on_cancel", steps=[*last]), step("delta", text="x"), _FOREVER])
    await run.has(1)
    run.cancel("revoked")
    await run.fails_with("revoked")
    kinds = [result["type"] for result in run.observed.results]
    if kinds != ["message.delta", "message.delta", "message.completed", "run.failed"]:
        raise CaseFailed("two last results before run.failed", f"the types are {shorten(kinds)}")


@CASES.shared("a terminal result that the cancelled runner sends itself is the only one", "P08-03")
async def cancel_own_terminal(session: Session) -> None:
    run = session.start([step("on_cancel", steps=[step("finish", finish_reason="stopped")]), step("delta"), _FOREVER])
    await run.has(1)
    run.cancel()
    data = await run.completes()
    if data.get("finish_reason") != "stopped":
        raise CaseFailed("finish_reason stopped", f"it is {shorten(data)}")


@CASES.shared("a runner without interrupt is cancelled too, and its last results are not sent", "P08-16")
async def cancel_stubborn(session: Session) -> None:
    script = [step("on_cancel", steps=[step("delta", text="bye")]), step("delta", text="x"), _FOREVER]
    run = session.start(script, runner="stubborn")
    await run.has(1)
    run.cancel("runner.timeout")
    await run.fails_with("runner.timeout")
    if run.texts != ["x"]:
        raise CaseFailed("nothing between the cancel and the terminal result", f"the deltas are {shorten(run.texts)}")


async def _abandoned(run: ScriptedRun) -> None:
    """Cancel a run that ignores it, and require a response to `run/start` after the grace."""
    loop = asyncio.get_running_loop()
    run.cancel()
    began = loop.time()
    await run.answered(within=GRACE_LATE_S)
    if (took := loop.time() - began) < GRACE_EARLY_S:
        raise CaseFailed(f"{limits.CANCEL_GRACE_S:g} s of grace", f"run/start was answered after {took:.1f} s")


@CASES.own(
    "a runner that ignores its cancel is abandoned after 5 s: run/start is answered, other runs continue",
    "P08-04",
    "P08-05",
)
async def cancel_grace(session: Session) -> None:
    run = session.start([step("ignore_cancel"), step("delta", text="x"), _FOREVER])
    other = session.start([step("delta", text="x"), step("wait", ms=6000), step("delta", text="y")])
    await run.has(1)
    await _abandoned(run)
    await session.ping()
    await other.completes()


@CASES.own("results, calls and streams of an abandoned run are not sent", "P08-05")
async def abandoned_stays_silent(session: Session) -> None:
    late = int(limits.CANCEL_GRACE_S * 1000) + 700
    runs = [
        session.start([step("ignore_cancel"), step("delta", text="x"), step("wait", ms=late), action])
        for action in (
            step("delta", text="ghost", count=3),
            step("call", action="host.info", params={}),
            step("stream", action="models.stream", params={"model_id": "m", "messages": [{"role": "user"}]}),
        )
    ]
    for run in runs:
        await run.has(1)
    await asyncio.gather(*(_abandoned(run) for run in runs))
    counts = [run.count for run in runs]
    await session.never(
        lambda: [run.count for run in runs] != counts or session.judge.calls, "silence of abandoned runs", for_s=1.5
    )
    await session.ping()


@CASES.shared("cancelling one run leaves the others running", "P08-06")
async def cancel_leaves_others(session: Session) -> None:
    other = session.start([step("delta", text="a"), step("wait", ms=200), step("delta", text="b")])
    run = session.start([step("delta", text="x"), _FOREVER])
    await run.has(1)
    run.cancel()
    await run.fails_with("cancelled")
    await other.completes()
    if other.texts != ["a", "b"]:
        raise CaseFailed("the deltas a and b of the other run", f"they are {shorten(other.texts)}")


@CASES.shared("run/cancel of an unknown run is ignored", "P08-07")
async def cancel_unknown_ignored(session: Session) -> None:
    session.note("run/cancel", {"run_id": "never-started", "reason": "cancelled"})
    await session.ping()


@CASES.shared("run/cancel of a run that has ended is ignored", "P08-07")
async def cancel_ended_ignored(session: Session) -> None:
    run = session.start([step("delta", text="x")])
    await run.completes()
    count = run.count
    run.cancel()
    await session.ping()
    if run.count != count:
        raise CaseFailed("no result for a dead run", f"{run.count - count} came")


@CASES.shared("a second cancel changes nothing: last results still arrive, and the first reason applies", "P08-08")
async def cancel_twice(session: Session) -> None:
    last = [step("wait", ms=200), step("delta", text="bye")]
    run = session.start([step("on_cancel", steps=[*last]), step("delta", text="x"), _FOREVER])
    await run.has(1)
    run.cancel("revoked")
    await session.ping()
    run.cancel("runner.timeout")
    await run.fails_with("revoked")
    if run.texts != ["x", "bye"]:
        raise CaseFailed("the last delta 'bye'", f"the deltas are {shorten(run.texts)}")


@CASES.shared("a run that waits for credit is cancelled at once", "P08-09")
async def cancel_while_blocked(session: Session) -> None:
    run = session.start([step("delta", text="x", count=1000)], credit=False)
    await run.has(limits.WINDOW_RESULTS)
    run.cancel()
    await run.fails_with("cancelled")


@CASES.shared("a run that waits for an answer is cancelled at once, and its call too", "P08-09")
async def cancel_during_call(session: Session) -> None:
    run = session.start([step("call", action="host.info", params={})])
    call = await session.next_call("host.info")
    run.cancel()
    await run.fails_with("cancelled")
    session.reply(call, {"host_version": "x", "protocol": 1})
    await session.ping()
