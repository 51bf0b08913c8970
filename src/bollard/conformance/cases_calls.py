"""Calls of the run API: answers, refusals, many at once, giving up."""

from typing import cast

from bollard.conformance.errors import CaseFailed
from bollard.conformance.line import brief
from bollard.conformance.registry import Cases
from bollard.conformance.script import step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject
from bollard.wire.envelope import INTERNAL_ERROR

CASES = Cases()

_INFO: JsonObject = {"host_version": "9.9", "protocol": 1, "limits": {"a": 1}}
_CALL = step("call", action="host.info", params={})
_PARALLEL = 10


def _answer(said: JsonObject) -> JsonObject:
    answer = said.get("answer")
    if not isinstance(answer, dict):
        raise CaseFailed("the answer of the call", f"the runner got {brief(said)}")
    return answer


@CASES.shared("api/call carries run id, action and parameters, and its answer reaches the runner", "P06-01")
async def call_answered(session: Session) -> None:
    params: JsonObject = {"query": "where", "top_k": 3}
    run = session.start([step("call", action="history.search", params=params)])
    call = await session.next_call("history.search")
    if call.method != "api/call" or call.run_id != run.id or call.params.items() < params.items():
        raise CaseFailed(f"api/call of {run.id} with {params}", f"it came as {brief(call.params)} of {call.run_id}")
    session.reply(call, {"items": [], "query": "where", "total_count": 7})
    answer = _answer(await run.said())
    if answer.get("total_count") != 7 or answer.get("query") != "where":
        raise CaseFailed("the answer that was sent", f"the runner got {brief(answer)}")
    await run.completes()


@CASES.shared("unknown fields in an answer do no harm", "P06-05")
async def call_answer_tolerant(session: Session) -> None:
    run = session.start([_CALL])
    session.reply(await session.next_call("host.info"), {**_INFO, "newer": {"x": [1]}})
    if _answer(await run.said()).get("host_version") != "9.9":
        raise CaseFailed("host_version 9.9", f"the runner got {brief(await run.said())}")
    await run.completes()


@CASES.shared("a refused call reaches the runner with its code, and the run goes on", "P07-01")
async def call_refused(session: Session) -> None:
    run = session.start([_CALL, step("delta", text="still here")])
    call = await session.next_call("host.info")
    session.refuse(call, {"code": "rate_limited", "message": "slow down", "retryable": True, "details": {"s": 1}})
    said = await run.said()
    if said.get("error") != "rate_limited":
        raise CaseFailed("the error rate_limited", f"the runner got {brief(said)}")
    await run.completes()


@CASES.shared("an error with an unknown code, unknown fields or no data does no harm", "P07-03")
async def call_error_tolerant(session: Session) -> None:
    run = session.start([_CALL])
    session.refuse(await session.next_call("host.info"), {"code": "a_newer_code", "message": "m", "newer": [1]})
    if (await run.said()).get("error") != "a_newer_code":
        raise CaseFailed("the error a_newer_code", f"the runner got {brief(await run.said())}")
    await run.completes()
    bare = session.start([_CALL])
    session.refuse(await session.next_call("host.info"), None, code=INTERNAL_ERROR)
    if not isinstance((await bare.said()).get("error"), str):
        raise CaseFailed("an error", f"the runner got {brief(await bare.said())}")
    await bare.completes()


@CASES.shared("an error that the runner does not handle fails its run with runner.error", "P07-06")
async def call_error_unhandled(session: Session) -> None:
    run = session.start([step("call", action="host.info", params={}, catch=False)])
    session.refuse(await session.next_call("host.info"), {"code": "unauthorized", "message": "no"})
    await run.fails_with("runner.error")


@CASES.shared("parallel calls each get their own answer, whatever the order", "P06-04")
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
            raise CaseFailed(f"the answer to q{number} in its place", f"it is {brief(text)}")
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
            raise CaseFailed(f"the answer to {name}", f"{run.id} got {brief(await run.said())}")
        await run.completes()


@CASES.shared("a call that is given up is told with api/cancel, and its late answer has no effect", "P11-26")
async def call_given_up(session: Session) -> None:
    run = session.start([step("give_up", action="host.info", params={}, after_ms=50), step("delta", text="on")])
    call = await session.next_call("host.info")
    await session.until(lambda: call.given_up, "an api/cancel with the id of the call")
    session.reply(call, _INFO)
    said = await run.said()
    if said.get("given_up") is not True:
        raise CaseFailed("the runner to go on without an answer", f"it got {brief(said)}")
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
        raise CaseFailed("the steered input", f"the runner got {brief(items)}")
    await run.completes()
