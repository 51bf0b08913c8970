"""Tools of the plugin: answers, failures, cancellation, timeouts and concurrent calls."""

import asyncio

from pydantic import ValidationError

from bollard.conformance.connection import shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import step, tool_call
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, ToolAnswer
from bollard.wire.envelope import ErrorResponse, Response

CASES = Cases()

_LONG_MS = 30_000


def _read(answer: Response | ErrorResponse) -> ToolAnswer:
    if isinstance(answer, ErrorResponse):
        raise CaseFailed("an answer to tool/call", f"it was refused: {answer.message} ({answer.code})")
    try:
        return ToolAnswer.from_wire(answer.result)
    except ValidationError as error:
        raise CaseFailed("a valid tool answer", f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error


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
