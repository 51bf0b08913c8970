"""Calls of the run API and of tools: answers, refusals, streams, concurrent calls, cancellation and time-outs."""

import asyncio
from typing import cast

from bollard.conformance.connection import read_answer, shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.judge import ObservedCall
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import step, tool_call
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, JsonValue, ToolAnswer, limits
from bollard.wire.envelope import INTERNAL_ERROR, ErrorResponse, Response

CASES = Cases()

_INFO: JsonObject = {"host_version": "9.9", "protocol": 1, "limits": {"a": 1}}
_CALL = step("call", action="host.info", params={})
_PARALLEL = 10


def _answer(reply: JsonObject) -> JsonObject:
    answer = reply.get("answer")
    if not isinstance(answer, dict):
        raise CaseFailed("the answer of the call", f"the runner got {shorten(reply)}")
    return answer


@CASES.shared("api/call carries run id, action and parameters, and its answer reaches the runner", "P06-01")
async def call_answered(session: Session) -> None:
    params: JsonObject = {"query": "where", "top_k": 3}
    run = session.start([step("call", action="history.search", params=params)])
    call = await session.next_call("history.search")
    if call.method != "api/call" or call.run_id != run.id or call.params.items() < params.items():
        raise CaseFailed(f"api/call of {run.id} with {params}", f"it came as {shorten(call.params)} of {call.run_id}")
    session.reply(call, {"items": [], "query": "where", "total_count": 7})
    answer = _answer(await run.said())
    if answer.get("total_count") != 7 or answer.get("query") != "where":
        raise CaseFailed("the answer that was sent", f"the runner got {shorten(answer)}")
    await run.completes()


@CASES.shared("unknown fields in an answer do no harm", "P06-05")
async def call_answer_tolerant(session: Session) -> None:
    run = session.start([_CALL])
    session.reply(await session.next_call("host.info"), {**_INFO, "newer": {"x": [1]}})
    if _answer(await run.said()).get("host_version") != "9.9":
        raise CaseFailed("host_version 9.9", f"the runner got {shorten(await run.said())}")
    await run.completes()


@CASES.shared("a refused call reaches the runner with its code, and the run continues", "P07-01")
async def call_refused(session: Session) -> None:
    run = session.start([_CALL, step("delta", text="still here")])
    call = await session.next_call("host.info")
    session.refuse(call, {"code": "rate_limited", "message": "slow down", "retryable": True, "details": {"s": 1}})
    reply = await run.said()
    if reply.get("error") != "rate_limited":
        raise CaseFailed("the error rate_limited", f"the runner got {shorten(reply)}")
    await run.completes()


@CASES.shared("an error with an unknown code, unknown fields or no data does no harm", "P07-03")
async def call_error_tolerant(session: Session) -> None:
    run = session.start([_CALL])
    session.refuse(await session.next_call("host.info"), {"code": "a_newer_code", "message": "m", "newer": [1]})
    if (await run.said()).get("error") != "a_newer_code":
        raise CaseFailed("the error a_newer_code", f"the runner got {shorten(await run.said())}")
    await run.completes()
    bare = session.start([_CALL])
    session.refuse(await session.next_call("host.info"), None, code=INTERNAL_ERROR)
    if not isinstance((await bare.said()).get("error"), str):
        raise CaseFailed("an error", f"the runner got {shorten(await bare.said())}")
    await bare.completes()


@CASES.shared("an error that the runner does not handle fails its run with runner.error", "P07-06")
async def call_error_unhandled(session: Session) -> None:
    run = session.start([step("call", action="host.info", params={}, catch=False)])
    session.refuse(await session.next_call("host.info"), {"code": "unauthorized", "message": "no"})
    await run.fails_with("runner.error")


@CASES.shared("parallel calls each get their own answer, in any order", "P06-04")
async def calls_parallel(session: Session) -> None:
    queries: list[JsonObject] = [{"query": f"q{number}"} for number in range(_PARALLEL)]
    run = session.start([step("call_many", action="history.search", params=[*queries])])

    def opened() -> bool:
        return len([call for call in session.judge.calls if call.run_id == run.id]) == _PARALLEL

    await session.until(opened, f"{_PARALLEL} calls at once")
    for call in reversed([call for call in session.judge.calls if call.run_id == run.id]):
        session.reply(call, {"items": [], "query": call.params["query"]})
    await run.completes()
    for number, text in enumerate(run.texts):
        if f'"q{number}"' not in text:
            raise CaseFailed(f"the answer to q{number} in its place", f"it is {shorten(text)}")
    if len(run.texts) != _PARALLEL:
        raise CaseFailed(f"{_PARALLEL} answers", f"there are {len(run.texts)}")


@CASES.shared("calls of two runs carry the id of the run that makes them", "P06-07")
async def calls_of_two_runs(session: Session) -> None:
    runs = [session.start([step("call", action="history.search", params={"query": name})]) for name in ("one", "two")]
    for _ in runs:
        call = await session.next_call("history.search")
        owner = runs[0] if call.params["query"] == "one" else runs[1]
        if call.run_id != owner.id:
            raise CaseFailed(f"the run id {owner.id}", f"the call says {call.run_id}")
        session.reply(call, {"items": [], "query": call.params["query"]})
    for run, name in zip(runs, ("one", "two"), strict=True):
        if _answer(await run.said()).get("query") != name:
            raise CaseFailed(f"the answer to {name}", f"{run.id} got {shorten(await run.said())}")
        await run.completes()


@CASES.shared("api/cancel is sent for an abandoned call, and its late answer has no effect", "P11-26")
async def call_given_up(session: Session) -> None:
    run = session.start([step("give_up", action="host.info", params={}, after_ms=50), step("delta", text="on")])
    call = await session.next_call("host.info")
    await session.until(lambda: call.given_up, "an api/cancel with the id of the call")
    session.reply(call, _INFO)
    reply = await run.said()
    if reply.get("given_up") is not True:
        raise CaseFailed("the runner to go on without an answer", f"it got {shorten(reply)}")
    await run.completes()


@CASES.shared("a result is on the wire before a call that the runner makes after it", "P05-31")
async def results_before_calls(session: Session) -> None:
    run = session.start([step("delta", text="x", count=20), _CALL])
    call = await session.next_call("host.info")
    if run.count != 20:
        raise CaseFailed("20 results before the call", f"{run.count} had come")
    session.reply(call, _INFO)
    await run.completes()


@CASES.shared("a steering pull is a call like any other", "P09-02")
async def steering_pulled(session: Session) -> None:
    run = session.start([step("call", action="steering.pull", params={})])
    call = await session.next_call("steering.pull")
    item: JsonObject = {
        "claimed_run_id": run.id,
        "runner_id": "plugin:bollard/conformance/scripted",
        "event": {"event_id": "e2", "event_type": "message.received", "source": "s"},
        "input": {"text": "wait, also this"},
    }
    session.reply(call, {"items": [item]})
    items = cast("list[JsonObject]", _answer(await run.said()).get("items"))
    if not items or cast("JsonObject", items[0]["input"]).get("text") != "wait, also this":
        raise CaseFailed("the steered input", f"the runner got {shorten(items)}")
    await run.completes()


# Streamed calls: order, credit, errors, leaving early.


_PARAMS: JsonObject = {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]}


def _stream(**fields: JsonValue) -> JsonObject:
    return step("stream", action="models.stream", params=_PARAMS, **fields)


def _is(reply: JsonObject, texts: list[str], end: str) -> None:
    if reply.get("texts") != texts or reply.get("end") != end:
        raise CaseFailed(f"{len(texts)} chunks in order, then {end}", f"the runner got {shorten(reply)}")


async def _opened(session: Session) -> ObservedCall:
    call = await session.next_call("models.stream")
    if call.method != "api/stream":
        raise CaseFailed("models.stream as api/stream", f"it came as {call.method}")
    return call


@CASES.shared("chunks reach the runner in order, and the response ends the stream", "P06-06")
async def stream_in_order(session: Session) -> None:
    run = session.start([_stream()])
    call = await _opened(session)
    texts = [f"c{number}" for number in range(50)]
    for text in texts:
        session.chunk(call, text)
    session.reply(call, {})
    _is(await run.said(), texts, "closed")
    await run.completes()


@CASES.shared("credit for a stream is cumulative and never exceeds the chunks that the runner took", "P11-28")
async def stream_credit(session: Session) -> None:
    run = session.start([_stream(hold_after=3)])
    call = await _opened(session)
    for number in range(limits.STREAM_WINDOW_CHUNKS):
        session.chunk(call, f"c{number}")
    await session.never(lambda: call.credited > 3, "no credit for chunks that the runner did not take")
    run.cancel()
    await run.fails_with("cancelled")


@CASES.shared("a stream longer than its window continues as credit is returned", "P11-29")
async def stream_longer_than_window(session: Session) -> None:
    total = 2 * limits.STREAM_WINDOW_CHUNKS + 44
    run = session.start([_stream()])
    call = await _opened(session)
    for number in range(total):
        if call.chunks_sent - call.credited >= limits.STREAM_WINDOW_CHUNKS:
            before = call.credited
            await session.until(lambda before=before: call.credited > before, "credit for the chunks that were taken")
        session.chunk(call, f"c{number}")
    session.reply(call, {})
    _is(await run.said(), [f"c{number}" for number in range(total)], "closed")
    await run.completes()


@CASES.shared("an error ends a stream after the chunks that came before it", "P11-30")
async def stream_error(session: Session) -> None:
    run = session.start([_stream(pause_ms=20)])
    call = await _opened(session)
    for text in ("a", "b", "c"):
        session.chunk(call, text)
    session.refuse(call, {"code": "deadline_exceeded", "message": "too slow"})
    _is(await run.said(), ["a", "b", "c"], "deadline_exceeded")
    await run.completes()


@CASES.shared("api/cancel is sent for a stream that the runner leaves, and late chunks have no effect", "P11-27")
async def stream_left(session: Session) -> None:
    run = session.start([_stream(take=2), step("delta", text="on")])
    call = await _opened(session)
    for text in ("a", "b", "c"):
        session.chunk(call, text)
    await session.until(lambda: call.given_up, "an api/cancel with the id of the stream")
    for text in ("late", "later"):
        session.chunk(call, text)
    session.note("api/chunk", {"stream_id": "never-opened", "index": 1, "data": {"content": "x"}})
    session.reply(call, {})
    _is(await run.said(), ["a", "b"], "left")
    await run.completes()


_LONG_MS = 30_000


def _read(answer: Response | ErrorResponse) -> ToolAnswer:
    return read_answer(answer, ToolAnswer, "tool/call")


def _failed(answer: Response | ErrorResponse, what: str) -> None:
    """Require a failure: a JSON-RPC error or an answer with `is_error`."""
    if isinstance(answer, Response) and not _read(answer).is_error:
        raise CaseFailed(f"{what} to be a failure", f"it was answered with {shorten(answer.result)}")


@CASES.shared("echo answers with content, a structured value and is_error false", "P11-32")
async def tool_answers(session: Session) -> None:
    answer = _read(await session.request("tool/call", tool_call("c-echo", "echo", {"text": "ahoy 好"})))
    if answer.is_error or not answer.content or answer.structured != {"text": "ahoy 好"}:
        raise CaseFailed("content and structured {'text': 'ahoy 好'}", f"it is {shorten(answer.to_wire())}")


@CASES.shared("a tool that raises is answered with is_error true and a sentence", "P11-33")
async def tool_raises(session: Session) -> None:
    answer = _read(await session.request("tool/call", tool_call("c-broken", "broken", {})))
    if not answer.is_error or not answer.content:
        raise CaseFailed("is_error true and content", f"it is {shorten(answer.to_wire())}")


@CASES.shared("tool/cancel ends a call at once", "P11-34")
async def tool_cancelled(session: Session) -> None:
    call = session.ask("tool/call", tool_call("c-slow", "slow", {"ms": _LONG_MS}, timeout_ms=_LONG_MS))
    await session.ping()
    session.note("tool/cancel", {"call_id": "c-slow"})
    _failed(await session.answer_to(call, "the cancelled tool/call"), "a cancelled call")


@CASES.shared("tool/cancel leaves the call of another run alone", "P11-34")
async def tool_cancel_spares_other_runs(session: Session) -> None:
    def slow(run_id: str) -> JsonObject:
        return tool_call(f"{run_id}.call_1", "slow", {"ms": 300}, run_id=run_id)

    cancelled, kept = (session.ask("tool/call", slow(run_id)) for run_id in ("run-one", "run-two"))
    session.note("tool/cancel", {"call_id": "run-one.call_1"})
    _failed(await session.answer_to(cancelled, "the cancelled tool/call"), "a cancelled call")
    answer = _read(await session.answer_to(kept, "the tool/call of the other run"))
    if answer.is_error:
        raise CaseFailed("the call of the other run to go on", f"it is {shorten(answer.to_wire())}")


@CASES.shared("tool/cancel of an unknown call is ignored", "P11-34")
async def tool_cancel_unknown_ignored(session: Session) -> None:
    session.note("tool/cancel", {"call_id": "never-called"})
    await session.ping()


@CASES.shared("a call that outlives its timeout_ms is ended and answered as a failure", "P11-35")
async def tool_times_out(session: Session) -> None:
    call = tool_call("c-timeout", "slow", {"ms": _LONG_MS}, timeout_ms=200)
    _failed(await session.request("tool/call", call), "a call that took too long")


@CASES.shared("tool calls run beside each other and beside runs", "P11-36")
async def tools_parallel(session: Session) -> None:
    run = session.start([step("wait", ms=300), step("delta", text="x")])
    slow = [session.ask("tool/call", tool_call(f"c-par-{n}", "slow", {"ms": 400})) for n in range(5)]
    quick = _read(await session.request("tool/call", tool_call("c-par-echo", "echo", {"text": "x"})))
    if quick.is_error:
        raise CaseFailed("echo to answer meanwhile", f"it is {shorten(quick.to_wire())}")
    began = asyncio.get_running_loop().time()
    for call in slow:
        _read(await session.answer_to(call, "a slow tool"))
    if asyncio.get_running_loop().time() - began > 5 * 0.4:
        raise CaseFailed("five calls of 0.4 s at once", "they were done one after the other")
    await run.completes()


@CASES.shared("a tool that the plugin does not have is answered as a failure", "P11-37")
async def tool_unknown(session: Session) -> None:
    _failed(await session.request("tool/call", tool_call("c-nobody", "nobody", {})), "an unknown tool")


@CASES.shared("wrong arguments are answered as a failure", "P11-37")
async def tool_wrong_arguments(session: Session) -> None:
    wrong: tuple[JsonObject, ...] = ({}, {"text": 7}, {"text": "x", "more": 1})
    for number, arguments in enumerate(wrong):
        call = tool_call(f"c-wrong-{number}", "echo", arguments)
        _failed(await session.request("tool/call", call), f"echo with {arguments}")


@CASES.shared("unknown fields in a tool call and its context do no harm", "P01-11")
async def tool_unknown_fields(session: Session) -> None:
    call = tool_call("c-newer", "echo", {"text": "x"})
    context: JsonObject = {
        "run_id": "r",
        "workspace_id": "w",
        "agent_id": "a",
        "newer": [1],
        "actor": {"actor_type": "u", "n": 1},
    }
    if _read(await session.request("tool/call", {**call, "context": context, "newer": True})).is_error:
        raise CaseFailed("echo to answer", "it failed")
