"""A host's end and a worker's end over memory and sockets: introduction, lists, runs, tools, logs, shutdown."""

import asyncio
from typing import Any

import pytest

from bollard.protocol import (
    AgentRunRequest,
    ChannelLimits,
    PluginIdentity,
    TextContent,
    ToolAnswer,
    ToolCallContext,
    ToolCallParams,
    WorkerIdentity,
    limits,
)
from bollard.wire import (
    CallTimeout,
    ChannelClosed,
    FrameError,
    HostEnd,
    IncompatiblePeer,
    PayloadTooLarge,
    RemoteError,
    WorkerRun,
    encode,
    watch_heartbeat,
)
from bollard.wire.limits import ENDED_RUN_IDS

INTRODUCTION = {
    "protocol": 1,
    "worker": {"name": "w", "version": "1", "language": "python"},
    "plugin": {"author": "acme", "name": "helpdesk", "version": "1"},
}


def delta(text: str = "x") -> dict[str, Any]:
    return {"chunk": {"role": "assistant", "content": text}}


# --- initialize ---


@pytest.fixture
async def uninitialized(local_wires: Any, make_observer: Any, make_raw_side: Any) -> tuple[Any, HostEnd, Any]:
    """A worker that sends the frames of a test, a host's end that has not initialized, and its observer."""
    left, right = await local_wires.pair()
    raw, observer = make_raw_side(right), make_observer()
    raw.start()
    return raw, HostEnd(left, observer), observer


async def refused(uninitialized: tuple[Any, HostEnd, Any], introduction: Any) -> IncompatiblePeer:
    raw, host, observer = uninitialized
    opening = asyncio.create_task(host.initialize("1.0"))
    raw.answer((await raw.called("initialize"))["id"], introduction)
    with pytest.raises(IncompatiblePeer) as caught:
        await opening
    await observer.until(lambda: observer.reasons)
    await raw.until(lambda: raw.reasons)
    return caught.value


async def test_initialize_introduces_both_sides_once(open_channel: Any) -> None:
    channel = await open_channel()
    assert channel.host.peer.plugin.name == "helpdesk"
    assert channel.host.peer.worker.language == "python"
    with pytest.raises(IncompatiblePeer):
        await channel.host.initialize("1.0")
    await channel.host.ping()


@pytest.mark.requirement("P11-56")
@pytest.mark.parametrize(("version", "older"), [(0, "worker"), (2, "host")])
async def test_a_worker_of_another_protocol_is_refused_with_the_side_to_upgrade(
    uninitialized: tuple[Any, HostEnd, Any], version: int, older: str
) -> None:
    error = await refused(uninitialized, {**INTRODUCTION, "protocol": version})
    assert str(version) in error.problem
    assert error.hint == f"upgrade the {older}"


@pytest.mark.parametrize(
    "introduction",
    [
        None,
        [],
        {},
        {**INTRODUCTION, "protocol": "1"},
        {**INTRODUCTION, "plugin": {"author": "acme"}},
        {**INTRODUCTION, "plugin": {"author": "ACME", "name": "x", "version": "1"}},
        {**INTRODUCTION, "extra": 1},
        {**INTRODUCTION, "limits": {"frame_bytes": 1}},
    ],
)
async def test_an_invalid_introduction_is_refused_with_a_hint(
    uninitialized: tuple[Any, HostEnd, Any], introduction: Any
) -> None:
    error = await refused(uninitialized, introduction)
    assert "introduction" in error.problem
    assert "upgrade" in error.hint


async def test_a_worker_that_never_introduces_itself_times_out(uninitialized: tuple[Any, HostEnd, Any]) -> None:
    _, host, _ = uninitialized
    with pytest.raises(CallTimeout):
        await host.initialize("1.0", timeout_s=0.01)
    with pytest.raises(IncompatiblePeer):
        _ = host.peer


@pytest.mark.requirement("P11-56")
@pytest.mark.parametrize(("version", "older"), [(0, "host"), (2, "worker's SDK")])
async def test_a_worker_refuses_a_host_of_another_protocol_with_the_side_to_upgrade(
    open_raw_host: Any, version: int, older: str
) -> None:
    raw, _, _ = await open_raw_host(initialized=False)
    raw.call(1, "initialize", protocol=version, host_version="x")
    assert f"upgrade the {older}" in (await raw.answered(1))["error"]["message"]
    raw.call(2, "runners/list")
    assert "not initialized" in (await raw.answered(2))["error"]["message"]


async def test_a_worker_is_initialized_once_and_answers_pings_before(open_raw_host: Any) -> None:
    raw, _, _ = await open_raw_host(initialized=False)
    raw.call(1, "ping")
    assert (await raw.answered(1))["result"] == {}
    raw.call(2, "initialize", protocol="1")
    assert (await raw.answered(2))["error"]["data"] == {"field": "protocol"}
    raw.call(3, "initialize", protocol=1, host_version="1")
    assert (await raw.answered(3))["result"]["plugin"]["author"] == "acme"
    raw.call(4, "initialize", protocol=1, host_version="1")
    assert "already" in (await raw.answered(4))["error"]["message"]


async def test_the_smaller_limits_of_both_sides_apply(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel(limits=ChannelLimits(frame_bytes=4096, window_results=2, window_bytes=2048))
    assert channel.host.peer.limits == ChannelLimits(frame_bytes=4096, window_results=2, window_bytes=2048)
    sink = make_sink(commits=False)
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    run: WorkerRun = channel.handler.runs[0]
    with pytest.raises(PayloadTooLarge):
        await run.emit("x", {"text": "y" * 4096})
    await run.emit("x", {"text": "y" * 1500})
    await channel.host.ping()
    sink.run.credit(1)
    await run.emit("x", {})
    await run.emit("x", {})
    third = asyncio.create_task(run.emit("x", {}))
    await channel.host.ping()
    assert not third.done()
    sink.run.credit(2)
    await third
    assert not sink.strikes


async def test_a_result_larger_than_the_window_is_refused_at_once(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel(limits=ChannelLimits(window_bytes=1024))
    sink = make_sink()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    run: WorkerRun = channel.handler.runs[0]
    with pytest.raises(PayloadTooLarge) as caught:
        await run.emit("message.completed", {"text": "y" * 2000})
    assert caught.value.limit_bytes == 1024
    await run.emit("run.completed", {"finish_reason": "y" * 2000})
    await sink.until(lambda: sink.results)
    assert not sink.strikes


async def test_the_host_sends_no_frame_larger_than_the_limit_of_the_worker(
    uninitialized: tuple[Any, HostEnd, Any], make_sink: Any
) -> None:
    raw, host, _ = uninitialized
    opening = asyncio.create_task(host.initialize("1.0"))
    raw.answer((await raw.called("initialize"))["id"], {**INTRODUCTION, "limits": {"frame_bytes": 2048}})
    await opening
    sink = make_sink()
    host.start_run_raw("r", {"context": {"run_id": "r", "text": "x" * 3000}}, sink)
    await sink.until(lambda: sink.ends)
    assert sink.ends[0].how == "refused"
    assert "2048" in (sink.ends[0].reason or "")
    assert not raw.heard("run/start")


# --- lists ---


@pytest.mark.requirement("P02-13")
async def test_runners_and_tools_are_listed_one_by_one(open_channel: Any) -> None:
    channel = await open_channel()
    manifest = {"id": "plugin:acme/helpdesk/default", "name": "default", "label": {"en_US": "x"}}
    entry = {"plugin_author": "acme", "plugin_name": "helpdesk", "runner_name": "default", "manifest": manifest}
    channel.handler.listed_runners = [{"runner_name": "broken"}, entry]
    channel.handler.listed_tools = [{"name": "add", "description": "adds", "input_schema": {}}, {"name": "broken"}]
    runners, tools = await channel.host.list_runners(), await channel.host.list_tools()
    assert [runner.runner_name for runner in runners.runners] == ["default"]
    assert [problem.entry for problem in runners.problems] == ["broken"]
    assert [tool.name for tool in tools.tools] == ["add"]
    assert [problem.entry for problem in tools.problems] == ["broken"]


# --- runs ---


async def test_a_run_streams_its_results_and_ends_with_the_answer_of_the_worker(
    open_channel: Any, make_sink: Any
) -> None:
    async def behave(run: WorkerRun) -> None:
        assert run.request == {"context": {"run_id": run.run_id}}
        for number in range(10):
            await run.emit("message.delta", delta(f"t{number}"))
        await run.emit("run.completed", {"finish_reason": "end"})

    channel = await open_channel(behave)
    sinks = [make_sink() for _ in range(5)]
    runs = [channel.start_run(f"r{number}", sink) for number, sink in enumerate(sinks)]
    for run, sink in zip(runs, sinks, strict=True):
        end = await run.ended
        assert (end.how, end.last_sequence) == ("answered", 11)
        assert sink.texts == [f"t{number}" for number in range(10)]
        assert [result.type for result in sink.results] == ["run.completed"]
        assert sink.taken == list(range(1, 12))
        assert sink.ends == [end]
        assert (sink.gaps, sink.refusals, sink.strikes) == ([], [], [])
        assert run.last_sequence == 11
    assert not channel.worker.runs


async def test_a_typed_request_arrives_as_its_json(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    context = {
        "run_id": "r",
        "trigger": {"type": "message.received", "source": "api"},
        "event": {"event_id": "e", "event_type": "api.invoked", "source": "api", "data": {}},
        "input": {"text": "hi"},
        "delivery": {"surface": "api"},
        "resources": {},
        "context": {},
        "state": {},
        "runtime": {},
        "config": {},
    }
    request = AgentRunRequest.from_wire({"runner_id": "plugin:a/b/c", "runner_name": "c", "context": context})
    channel.host.start_run(request, make_sink())
    await channel.handler.until(lambda: channel.handler.runs)
    assert AgentRunRequest.from_wire(channel.handler.runs[0].request) == request


async def test_a_cancel_right_after_the_start_reaches_the_worker_after_it(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    channel.start_run("r", make_sink()).cancel("cancelled")
    await channel.handler.until(lambda: channel.handler.cancels)
    assert channel.handler.cancels == [("r", "cancelled")]
    assert [run.run_id for run in channel.handler.runs] == ["r"]


async def test_a_run_id_is_used_once(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    first = channel.start_run("r", make_sink())
    with pytest.raises(ValueError, match="active"):
        channel.start_run("r", make_sink())
    await channel.handler.until(lambda: channel.handler.runs)
    channel.worker.finish_run(channel.handler.runs[0])
    assert (await first.ended).how == "answered"
    again = make_sink()
    channel.start_run("r", again)
    await again.until(lambda: again.ends)
    assert again.ends[0].how == "refused"
    assert "stays dead" in (again.ends[0].reason or "")


async def test_a_worker_remembers_few_ended_runs_and_late_frames_of_any_are_harmless(open_raw_host: Any) -> None:
    raw, worker, handler = await open_raw_host()
    for number in range(ENDED_RUN_IDS + 1):
        raw.call(number, "run/start", context={"run_id": f"r{number}"})
        if number % 512 == 511 or number == ENDED_RUN_IDS:
            await handler.until(lambda number=number: len(handler.runs) == number + 1)
            for run in worker.runs:
                worker.finish_run(run)
    for run_id in ("r0", "r1"):
        raw.note("run/credit", run_id=run_id, sequence=1)
        raw.note("run/cancel", run_id=run_id, reason="cancelled")
    raw.note("api/chunk", stream_id="1", index=1, data={})
    raw.call("oldest", "run/start", context={"run_id": "r0"})
    raw.call("next", "run/start", context={"run_id": "r1"})
    assert "dead" in (await raw.answered("next"))["error"]["message"]
    assert not raw.answers("oldest")
    assert (handler.cancels, raw.heard("log")) == ([], [])
    assert ENDED_RUN_IDS <= 1024


async def test_an_ended_run_sends_nothing(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    run = channel.start_run("r", make_sink())
    await channel.handler.until(lambda: channel.handler.runs)
    mine: WorkerRun = channel.handler.runs[0]
    channel.worker.finish_run(mine)
    await run.ended
    for action in (mine.emit("x", {}), mine.call("state.get", {}), anext(mine.stream("models.stream", {}))):
        with pytest.raises(ChannelClosed):
            await action
    channel.worker.finish_run(mine)
    assert mine.over
    await channel.host.ping()
    assert not channel.observer.strikes


async def test_a_request_without_a_run_id_or_while_shutting_down_is_refused(open_raw_host: Any) -> None:
    raw, _, handler = await open_raw_host()
    for number, params in enumerate([{}, {"context": 1}, {"context": {}}, {"context": {"run_id": 5}}]):
        raw.call(number, "run/start", **params)
        assert (await raw.answered(number))["error"]["data"] == {"field": "context.run_id"}
    raw.call("bad", "shutdown", grace_s="soon")
    assert "error" in await raw.answered("bad")
    raw.call("run", "run/start", context={"run_id": "r"})
    await handler.until(lambda: handler.runs)
    raw.call("bye", "shutdown", grace_s=2)
    assert (await raw.answered("bye"))["result"] == {}
    assert handler.graces == [2]
    raw.call("late", "run/start", context={"run_id": "s"})
    assert "shutting down" in (await raw.answered("late"))["error"]["message"]


async def test_a_worker_that_answers_without_a_last_sequence_breaks_the_protocol(
    open_raw_worker: Any, make_sink: Any
) -> None:
    raw = await open_raw_worker()
    for number, answer in enumerate([None, {}, [], {"last_sequence": -1}, {"last_sequence": True}]):
        sink = make_sink()
        raw.start_run(f"r{number}", sink)
        raw.answer((await raw.called("run/start", number + 1))["id"], answer)
        await sink.until(lambda sink=sink: sink.ends)
        assert sink.ends[0].how == "refused"


async def test_a_run_whose_start_cannot_be_sent_is_refused_without_a_frame(
    open_raw_worker: Any, make_sink: Any
) -> None:
    raw = await open_raw_worker()
    for number, value in enumerate(["x" * limits.FRAME_BYTES, 2**60, float("nan")]):
        sink = make_sink()
        raw.host.start_run_raw(f"r{number}", {"context": value}, sink)
        await sink.until(lambda sink=sink: sink.ends)
        assert sink.ends[0].how == "refused"
    await raw.barrier()
    assert not raw.heard("run/start")


async def test_cancelling_the_wait_for_a_run_does_not_cancel_the_run(open_channel: Any, make_sink: Any) -> None:
    channel = await open_channel()
    sink = make_sink()
    run = channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    run.ended.cancel()
    channel.worker.finish_run(channel.handler.runs[0])
    await sink.until(lambda: sink.ends)
    assert sink.ends[0].how == "answered"


@pytest.mark.parametrize(
    "value", [2**60, float("nan"), "\ud800", [0] * 10_000, {"k" * 257: 1}], ids=["int", "nan", "half", "nodes", "key"]
)
@pytest.mark.requirement("P11-45")
async def test_an_unencodable_value_is_raised_in_the_runner_without_a_strike(
    open_channel: Any, make_sink: Any, value: Any
) -> None:
    channel = await open_channel()
    sink = make_sink()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    run: WorkerRun = channel.handler.runs[0]
    with pytest.raises(FrameError):
        await run.emit("tool.call.completed", {"result": value})
    with pytest.raises(FrameError):
        await run.call("state.set", {"value": value})
    with pytest.raises(FrameError):
        await anext(run.stream("models.stream", {"value": value}))
    channel.worker.log("info", "x", {"value": value})
    await run.emit("run.completed", {"finish_reason": "end"})
    await sink.until(lambda: sink.taken)
    assert sink.taken == [1]
    assert (sink.strikes, channel.observer.strikes) == ([], [])
    assert list(channel.observer.logs[0].fields) == ["fields_refused"]


async def test_an_oversized_result_is_refused_at_the_worker_and_takes_no_number(
    open_channel: Any, make_sink: Any
) -> None:
    channel = await open_channel()
    sink = make_sink()
    channel.start_run("r", sink)
    await channel.handler.until(lambda: channel.handler.runs)
    run: WorkerRun = channel.handler.runs[0]
    room = limits.RESULT_BYTES - len(encode({"run_id": "r", "type": "message.delta", "data": delta(""), "sequence": 1}))
    with pytest.raises(PayloadTooLarge):
        await run.emit("message.delta", delta("x" * (room + 1)))
    await run.emit("message.delta", delta("x" * room))
    await sink.until(lambda: sink.taken)
    assert (sink.taken, sink.bytes) == ([1], limits.RESULT_BYTES)
    assert not sink.refusals
    with pytest.raises(PayloadTooLarge):
        await run.call("state.set", {"value": "x" * limits.CALL_BYTES})


# --- tools ---


def tool_call(call_id: str = "c1", timeout_ms: int = 60_000) -> ToolCallParams:
    context = ToolCallContext(run_id="r", workspace_id="w", agent_id="a")
    return ToolCallParams(call_id=call_id, tool="add", arguments={"a": 1}, timeout_ms=timeout_ms, context=context)


async def test_a_tool_is_called_and_answers(open_channel: Any) -> None:
    channel = await open_channel()
    call = asyncio.create_task(channel.host.call_tool(tool_call()))
    await channel.handler.until(lambda: channel.handler.tools_called)
    request = channel.handler.tools_called[0]
    assert request.params == tool_call()
    request.answer(ToolAnswer(content=(TextContent(type="text", text="2"),), structured=2))
    answer = await call
    assert answer.structured == 2


async def test_a_refused_tool_call_is_a_remote_error(open_channel: Any) -> None:
    channel = await open_channel()
    call = asyncio.create_task(channel.host.call_tool(tool_call()))
    await channel.handler.until(lambda: channel.handler.tools_called)
    channel.handler.tools_called[0].refuse("there is no such tool")
    with pytest.raises(RemoteError, match="no such tool"):
        await call


async def test_a_cancelled_tool_call_is_cancelled_at_the_worker(open_channel: Any) -> None:
    channel = await open_channel()
    call = asyncio.create_task(channel.host.call_tool(tool_call()))
    await channel.handler.until(lambda: channel.handler.tools_called)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await channel.handler.until(lambda: channel.handler.tools_cancelled)
    assert channel.handler.tools_cancelled == ["c1"]
    channel.handler.tools_called[0].answer(ToolAnswer())
    await channel.host.ping()
    assert not channel.observer.strikes


async def test_a_tool_call_that_takes_too_long_is_cancelled_at_the_worker(open_channel: Any) -> None:
    channel = await open_channel()
    with pytest.raises(CallTimeout):
        await channel.host.call_tool(tool_call(timeout_ms=1))
    await channel.handler.until(lambda: channel.handler.tools_cancelled)


@pytest.mark.parametrize("answer", [None, [], {"content": "x"}, {"is_error": "no"}, {"unknown": 1}])
async def test_a_wrong_tool_answer_is_a_remote_error(open_raw_worker: Any, answer: Any) -> None:
    raw = await open_raw_worker()
    call = asyncio.create_task(raw.host.call_tool(tool_call()))
    raw.answer((await raw.called("tool/call"))["id"], answer)
    with pytest.raises(RemoteError, match="tool/call"):
        await call


async def test_wrong_tool_parameters_are_answered_with_the_field(open_raw_host: Any) -> None:
    raw, _, handler = await open_raw_host()
    raw.call(1, "tool/call", call_id="c", tool="add", arguments=[], timeout_ms=1, context={})
    assert (await raw.answered(1))["error"]["data"] == {"field": "arguments"}
    assert not handler.tools_called


# --- log, ping, shutdown ---


async def test_log_records_arrive_and_a_truncated_message_is_marked(open_channel: Any) -> None:
    channel = await open_channel()
    channel.worker.log("info", "hello", {"a": 1}, run_id="r")
    channel.worker.log("warning", "x" * (limits.LOG_MESSAGE_CHARACTERS + 5))
    channel.worker.log("error", "half \ud800 a pair")
    channel.worker.log("error", "large", {"a": "x" * limits.FRAME_BYTES})
    await channel.observer.until(lambda: len(channel.observer.logs) == 4)
    first, second, third, fourth = channel.observer.logs
    assert (first.level, first.message, first.fields, first.run_id) == ("info", "hello", {"a": 1}, "r")
    assert len(second.message) == limits.LOG_MESSAGE_CHARACTERS
    assert second.fields == {"cut_characters": 5}
    assert third.message == "half ? a pair"
    assert fourth.fields == {"fields_refused": "oversized"}
    assert not channel.observer.strikes


async def test_log_records_over_the_rate_are_dropped_and_counted(open_channel: Any) -> None:
    channel = await open_channel()
    for number in range(limits.LOG_RECORDS_BURST + 200):
        channel.worker.log("info", str(number))
    await channel.host.ping()
    logged = len(channel.observer.logs)
    assert limits.LOG_RECORDS_BURST <= logged <= limits.LOG_RECORDS_BURST + 100
    assert [record.message for record in channel.observer.logs[:400]] == [str(number) for number in range(400)]
    while len(channel.observer.logs) == logged:  # the bucket fills with time
        channel.worker.log("info", "again")
        await channel.host.ping()
    assert channel.observer.logs[logged].fields["dropped"] >= 100


@pytest.mark.requirement("P11-45", "P11-46")
async def test_the_host_enforces_the_log_rate(open_raw_worker: Any, make_sink: Any) -> None:
    raw = await open_raw_worker()
    for number in range(5000):
        raw.note("log", level="info", message=str(number))
    await raw.barrier()
    logged = len(raw.observer.logs)
    assert logged <= 2 * limits.LOG_RECORDS_BURST + 2 * limits.LOG_RECORDS_PER_S
    assert logged >= 2 * limits.LOG_RECORDS_BURST
    sink = make_sink()
    raw.start_run("r", sink)
    await raw.called("run/start")
    count = 0
    while len(raw.observer.logs) == logged:  # the bucket fills with time
        raw.note("log", level="info", message="again")
        count += 1
        raw.call(count, "api/call", run_id="r", action="x")
        await sink.until(lambda count=count: len(sink.calls) == count)
        sink.calls[-1].answer({})
    dropped = sum(int(record.fields.get("dropped_by_host", 0)) for record in raw.observer.logs)
    assert len(raw.observer.logs) + dropped == 5000 + count


async def test_no_log_record_is_sent_before_the_introduction(open_raw_host: Any) -> None:
    raw, worker, _ = await open_raw_host(initialized=False)
    worker.log("info", "too early")
    raw.call(1, "ping")
    await raw.answered(1)
    assert not raw.heard("log")


async def test_an_unanswered_ping_times_out(open_raw_worker: Any) -> None:
    raw = await open_raw_worker()
    with pytest.raises(CallTimeout):
        await raw.host.ping(timeout_s=0.01)


async def test_a_shutdown_sends_the_grace_and_waits_for_the_answer(open_channel: Any) -> None:
    channel = await open_channel()
    await channel.host.shutdown(3.5)
    assert channel.handler.graces == [3.5]


@pytest.mark.requirement("P11-50")
async def test_a_heartbeat_ends_with_an_unanswered_ping_or_a_lost_connection() -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    def nothing() -> None: ...

    async def blocked() -> None:
        if len(pauses) == 3:
            raise CallTimeout("ping", 10)

    watched = watch_heartbeat(blocked, silent=nothing, answered=nothing, pause=pause, every_s=7)
    assert "blocked" in await watched
    assert pauses == [7, 7, 7]

    async def gone() -> None:
        raise ChannelClosed("gone")

    assert "gone" in await watch_heartbeat(gone, silent=nothing, answered=nothing, pause=pause)


async def test_a_heartbeat_reports_silence_and_the_next_answer() -> None:
    told: list[str] = []
    answer = asyncio.Event()

    async def ping() -> None:
        if "silent" in told and "answered" in told:
            raise ChannelClosed("gone")
        await answer.wait()

    async def pause(seconds: float) -> None: ...

    def silent() -> None:
        told.append("silent")
        if len(told) == 3:
            answer.set()

    reason = await watch_heartbeat(
        ping, silent=silent, answered=lambda: told.append("answered"), pause=pause, silent_s=0.001, check_s=0.001
    )
    assert reason == "channel closed: gone"
    assert told[:3] == ["silent"] * 3
    assert told[-1] == "answered"


async def test_a_heartbeat_ends_at_once_if_no_answer_is_possible() -> None:
    async def ping() -> None:
        await asyncio.Event().wait()

    reason = await watch_heartbeat(ping, silent=lambda: "stopped", answered=lambda: None, silent_s=0)
    assert reason == "stopped"


# --- the worker's end against a host that misbehaves ---


async def test_a_worker_reports_an_invalid_frame_and_continues(open_raw_host: Any) -> None:
    raw, _, _ = await open_raw_host()
    raw.send(b"garbage", b"[]", b'"' + b"x" * limits.FRAME_BYTES + b'"')
    raw.note("unheard/of")
    raw.note("run/credit", run_id=5)
    raw.note("run/credit", run_id="unknown", sequence=1)
    raw.note("run/cancel", run_id="unknown")
    raw.note("api/chunk", stream_id="unknown", index=1, data=None)
    raw.call(1, "ping")
    await raw.answered(1)
    codes = [answer["error"]["code"] for answer in raw.frames if "error" in answer]
    assert codes == [-32700, -32600, -32700]
    assert [log["params"]["level"] for log in raw.heard("log")] == ["warning"] * 5


async def test_unknown_methods_and_notifications_sent_as_calls_are_answered(open_raw_host: Any) -> None:
    raw, _, handler = await open_raw_host()
    raw.call(1, "no/such")
    assert (await raw.answered(1))["error"]["code"] == -32601
    raw.call(2, "tool/cancel", call_id="c")
    assert (await raw.answered(2))["result"] == {}
    assert handler.tools_cancelled == ["c"]


async def test_an_invalid_credit_changes_nothing(open_raw_host: Any) -> None:
    raw, _, handler = await open_raw_host()
    raw.call(1, "run/start", context={"run_id": "r"})
    await handler.until(lambda: handler.runs)
    run: WorkerRun = handler.runs[0]
    for _ in range(limits.WINDOW_RESULTS):
        await run.emit("x", {})
    raw.note("run/credit", run_id="r", sequence=limits.WINDOW_RESULTS + 1)
    blocked = asyncio.create_task(run.emit("x", {}))
    raw.call(2, "ping")
    await raw.answered(2)
    assert not blocked.done()
    raw.note("run/credit", run_id="r", sequence=1)
    await blocked


def test_identities_are_built_from_plain_values() -> None:
    assert PluginIdentity.from_wire(INTRODUCTION["plugin"]).author == "acme"
    assert WorkerIdentity.from_wire(INTRODUCTION["worker"]).language == "python"
