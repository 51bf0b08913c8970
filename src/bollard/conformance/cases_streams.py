"""Streamed calls: order, credit, errors, leaving early."""

from bollard.conformance.errors import CaseFailed
from bollard.conformance.judge import CallSeen
from bollard.conformance.line import brief
from bollard.conformance.registry import Cases
from bollard.conformance.script import step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, JsonValue, limits

CASES = Cases()

_PARAMS: JsonObject = {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]}


def _stream(**fields: JsonValue) -> JsonObject:
    return step("stream", action="models.stream", params=_PARAMS, **fields)


def _is(said: JsonObject, texts: list[str], end: str) -> None:
    if said.get("texts") != texts or said.get("end") != end:
        raise CaseFailed(f"{len(texts)} chunks in order, then {end}", f"the runner got {brief(said)}")


async def _opened(session: Session) -> CallSeen:
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


@CASES.shared("credit for a stream is cumulative and never ahead of what the runner took", "P11-28")
async def stream_credit(session: Session) -> None:
    run = session.start([_stream(hold_after=3)])
    call = await _opened(session)
    for number in range(limits.STREAM_WINDOW_CHUNKS):
        session.chunk(call, f"c{number}")
    await session.never(lambda: call.credited > 3, "no credit for chunks that the runner did not take")
    run.cancel()
    await run.fails_with("cancelled")


@CASES.shared("a stream longer than its window goes on as credit is returned", "P11-29")
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


@CASES.shared("a stream that the runner leaves is told with api/cancel, and late chunks have no effect", "P11-27")
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
