"""Frames that a host never sends. A worker must survive one of them: it has no effect, and later frames are served.

Every bad frame is a `run/start` with one defect. The worker passes if it answers a ping, has sent nothing of that run,
and then starts a run with the same id from a good frame, which proves that the bad frame had no effect.
"""

import json
from typing import cast

from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import run_request, step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, JsonValue, limits
from bollard.wire.envelope import ErrorResponse

CASES = Cases()

_SAFETY = 200  # keeps frames clear of a limit that two parsers may count differently by one
_ID = 900_001
_JOINED = 50


def _nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def _zeros(count: int) -> JsonValue:
    return [0 for _ in range(count)]


def _start_frame(run_id: str, extra: JsonValue = None) -> bytes:
    request = run_request(run_id, [step("delta", text="ghost")], context={"metadata": {"extra": extra}})
    return json.dumps({"jsonrpc": "2.0", "id": _ID, "method": "run/start", "params": request}).encode()


def _with_text(run_id: str, text: bytes) -> bytes:
    """Return a start frame with raw bytes in place of the extra value."""
    return _start_frame(run_id, "@@").replace(b'"@@"', text)


async def _has_no_effect(session: Session, run_id: str, frame: bytes) -> None:
    session.allow_answer(_ID)  # a worker that could read the id may refuse it
    session.send_raw(frame)
    await session.ping()
    run = session.start([step("delta", text="good")], run_id=run_id)
    await run.completes()
    if run.texts != ["good"]:
        raise CaseFailed("the run of the good frame alone", f"the deltas are {run.texts}")


@CASES.own("a frame that is not JSON has no effect", "P11-21")
async def frame_not_json(session: Session) -> None:
    await _has_no_effect(session, "bad", _start_frame("bad")[:-1])


@CASES.own("a frame that is not UTF-8 has no effect", "P11-21")
async def frame_not_utf8(session: Session) -> None:
    await _has_no_effect(session, "bad", _with_text("bad", b'"\xff\xfe"'))


@CASES.own("a frame with a duplicate key has no effect", "P11-21")
async def frame_duplicate_key(session: Session) -> None:
    await _has_no_effect(session, "bad", _with_text("bad", b'{"k":1,"k":2}'))


@CASES.own("a frame with NaN or an infinite number has no effect", "P11-21")
async def frame_nan(session: Session) -> None:
    await _has_no_effect(session, "bad-1", _with_text("bad-1", b"NaN"))
    await _has_no_effect(session, "bad-2", _with_text("bad-2", b"1e999"))


@CASES.own("a frame with an integer beyond 2^53 has no effect", "P11-21")
async def frame_integer(session: Session) -> None:
    await _has_no_effect(session, "bad-1", _start_frame("bad-1", limits.INTEGER_MAX + 1))
    await _has_no_effect(session, "bad-2", _start_frame("bad-2", -limits.INTEGER_MAX - 1))


@CASES.own("a frame with a lone surrogate has no effect", "P11-21")
async def frame_surrogate(session: Session) -> None:
    await _has_no_effect(session, "bad-1", _with_text("bad-1", b'"\\ud800"'))
    await _has_no_effect(session, "bad-2", _with_text("bad-2", b'{"\\udfff x":1}'))


@CASES.own("a frame that is nested too deep has no effect", "P11-21")
async def frame_deep(session: Session) -> None:
    await _has_no_effect(session, "bad", _start_frame("bad", _nested(limits.FRAME_DEPTH + 1)))


@CASES.own("a frame with too many values has no effect", "P11-21")
async def frame_nodes(session: Session) -> None:
    await _has_no_effect(session, "bad", _start_frame("bad", _zeros(limits.FRAME_NODES + _SAFETY)))


@CASES.own("a frame with a key of more than 256 characters has no effect", "P11-21")
async def frame_long_key(session: Session) -> None:
    await _has_no_effect(session, "bad", _start_frame("bad", {"k" * (limits.KEY_CHARACTERS + 1): 1}))


@CASES.own("a frame of more than 2 MiB has no effect", "P11-21")
async def frame_oversized(session: Session) -> None:
    await _has_no_effect(session, "bad", _start_frame("bad", "x" * limits.FRAME_BYTES))


@CASES.own("a batch has no effect", "P11-23")
async def frame_batch(session: Session) -> None:
    await _has_no_effect(session, "bad", b"[" + _start_frame("bad") + b"]")


@CASES.own("a document that is no JSON-RPC message has no effect", "P11-23")
async def frame_not_rpc(session: Session) -> None:
    without_version = cast("JsonObject", json.loads(_start_frame("bad")))
    del without_version["jsonrpc"]
    await _has_no_effect(session, "bad", json.dumps(without_version).encode())
    await _has_no_effect(session, "bad-2", b'"just text"')


@CASES.own("a response to an id that was never asked has no effect", "P11-24")
async def stray_response_ignored(session: Session) -> None:
    session.send_raw(b'{"jsonrpc":"2.0","id":123456,"result":{}}')
    session.send_raw(b'{"jsonrpc":"2.0","id":"never","error":{"code":-32000,"message":"x"}}')
    await session.ping()


@CASES.shared("a frame just inside every limit is served", "P11-22")
async def frame_within_limits(session: Session) -> None:
    extras: tuple[JsonValue, ...] = (
        _nested(limits.FRAME_DEPTH - 8),
        _zeros(limits.FRAME_NODES - _SAFETY),
        {"k" * limits.KEY_CHARACTERS: limits.INTEGER_MAX, "low": -limits.INTEGER_MAX, "pair": "🚢", "float": 1e300},
    )
    for extra in extras:
        run = session.start([step("delta", text="x")], context={"metadata": {"extra": extra}})
        await run.completes()


@CASES.shared("a frame of almost 2 MiB, which the socket splits, is served", "P11-22")
async def frames_split(session: Session) -> None:
    size = limits.FRAME_BYTES - 8 * limits.KIB
    context: JsonObject = {"metadata": {"extra": "x" * size}}
    run = session.start([step("context", paths=["metadata.extra"])], context=context)
    data = await run.fails_with("runner.error", "runner.protocol")  # its result would exceed the size limit
    if not data.get("error"):
        raise CaseFailed("a sentence in error", "there is none")
    small = session.start([step("delta", text="x")], context=context)
    await small.completes()


@CASES.shared("many frames in one write are all served, in order", "P11-22")
async def frames_joined(session: Session) -> None:
    pings = [session.ask("ping", {}) for _ in range(_JOINED)]  # sent in one turn of the loop, so written at once
    answers = [await session.answer_to(ping, "a ping among many") for ping in pings]
    if any(isinstance(answer, ErrorResponse) for answer in answers):
        raise CaseFailed(f"{_JOINED} answers", "some pings were refused")
