"""Flow control: the window of each run, by count and by bytes. The judge detects an overrun."""

from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases, Launcher
from bollard.conformance.scripted_run import ScriptedRun, step
from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits, limits

CASES = Cases()

_TEXT = 300 * limits.KIB
_SMALL = ChannelLimits(window_results=8, window_bytes=64 * limits.KIB)


async def _stops_at(session: Session, run: ScriptedRun, count: int) -> None:
    await run.has(count)
    await session.never(lambda: run.count > count, f"the run to stop at {count} results until credit comes")


async def _stops_by_bytes(session: Session, run: ScriptedRun, window: int) -> int:
    """Require the run to use the window and stop before exceeding it. Returns the number of results."""
    await run.has(1)
    size = run.observed.sizes[0]
    expected = window // size
    await run.has(expected)
    await session.never(lambda: run.count > expected, f"the run to stop at {expected} results of {size} bytes")
    return expected


@CASES.shared("a run stops at 256 uncommitted results and goes on as far as credit says", "P11-11", "P11-13")
async def credit_by_count(session: Session) -> None:
    total = limits.WINDOW_RESULTS + 250
    run = session.start([step("delta", text="x", count=total)], credit=False)
    await _stops_at(session, run, limits.WINDOW_RESULTS)
    run.credit(100)
    await _stops_at(session, run, limits.WINDOW_RESULTS + 100)
    run.credit(limits.WINDOW_RESULTS + 100)
    await run.completes()
    if run.count != total + 1:
        raise CaseFailed(f"{total} deltas and a terminal result", f"{run.count} results came")


@CASES.shared("a run stops before its uncommitted results exceed 4 MiB", "P11-12")
async def credit_by_bytes(session: Session) -> None:
    run = session.start([step("delta", text="x", repeat=_TEXT, count=20)], credit=False)
    sent = await _stops_by_bytes(session, run, limits.WINDOW_BYTES)
    run.credit(1)
    await run.has(sent + 1)
    await session.never(lambda: run.count > sent + 1, "one more result for one credit")
    run.credit(sent + 1)
    await run.completes()


@CASES.launching("a smaller window that the host states by count is honoured", "P11-11")
async def credit_stated_limits(launch: Launcher) -> None:
    async with launch(limits=_SMALL) as session:
        run = session.start([step("delta", text="x", count=20)], credit=False)
        await _stops_at(session, run, _SMALL.window_results)
        run.credit(4)
        await _stops_at(session, run, _SMALL.window_results + 4)
        run.credit(12)
        await run.completes()


@CASES.launching("a smaller window that the host states by bytes is honoured", "P11-12")
async def credit_stated_bytes(launch: Launcher) -> None:
    async with launch(limits=_SMALL) as session:
        run = session.start([step("delta", text="x", repeat=20 * limits.KIB, count=6)], credit=False)
        sent = await _stops_by_bytes(session, run, _SMALL.window_bytes)
        run.credit(sent)
        await run.completes()


@CASES.shared("an old or repeated credit takes nothing back and gives nothing", "P11-13")
async def credit_is_cumulative(session: Session) -> None:
    run = session.start([step("delta", text="x", count=limits.WINDOW_RESULTS + 60)], credit=False)
    await run.has(limits.WINDOW_RESULTS)
    run.credit(50)
    await run.has(limits.WINDOW_RESULTS + 50)
    for old in (50, 10, 0):
        session.note("run/credit", {"run_id": run.id, "sequence": old})
    await session.never(lambda: run.count > limits.WINDOW_RESULTS + 50, "nothing for an old credit")
    run.credit(60)
    await run.completes()


@CASES.shared("the terminal result needs no credit", "P11-14")
async def terminal_needs_no_credit(session: Session) -> None:
    full = step("delta", text="x", count=limits.WINDOW_RESULTS)
    await session.start([full], credit=False).completes()
    await session.start([full, step("raise", message="x")], credit=False).fails_with("runner.error")


@CASES.shared("a run without credit delays no other run", "P11-15", "P12-02")
async def credit_is_per_run(session: Session) -> None:
    blocked = session.start([step("delta", text="x", count=1000)], credit=False)
    await blocked.has(limits.WINDOW_RESULTS)
    other = session.start([step("delta", text="y", count=600)])
    await other.completes()
    blocked.cancel()
    await blocked.fails_with("cancelled")


@CASES.shared("credit for a run that is unknown or has ended is ignored", "P11-16")
async def credit_unknown_ignored(session: Session) -> None:
    run = session.start([step("delta", text="x")])
    await run.completes()
    session.note("run/credit", {"run_id": "never-started", "sequence": 10})
    session.note("run/credit", {"run_id": run.id, "sequence": 10})
    await session.ping()
