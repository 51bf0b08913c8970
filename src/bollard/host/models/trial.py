"""Tests a model with one short call. The call counts against the workspace's budget and is recorded for the caller."""

import asyncio
from contextlib import aclosing
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import HostError, ModelFailed, caused_by
from bollard.host.identity.caller import Caller
from bollard.host.models.boundary import ModelCall
from bollard.host.models.calls import CallTarget, ModelCaller, ModelGateway
from bollard.host.models.failures import failed, with_words
from bollard.host.models.limits import TEST_S
from bollard.host.models.pricing import guess_messages, guess_text, guess_texts
from bollard.host.models.registry import DRAFT
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
        message = f"the model did not answer within {TEST_S:g} s"
        outcome = _failed(failed("timeout", message, "model.late", hint="check its provider", seconds=TEST_S))
    except HostError as error:
        if isinstance(error, ModelFailed) and caller.may("host.operate"):
            error = with_words(error)
        outcome = _failed(error)
    finally:
        gateway.forget(asker)
    took: JsonObject = {"latency_ms": round((clock.monotonic() - started) * 1000, 1)}
    if "reason" in outcome and spec.base_url:
        outcome["base_url"] = spec.base_url
    return {"model_id": model_id, "ok": "reason" not in outcome, **took, **outcome}


async def try_draft(
    gateway: ModelGateway, clock: Clock, caller: Caller, body: JsonObject, key: str | None
) -> JsonObject:
    """The same for a model that is not saved. The key is used for this call and stored nowhere."""
    with gateway.book.draft(body, caller.workspace, key) as model_id:
        try:
            return {**await try_model(gateway, clock, caller, model_id), "model_id": DRAFT}
        finally:
            gateway.drop(caller.workspace, model_id)


def _failed(error: HostError) -> JsonObject:
    outcome = {"reason": error.reason, "message": error.message, "hint": error.hint, "cause": caused_by(error)["cause"]}
    return outcome | {name: error.details[name] for name in ("status",) if name in error.details}


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
