"""Checks one result and turns it into a record. An invalid result becomes a rejection without effect. Pure."""

import base64
import hashlib
import re
from typing import Final

import msgspec
from pydantic import ValidationError

from bollard.host.grants.check import Denied, check
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import Revocation
from bollard.host.log.entries import StateExpectation
from bollard.host.log.records import encode_data
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms, name_problem
from bollard.host.store.keys import key_problem
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

ARTIFACT_ID_CHARACTERS: Final = 128
"""The longest artifact id."""
_OF_CONTENT: Final = frozenset({"content_base64", "sha256", "size_bytes"})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class CheckedResult(msgspec.Struct, frozen=True):
    """The record of a result. `fact` is the part that the state machine sees."""

    type: str
    data: bytes
    fact: JsonObject
    observed: bool = False
    delta: tuple[str, str] | None = None
    """The message and the text of a delta."""
    blob: bytes | None = None
    """Content to store together with the record."""
    expects: StateExpectation | None = None
    """The condition for the write. If it fails, a rejection is written instead."""


def judge_result(
    result: WorkerResult, grant: Grant, revoked: Revocation, terms: ArtifactTerms = ANY_TERMS
) -> CheckedResult:
    """Check a result against its schema, the grant of the run and the rules for artifacts."""
    shape = RESULT_PAYLOADS.get(result.type)
    if shape is None:
        return _observed("result.unknown", {"type": result.type, "data": result.data, "sequence": result.sequence})
    if result.type in LOOSE_TYPES:
        return CheckedResult(result.type, encode_data(result.data), {})
    try:
        payload = shape.from_wire(result.data)
    except ValidationError as error:
        field, problem = first_problem(error)
        return _rejected(result, f"{field}: {problem}", field)
    if isinstance(payload, MessageDelta):
        content = payload.chunk.content
        text = content if isinstance(content, str) else ""
        return CheckedResult("message.delta", encode_data(result.data), {}, delta=(payload.message_id or "", text))
    if isinstance(payload, StateUpdated):
        return _judge_state(result, payload, grant, revoked)
    if isinstance(payload, ArtifactCreated):
        return _judge_artifact(result, payload, grant, revoked, terms)
    return CheckedResult(result.type, encode_data(result.data), result.data)


def _observed(kind: str, data: JsonObject) -> CheckedResult:
    return CheckedResult(kind, encode_data(data), data, observed=True)


def _rejection(result: WorkerResult, problem: str, field: str) -> JsonObject:
    return {"sequence": result.sequence, "type": result.type, "reason": "invalid", "field": field, "problem": problem}


def _rejected(result: WorkerResult, problem: str, field: str) -> CheckedResult:
    if result.type == "run.failed":
        # An invalid `run.failed` still ends the run; otherwise the run would hang.
        data: JsonObject = {"code": "runner.error", "error": f"the runner failed; its report was invalid at {problem}"}
        return CheckedResult("run.failed", encode_data(data), data, observed=True)
    return _observed("result.rejected", _rejection(result, problem, field))


def withheld_content(result: WorkerResult) -> CheckedResult:
    """Reject an artifact whose content contains a secret. It is not redacted, because its digest covers all of it."""
    return _rejected(result, "the content contains a secret of the workspace", "content_base64")


def _judge_state(result: WorkerResult, payload: StateUpdated, grant: Grant, revoked: Revocation) -> CheckedResult:
    allowed = check(grant, revoked, "state.set", payload.scope)
    if isinstance(allowed, Denied):
        return _rejected(result, allowed.sentence, "scope")
    if (problem := key_problem(payload.key)) is not None:
        return _rejected(result, problem, "key")
    size = len(msgspec.json.encode(payload.value))
    if size > limits.STATE_VALUE_BYTES:
        return _rejected(result, f"the value is {size} bytes, the limit is {limits.STATE_VALUE_BYTES}", "value")
    problem = f"the scope would hold more than {limits.STATE_SCOPE_BYTES} bytes"
    expects = StateExpectation(
        record=0,
        otherwise=("result.rejected", encode_data(_rejection(result, problem, "value"))),
        scope_key=grant.state_keys[payload.scope],
        key=payload.key,
        size=size + len(payload.key.encode()),
        quota=limits.STATE_SCOPE_BYTES,
    )
    return CheckedResult(result.type, encode_data(result.data), result.data, expects=expects)


def _judge_artifact(
    result: WorkerResult, payload: ArtifactCreated, grant: Grant, revoked: Revocation, terms: ArtifactTerms
) -> CheckedResult:
    allowed = check(grant, revoked, "artifacts.begin")
    if isinstance(allowed, Denied):
        return _rejected(result, allowed.sentence, "artifact_type")
    if (wrong := _wrong_name(payload, terms)) is not None:
        field, problem = wrong
        return _rejected(result, f"{field}: {problem}", field)
    # Size and digest are computed here: a digest without its content could name a blob of another run.
    data = {key: value for key, value in result.data.items() if key not in _OF_CONTENT}
    data["artifact_id"] = artifact_id_of(grant.run_id, payload.artifact_id or str(result.sequence))
    if payload.content_base64 is None:
        return CheckedResult(result.type, encode_data(data), data)
    content = base64.b64decode(payload.content_base64)
    if len(content) > limits.INLINE_ARTIFACT_BYTES:
        problem = f"the content is {len(content)} bytes, the inline limit is {limits.INLINE_ARTIFACT_BYTES}"
        return _rejected(result, problem, "content_base64")
    digest = hashlib.sha256(content).hexdigest()
    if payload.sha256 not in (None, digest):
        return _rejected(result, "the digest does not match the content", "sha256")
    data |= {"sha256": digest, "size_bytes": len(content)}
    return CheckedResult(result.type, encode_data(data), data, blob=content)


def _wrong_name(payload: ArtifactCreated, terms: ArtifactTerms) -> tuple[str, str] | None:
    """The first field that an upload would be refused for, and the problem."""
    named = {"artifact_type": payload.artifact_type, "name": payload.name}
    problems = {field: name_problem(text) for field, text in named.items() if text is not None}
    if payload.mime_type is not None or payload.content_base64 is not None:
        problems["mime_type"] = terms.type_problem(payload.mime_type)
    return next(((field, problem) for field, problem in problems.items() if problem is not None), None)


def artifact_id_of(run_id: str, name: str) -> str:
    """The artifact id for a name, in the namespace of the run, so that it never names an artifact of another run.

    A name that has the prefix already stays. A long name, or one with other characters, is replaced by its digest.
    """
    home = f"art_{run_id}_"
    inside = name.removeprefix(home)
    if len(home) + len(inside) <= ARTIFACT_ID_CHARACTERS and _PLAIN_NAME.fullmatch(inside) is not None:
        return home + inside
    return home + hashlib.sha256(inside.encode()).hexdigest()[: ARTIFACT_ID_CHARACTERS - len(home)]
