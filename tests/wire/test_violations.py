"""Every violation of a worker reaches the owner of its connection, with the run that the frame names."""

from typing import Any

import pytest

from bollard.protocol import ChannelLimits, limits
from bollard.wire import FrameError, HostEnd

COUNT = 4
WINDOW = ChannelLimits(window_results=COUNT)


def named(raw: Any) -> list[tuple[str, str | None, str]]:
    return [(each.kind, each.run_id, each.ends) for each in raw.observer.violations]


async def started(open_raw_worker: Any, sink: Any, chosen: ChannelLimits | None = WINDOW) -> Any:
    raw = await open_raw_worker(chosen)
    raw.start_run("r", sink)
    await raw.called("run/start")
    return raw


@pytest.mark.requirement("P05-21", "P05-42", "P11-43")
@pytest.mark.parametrize("plain", [True, False])
async def test_a_result_and_a_call_for_a_foreign_run_and_a_forged_answer_are_named(
    open_raw_worker: Any, make_sink: Any, plain: bool
) -> None:
    raw = await started(open_raw_worker, sink := make_sink())
    raw.result("theirs", 1, "message.delta" if plain else "x", chunk={"role": "assistant", "content": "poison"})
    raw.call(1, "api/call", run_id="other", action="state.get")
    assert (await raw.answered(1))["error"]["data"]["code"] == "not_found"
    raw.answer(12345, {"last_sequence": 0})
    await raw.observer.until(lambda: raw.observer.reasons)
    assert named(raw) == [
        ("foreign_result", "theirs", "nothing"),
        ("foreign_call", "other", "nothing"),
        ("forged_answer", None, "worker"),
    ]
    assert sink.ends[0].how == "lost"


@pytest.mark.requirement("P05-42")
async def test_a_strike_against_a_run_and_its_end_are_named(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await started(open_raw_worker, sink := make_sink())
    for _ in range(limits.STRIKES):
        raw.note("no/such", run_id="r")
    await sink.until(lambda: len(sink.strikes) == limits.STRIKES)
    assert named(raw) == [("unknown_method", "r", "nothing")] * 2 + [("unknown_method", "r", "run")]


@pytest.mark.requirement("P05-16", "P05-40")
@pytest.mark.parametrize("plain", [True, False])
async def test_a_gap_larger_than_the_window_is_a_strike_and_no_gap(
    open_raw_worker: Any, make_sink: Any, plain: bool
) -> None:
    raw = await started(open_raw_worker, sink := make_sink())
    kind = "message.delta" if plain else "x"
    raw.result("r", COUNT + 2, kind, chunk={"role": "assistant", "content": "jump"})
    raw.result("r", COUNT + 1, kind, chunk={"role": "assistant", "content": "gap"})
    await sink.until(lambda: sink.taken)
    assert (sink.taken, sink.gaps) == ([COUNT + 1], [(1, COUNT)])
    assert [(strike.fault, strike.ends) for strike in sink.strikes] == [("sequence", "nothing")]
    assert named(raw) == [("sequence", "r", "nothing")]


@pytest.mark.requirement("P05-40")
async def test_a_terminal_result_after_a_jump_does_not_end_the_run(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await started(open_raw_worker, sink := make_sink())
    raw.result("r", 2**53, "run.completed", finish_reason="end")
    raw.delta("r", 1)
    raw.result("r", 2, "run.completed", finish_reason="end")
    await sink.until(lambda: len(sink.taken) == 2)
    assert (sink.taken, sink.gaps, sink.refusals) == ([1, 2], [], [])


@pytest.mark.requirement("P05-15", "P05-41")
@pytest.mark.parametrize("plain", [True, False])
async def test_a_duplicate_number_is_named_only_if_its_content_differs(
    open_raw_worker: Any, make_sink: Any, plain: bool
) -> None:
    raw = await started(open_raw_worker, sink := make_sink())

    def send(number: int, text: str) -> None:
        if plain:
            raw.delta("r", number, text)
        else:
            raw.result("r", number, "x", text=text)

    for number in range(1, 4):
        send(number, f"text {number}")
    send(2, "text 2")
    await raw.barrier()
    assert [each.kind for each in raw.observer.violations] == ["foreign_call"], "the barrier is one"
    send(2, "other")
    await raw.observer.until(lambda: len(raw.observer.violations) == 2)
    assert named(raw)[1] == ("duplicate", "r", "nothing")
    assert (sink.taken, sink.strikes) == ([1, 2, 3], [])


@pytest.mark.requirement("P05-41")
async def test_a_result_that_fills_a_gap_late_is_no_duplicate_but_one_from_before_the_window_is(
    open_raw_worker: Any, make_sink: Any
) -> None:
    raw = await started(open_raw_worker, sink := make_sink())
    for number in range(1, COUNT + 1):
        raw.delta("r", number)
    raw.delta("r", COUNT + 4)  # three are missing, in the places of older ones
    for number in (COUNT + 2, COUNT + 3):
        raw.delta("r", number, "late")
    raw.result("r", COUNT + 5, "run.completed", finish_reason="end")
    raw.result("r", COUNT + 6, "x")
    raw.result("r", COUNT + 6, "y")  # late already, and refused with a record
    await sink.until(lambda: sink.refusals)
    assert (raw.observer.violations, sink.strikes) == ([], [])
    raw.delta("r", COUNT + 5 - COUNT)
    await raw.observer.until(lambda: raw.observer.violations)
    assert named(raw) == [("duplicate", "r", "nothing")]
    assert sink.gaps == [(COUNT + 1, COUNT + 3)]


async def test_a_connection_lost_inside_a_frame_is_no_violation(memory_wires: Any, make_observer: Any) -> None:
    left, _ = await memory_wires.pair()
    observer = make_observer()
    end = HostEnd(left, observer, violated=observer.violated)
    end.faulted(FrameError("half_frame", "the stream ended inside a frame"))
    assert ([strike.fault for strike in observer.strikes], observer.violations) == (["half_frame"], [])
