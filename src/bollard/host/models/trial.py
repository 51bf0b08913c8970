"""Tests a model with one short call. The call counts against the workspace's budget and is recorded for the caller."""

import asyncio
from contextlib import aclosing
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import HostError, ModelFailed
from bollard.host.identity.caller import Caller
from bollard.host.models.boundary import ModelCall
from bollard.host.models.calls import CallTarget, ModelCaller, ModelGateway
from bollard.host.models.failures import with_words
from bollard.host.models.limits import TEST_S
from bollard.host.models.pricing import guess_messages, guess_text, guess_texts
from bollard.protocol import JsonObject, Message

_WORDS: Final = 80
"""Characters of the answer in the result."""
_MESSAGES: Final = (Message(role="user", content="Say hello in three words."),)
_TOKENS: Final = 32
_TEXTS: Final = ("Say hello in three words.",)
_QUESTION: Final = "Where do ships moor?"
_DOCUMENTS: Final = ("A cat sleeps.", "Ships moor at a bollard.")
_SENT: Final = {
    "llm": (guess_messages(_MESSAGES), _TOKENS),
    "rerank": (guess_text(_QUESTION) + guess_texts(_DOCUMENTS), 0),
    "embedding": (guess_texts(_TEXTS), 0),
}
"""By type of model: tokens sent, and the most that may be received."""


async def try_model(gateway: ModelGateway, clock: Clock, caller: Caller, model_id: str) -> JsonObject:
    """The result of a test call: `ok` with the answer, or the reason of the failure. Only callers with `host.operate`
    see the message of an internal provider. Raises `NotFound`."""
    spec = gateway.book.get(caller.workspace, model_id).spec
    sent, most = _SENT[spec.served_type]
    asker = ModelCaller(workspace=caller.workspace, by=caller.name)
    started = clock.monotonic()
    outcome: JsonObject = {}
    try:
        async with asyncio.timeout(TEST_S), gateway.place(asker, model_id, sent, most) as place:
            outcome = await _TESTS[place.known.spec.served_type](place, clock, started)
    except TimeoutError:
        outcome = _failed("timeout", f"the model did not answer within {TEST_S:g} s", "check its provider")
    except HostError as error:
        reason, status = error.details.get("reason", error.code), error.details.get("status")
        if isinstance(error, ModelFailed) and caller.may("host.operate"):
            error = with_words(error)
        outcome = _failed(str(reason), error.message, error.hint)
        if status is not None:
            outcome["status"] = status
    finally:
        gateway.forget(asker)
    took: JsonObject = {"latency_ms": round((clock.monotonic() - started) * 1000, 1)}
    if "reason" in outcome and spec.base_url:
        outcome["base_url"] = spec.base_url
    return {"model_id": model_id, "ok": "reason" not in outcome, **took, **outcome}


def _failed(reason: str, message: str, hint: str) -> JsonObject:
    return {"reason": reason, "message": message, "hint": hint}


async def _talk(place: CallTarget, clock: Clock, started: float) -> JsonObject:
    text, first, usage = "", None, None
    call = ModelCall(messages=_MESSAGES, extra_args={"max_tokens": _TOKENS})
    async with aclosing(place.backend.stream(call, place.key)) as chunks:
        async for chunk in chunks:
            place.heard(chunk)
            first = clock.monotonic() if first is None else first
            text += chunk.content if isinstance(chunk.content, str) else ""
            usage = chunk.usage or usage
    found: JsonObject = {"words": text[:_WORDS]}
    if first is not None:
        found["first_token_ms"] = round((first - started) * 1000, 1)
    return found if usage is None else {**found, "usage": usage.to_wire()}


async def _order(place: CallTarget, clock: Clock, started: float) -> JsonObject:
    del clock, started
    scores = await place.backend.rerank(_QUESTION, _DOCUMENTS, None, place.key)
    return {"best": scores[0].index} if scores else {}


async def _measure(place: CallTarget, clock: Clock, started: float) -> JsonObject:
    del clock, started
    return {"dimensions": (await place.backend.embed(_TEXTS, place.key)).dimensions}


_TESTS: Final = {"llm": _talk, "rerank": _order, "embedding": _measure}
