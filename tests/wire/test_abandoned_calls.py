"""A call that is abandoned while its response is on the way: the host learns that it was not read."""

import asyncio
import contextlib
from typing import Any

import pytest

from bollard.wire import ChannelClosed, RunCall

PULL = "steering.pull"
SPARE_TURNS = 10
"""Turns of the loop behind those that a call and its answer take on the way."""


async def started(open_channel: Any, sink: Any) -> tuple[Any, Any]:
    channel = await open_channel()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    return channel, channel.handler.runs[0]


def lender(unread: list[str]) -> Any:
    """Answers at once, and records the unread answers."""

    def take(call: RunCall) -> None:
        call.on_unread = lambda: unread.append(str(call.params["n"]))
        call.on_given_up = lambda: unread.append(str(call.params["n"]))
        call.answer({"n": call.params["n"]})

    return take


async def pass_turns(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_an_answer_is_read_or_reported_unread_whenever_the_caller_gives_up(
    open_channel: Any, make_sink: Any
) -> None:
    unread, got = list[str](), list[str]()
    sink = make_sink(on_call=lender(unread))
    channel, run = await started(open_channel, sink)
    answered = turns = 0
    while answered < SPARE_TURNS:
        call = asyncio.create_task(run.call(PULL, {"n": str(turns)}))
        await pass_turns(turns)
        answered += call.done()
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            got.append((await call)["n"])
        turns += 1
    await channel.host.ping()
    asked = [call.params["n"] for call in sink.calls]
    assert sorted([*got, *unread], key=int) == asked, "each in one place"
    assert len(unread) > 1
    assert not channel.observer.strikes


async def test_an_answer_is_read_or_reported_unread_before_the_terminal_result(
    open_channel: Any, make_sink: Any
) -> None:
    answered, turns = 0, 1  # with none, the call would leave behind the last result
    while answered < SPARE_TURNS:
        unread = list[str]()
        sink = make_sink(on_call=lender(unread))
        channel, run = await started(open_channel, sink)
        call = asyncio.create_task(run.call(PULL, {"n": "1"}))
        await pass_turns(turns)
        was_read = call.done()
        await run.emit("run.completed", {"finish_reason": "end"})
        await sink.until(lambda sink=sink: sink.results)
        assert unread == ([] if was_read else ["1"]), "told before the last result"
        if was_read:
            assert await call == {"n": "1"}
        else:
            with pytest.raises(ChannelClosed):
                await call
        channel.worker.finish_run(run)
        await sink.run.ended
        assert not channel.observer.strikes
        answered += was_read
        turns += 1


async def test_a_late_cancel_takes_back_the_newest_answer_of_its_id_once(open_raw_worker: Any, make_sink: Any) -> None:
    raw, unread = await open_raw_worker(), list[str]()
    raw.start_run("r", make_sink(on_call=lender(unread)))
    await raw.called("run/start")
    for number in ("1", "2"):
        raw.call("same", "api/call", run_id="r", action=PULL, params={"n": number})
        await raw.until(lambda number=number: len(raw.answers("same")) == int(number))
    for _ in range(2):
        raw.note("api/cancel", run_id="r", id="same")
    await raw.barrier()
    assert unread == ["2"], "the id was used again: the first answer was read"
