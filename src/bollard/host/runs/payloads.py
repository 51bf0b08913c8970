"""Judges one result: what becomes of its payload. Pure. An invalid one has no effect and leaves a record of why."""

import base64
import hashlib
from dataclasses import dataclass

import msgspec
from pydantic import ValidationError

from bollard.host.grants.check import Denied, check
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import Revocation
from bollard.host.log.entries import StateExpectation
from bollard.host.log.records import encode_data
from bollard.protocol import (
    LOOSE_TYPES,
    RESULT_PAYLOADS,
    ArtifactCreated,
    JsonObject,
    MessageDelta,
    StateUpdated,
    first_problem,
    limits,
)
from bollard.wire import WorkerResult

__all__ = ["Judged", "judge_result"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The record a result becomes. `fact` is what the state machine sees of its data."""

    type: str
    data: bytes
    fact: JsonObject
    observed: bool = False
    delta: tuple[str, str] | None = None
    """The message and the text of a delta."""
    blob: bytes | None = None
    """Content to store before the record counts."""
    expects: StateExpectation | None = None
    """What must be true when it is written; else the record says why it has no effect."""


def judge_result(result: WorkerResult, grant: Grant, revoked: Revocation, *, now_ms: int) -> Judged:
    """What a result becomes, from its own shape and what the run may do."""
    shape = RESULT_PAYLOADS.get(result.type)
    if shape is None:
        return _kept("result.unknown", {"type": result.type, "data": result.data, "sequence": result.sequence})
    if result.type in LOOSE_TYPES:
        return Judged(result.type, encode_data(result.data), {})
    try:
        payload = shape.from_wire(result.data)
    except ValidationError as error:
        field, problem = first_problem(error)
        return _rejected(result, f"{field}: {problem}", field)
    if isinstance(payload, MessageDelta):
        content = payload.chunk.content
        text = content if isinstance(content, str) else ""
        return Judged("message.delta", encode_data(result.data), {}, delta=(payload.message_id or "", text))
    if isinstance(payload, StateUpdated):
        return _judge_state(result, payload, grant, revoked, now_ms)
    if isinstance(payload, ArtifactCreated):
        return _judge_artifact(result, payload, grant, revoked)
    if result.type == "action.requested":
        return _rejected(result, "no platform action is granted to this run", "action")
    return Judged(result.type, encode_data(result.data), result.data)


def _kept(kind: str, data: JsonObject) -> Judged:
    return Judged(kind, encode_data(data), data, observed=True)


def _rejection(result: WorkerResult, problem: str, field: str) -> JsonObject:
    return {
        "sequence": result.sequence,
        "type": result.type,
        "reason": "invalid",
        "field": field,
        "problem": problem,
    }


def _rejected(result: WorkerResult, problem: str, field: str) -> Judged:
    if result.type == "run.failed":
        # An invalid failure is still a failure: the run must not hang on a typing error.
        data: JsonObject = {"code": "runner.error", "error": f"the runner failed; its report was invalid at {problem}"}
        return Judged("run.failed", encode_data(data), data, observed=True)
    return _kept("result.rejected", _rejection(result, problem, field))


def _judge_state(result: WorkerResult, payload: StateUpdated, grant: Grant, revoked: Revocation, now_ms: int) -> Judged:
    allowed = check(grant, revoked, "state.set", payload.scope)
    if isinstance(allowed, Denied):
        return _rejected(result, allowed.sentence, "scope")
    size = len(msgspec.json.encode(payload.value))
    if size > limits.STATE_VALUE_BYTES:
        return _rejected(result, f"the value is {size} bytes, the limit is {limits.STATE_VALUE_BYTES}", "value")
    problem = f"the scope would hold more than {limits.STATE_SCOPE_BYTES} bytes"
    expects = StateExpectation(
        record=0,
        otherwise=("result.rejected", encode_data(_rejection(result, problem, "value"))),
        scope_key=grant.state_keys[payload.scope],
        key=payload.key,
        now_ms=now_ms,
        size=size + len(payload.key.encode()),
        quota=limits.STATE_SCOPE_BYTES,
    )
    return Judged(result.type, encode_data(result.data), result.data, expects=expects)


def _judge_artifact(result: WorkerResult, payload: ArtifactCreated, grant: Grant, revoked: Revocation) -> Judged:
    allowed = check(grant, revoked, "artifacts.begin")
    if isinstance(allowed, Denied):
        return _rejected(result, allowed.sentence, "artifact_type")
    data = {key: value for key, value in result.data.items() if key != "content_base64"}
    data.setdefault("artifact_id", f"art_{grant.run_id}_{result.sequence}")
    if payload.content_base64 is None:
        return Judged(result.type, encode_data(data), data)
    content = base64.b64decode(payload.content_base64)
    if len(content) > limits.INLINE_ARTIFACT_BYTES:
        problem = f"the content is {len(content)} bytes, the inline limit is {limits.INLINE_ARTIFACT_BYTES}"
        return _rejected(result, problem, "content_base64")
    digest = hashlib.sha256(content).hexdigest()
    if payload.sha256 not in (None, digest):
        return _rejected(result, "the digest does not fit the content", "sha256")
    data |= {"sha256": digest, "size_bytes": len(content)}
    return Judged(result.type, encode_data(data), data, blob=content)
