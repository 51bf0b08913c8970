"""The result stream: numbers, terminal results, sizes, runners that misbehave, and the window of each run by count and
by bytes. The judge detects an overrun."""

from typing import cast

from bollard.conformance.connection import shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases, Launcher
from bollard.conformance.scripted_run import ScriptedRun, step
from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits, JsonObject, limits

CASES = Cases()

_MANY = 500
_ROOM = 4 * limits.KIB  # for everything in a result beside its text


@CASES.shared(
    "results are numbered 1, 2, 3 … and run/start is answered with the last number", "P05-01", "P05-02", "P05-38"
)
async def results_numbered(session: Session) -> None:
    run = session.start([step("delta", text="x", count=_MANY)])
    await run.completes()
    numbers = [result["sequence"] for result in run.observed.results]
    if numbers != list(range(1, _MANY + 2)):
        raise CaseFailed(f"the numbers 1 to {_MANY + 1}", f"they are {shorten(numbers)}")


@CASES.shared("the answer to run/start comes after the terminal result, and nothing after it", "P05-02")
async def answer_follows_terminal(session: Session) -> None:
    run = session.start([step("delta", text="x")])
    await run.ended()
    count = run.count
    await session.never(lambda: run.count > count, "no result after the answer to run/start", for_s=0.1)


@CASES.shared("a runner that ends without a terminal result gives run.completed with finish reason end", "P05-03")
async def end_completes(session: Session) -> None:
    data = await session.start([step("delta", text="x")]).completes()
    if data.get("finish_reason") != "end":
        raise CaseFailed("finish_reason end", f"it is {shorten(data)}")


@CASES.shared(
    "a runner that raises gives run.failed with runner.error and a sentence; other runs continue", "P05-04", "P05-39"
)
async def raise_fails(session: Session) -> None:
    other = session.start([step("wait", ms=150), step("delta", text="x")])
    run = session.start([step("delta", text="x"), step("raise", message="a sad story")])
    data = await run.fails_with("runner.error")
    if not str(data.get("error", "")).strip():
        raise CaseFailed("a sentence in error", f"it is {shorten(data)}")
    await other.completes()


@CASES.shared("a run.completed of the runner is sent unchanged, once", "P05-05")
async def finish_is_the_only_terminal(session: Session) -> None:
    data = await session.start([step("delta", text="x"), step("finish", finish_reason="stop")]).completes()
    if data.get("finish_reason") != "stop":
        raise CaseFailed("finish_reason stop", f"it is {shorten(data)}")


@CASES.shared("a run.failed of the runner is sent unchanged, once", "P05-05")
async def fail_is_the_only_terminal(session: Session) -> None:
    run = session.start([step("fail", code="budget_exceeded", error="no money", retryable=True)])
    data = await run.fails_with("budget_exceeded")
    if data.get("error") != "no money" or data.get("retryable") is not True:
        raise CaseFailed("the error and retryable of the runner", f"they are {shorten(data)}")


@CASES.shared("results after the terminal result are not sent", "P05-06")
async def nothing_after_terminal(session: Session) -> None:
    run = session.start([step("finish"), step("delta", text="x", count=3), step("raise", message="late")])
    await run.completes()
    await session.never(lambda: run.count > 1, "nothing after the terminal result", for_s=0.1)


@CASES.shared("every type of result travels with the data the runner gave", "P05-08")
async def results_pass_through(session: Session) -> None:
    sent: list[tuple[str, JsonObject]] = [
        ("tool.call.started", {"tool_call_id": "c", "tool_name": "t", "parameters": {"p": [1]}}),
        ("tool.call.completed", {"tool_call_id": "c", "tool_name": "t", "result": "r"}),
        ("artifact.created", {"artifact_type": "file", "name": "n.txt", "content_base64": "aGk="}),
        ("state.updated", {"scope": "conversation", "key": "k", "value": {"deep": [None, 1.5, "好"]}}),
        ("action.requested", {"action": "react", "target": {"id": "m"}, "payload": {"emoji": "👍"}}),
        ("a.newer.type", {"anything": True}),
    ]
    run = session.start([step("result", type=kind, data=data) for kind, data in sent])
    await run.completes()
    for (kind, data), result in zip(sent, run.observed.results, strict=False):
        if result["type"] != kind or result["data"] != data:
            raise CaseFailed(f"{kind} with {shorten(data)}", f"it came as {shorten(result)}")


@CASES.shared("a delta carries its increment and the message id; a completed message its text", "P05-09")
async def delta_is_an_increment(session: Session) -> None:
    run = session.start(
        [
            step("delta", text="one ", message_id="m1"),
            step("delta", text="two", message_id="m1"),
            step("completed", text="one two", message_id="m1"),
        ]
    )
    await run.completes()
    if run.texts != ["one ", "two"]:
        raise CaseFailed("the increments 'one ' and 'two'", f"they are {shorten(run.texts)}")
    bodies = [cast("JsonObject", result["data"]) for result in run.observed.results[:3]]
    if [body.get("message_id") for body in bodies] != ["m1"] * 3:
        raise CaseFailed("message_id m1 on all three", f"the data are {shorten(bodies)}")
    message = cast("JsonObject", bodies[2].get("message"))
    if message.get("content") != "one two":
        raise CaseFailed("the completed message 'one two'", f"it is {shorten(message)}")


@CASES.shared("a result of more than 1 MiB is refused before it is sent, and its run fails", "P05-10")
async def big_result_refused(session: Session) -> None:
    run = session.start([step("big", bytes=limits.RESULT_BYTES + 1)])
    await run.fails_with("runner.error", "runner.protocol")


@CASES.shared("a result just under 1 MiB is sent whole", "P05-11")
async def large_result_sent(session: Session) -> None:
    size = limits.RESULT_BYTES - _ROOM
    run = session.start([step("big", bytes=size)])
    await run.completes()
    if [len(text) for text in run.texts] != [size]:
        raise CaseFailed(f"one delta of {size} characters", f"there are {shorten([len(text) for text in run.texts])}")


@CASES.shared("a runner that yields an invalid value fails its own run only", "P05-12", "P05-39")
async def rubbish_fails_the_run(session: Session) -> None:
    other = session.start([step("wait", ms=150), step("delta", text="x")])
    await session.start([step("delta", text="x"), step("rubbish")]).fails_with("runner.error", "runner.protocol")
    await other.completes()


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


@CASES.shared("a run stops at 256 uncommitted results and continues as credit allows", "P11-11", "P11-13")
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
