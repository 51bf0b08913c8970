"""Tools of the plugin: answers, failures, cancel, time-outs, side by side."""

import asyncio

from pydantic import ValidationError

from bollard.conformance.errors import CaseFailed
from bollard.conformance.line import brief
from bollard.conformance.registry import Cases
from bollard.conformance.script import step, tool_call
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, ToolAnswer
from bollard.wire.envelope import Answer, Failure

CASES = Cases()

_LONG_MS = 30_000


def _read(answer: Answer | Failure) -> ToolAnswer:
    if isinstance(answer, Failure):
        raise CaseFailed("an answer to tool/call", f"it was refused: {answer.message} ({answer.code})")
    try:
        return ToolAnswer.from_wire(answer.result)
    except ValidationError as error:
        raise CaseFailed("a valid tool answer", f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error


def _failed(answer: Answer | Failure, what: str) -> None:
    """A failure is a JSON-RPC error or an answer with `is_error`."""
    if isinstance(answer, Answer) and not _read(answer).is_error:
        raise CaseFailed(f"{what} to be a failure", f"it was answered with {brief(answer.result)}")


@CASES.shared("echo answers with content, a structured value and is_error false", "P11-32")
async def tool_answers(session: Session) -> None:
    answer = _read(await session.request("tool/call", tool_call("c-echo", "echo", {"text": "ahoy 好"})))
    if answer.is_error or not answer.content or answer.structured != {"text": "ahoy 好"}:
        raise CaseFailed("content and structured {'text': 'ahoy 好'}", f"it is {brief(answer.to_wire())}")


@CASES.shared("a tool that raises is answered with is_error true and a sentence", "P11-33")
async def tool_raises(session: Session) -> None:
    answer = _read(await session.request("tool/call", tool_call("c-broken", "broken", {})))
    if not answer.is_error or not answer.content:
        raise CaseFailed("is_error true and content", f"it is {brief(answer.to_wire())}")


@CASES.shared("tool/cancel ends a call at once", "P11-34")
async def tool_cancelled(session: Session) -> None:
    call = session.ask("tool/call", tool_call("c-slow", "slow", {"ms": _LONG_MS}, timeout_ms=_LONG_MS))
    await session.ping()
    session.note("tool/cancel", {"call_id": "c-slow"})
    _failed(await session.answer_to(call, "the cancelled tool/call"), "a cancelled call")


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
        raise CaseFailed("echo to answer meanwhile", f"it is {brief(quick.to_wire())}")
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
