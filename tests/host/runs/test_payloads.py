"""The record of each result type: valid, invalid and unknown."""

import base64
import hashlib
import json
from typing import Any

import msgspec
import pytest

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, StatePolicy
from bollard.host.grants.access import compile_access
from bollard.host.grants.grant import Grant, issue_grant, limits_of
from bollard.host.grants.offer import Offer
from bollard.host.grants.revocation import NOTHING_REVOKED
from bollard.host.log.records import RunFacts
from bollard.host.runs.results import ARTIFACT_ID_CHARACTERS, CheckedResult, judge_result
from bollard.host.scope import Scope
from bollard.host.store.artifact_terms import ArtifactTerms, MimeTypes
from bollard.protocol import RESULT_TYPES, limits
from bollard.wire import WorkerResult

WRITE = frozenset({"artifacts.write"})
HELLO = {"role": "assistant", "content": "hello"}
VALID: dict[str, list[dict[str, Any]]] = {
    "message.delta": [
        {"chunk": {"role": "assistant", "content": "a"}},
        {"chunk": {"role": "assistant", "content": "a"}, "message_id": "m"},
    ],
    "message.completed": [
        {"message": HELLO},
        {"message": HELLO, "message_id": "m"},
        {"message": {"role": "assistant", "content": [{"type": "text", "text": "a"}]}},
    ],
    "tool.call.started": [{"tool_call_id": "1", "tool_name": "t", "parameters": {}}, {"anything": "goes"}, {}],
    "tool.call.completed": [{"tool_call_id": "1", "tool_name": "t", "result": 1, "more": [1]}, {}],
    "artifact.created": [{"artifact_type": "file"}, {"artifact_type": "file", "artifact_id": "art_run_1_a"}],
    "state.updated": [
        {"scope": "conversation", "key": "k", "value": None},
        {"scope": "actor", "key": "k", "value": {"a": 1}},
        {"scope": "subject", "key": "k", "value": [1]},
        {"scope": "runner", "key": "k" * 256, "value": "x"},
    ],
    "action.requested": [{"action": "send"}, {"action": "send", "target": {"channel": "c"}, "payload": {"text": "a"}}],
    "run.completed": [{"finish_reason": "end"}, {"finish_reason": "end", "message": HELLO}],
    "run.failed": [{"code": "runner.error", "error": "no"}, {"code": "cancelled", "error": "", "retryable": True}],
}
INVALID: dict[str, list[tuple[dict[str, Any], str]]] = {
    "message.delta": [
        ({}, "chunk"),
        ({"chunk": "text"}, "chunk"),
        ({"chunk": {"role": "assistant", "content": 1}}, "chunk"),
        ({"chunk": {"role": "assistant", "content": "a"}, "more": 1}, "more"),
    ],
    "message.completed": [({}, "message"), ({"message": {"role": "nobody", "content": ""}}, "message"), ({"x": 1}, "")],
    "artifact.created": [
        ({}, "artifact_type"),
        ({"artifact_type": "file", "size_bytes": -1}, "size_bytes"),
        ({"artifact_type": "file", "sha256": "short"}, "sha256"),
        ({"artifact_type": "file", "content_base64": "!"}, "content_base64"),
        ({"artifact_type": " "}, "artifact_type"),
        ({"artifact_type": "file", "name": "n" * 256}, "name"),
        ({"artifact_type": "file", "name": "a\nb"}, "name"),
        ({"artifact_type": "file", "name": ""}, "name"),
        ({"artifact_type": "file", "mime_type": "no mime at all"}, "mime_type"),
        ({"artifact_type": "file", "mime_type": "text/plain\r\nx: y", "content_base64": "aGk="}, "mime_type"),
    ],
    "state.updated": [
        ({"scope": "world", "key": "k", "value": 1}, "scope"),
        ({"scope": "actor", "key": "", "value": 1}, "key"),
        ({"scope": "actor", "key": "k" * 257, "value": 1}, "key"),
        ({"scope": "actor", "key": "a\0b", "value": 1}, "key"),
        ({"scope": "actor", "key": "k"}, "value"),
        ({"scope": "actor", "key": "k", "value": 1, "ttl": 3}, "ttl"),
    ],
    "action.requested": [({}, "action"), ({"action": 3}, "action"), ({"action": "send", "target": "me"}, "target")],
    "run.completed": [({}, "finish_reason"), ({"finish_reason": 3}, "finish_reason")],
}


@pytest.fixture
def facts() -> RunFacts:
    return RunFacts(
        run_id="run_1",
        workspace="default",
        event_id="evt_1",
        agent_id="parrot",
        binding_id="b",
        runner_id="plugin:acme/parrot/default",
        grant_sha256="0" * 64,
        conversation="room",
        actor_type="user",
        actor_id="u1",
        subject_type="ticket",
        subject_id="7",
    )


def judge(
    facts: RunFacts, kind: str, data: dict[str, Any], permissions: frozenset[str] = WRITE, sequence: int = 3
) -> CheckedResult:
    result = WorkerResult("run_1", kind, data, sequence, None, 100)
    return judge_result(result, grant_of(facts, permissions), NOTHING_REVOKED)


def grant_of(facts: RunFacts, permissions: frozenset[str]) -> Grant:
    """The rights of a run with these facts, if the agent has every scope of state and these permissions."""
    families = {name.partition(".")[0] for name in permissions if "." in name}
    agent = Agent(
        agent_id=facts.agent_id,
        runner_id=facts.runner_id,
        runner_name="default",
        plugin="parrot",
        label={"en_US": "Parrot"},
        permissions=permissions,
        policy=AgentPolicy(
            access=AccessPolicy(
                permissions={
                    family: tuple(name.partition(".")[2] for name in permissions if name.startswith(f"{family}."))
                    for family in families
                }
            ),
            state=StatePolicy(scopes=("actor", "conversation", "runner", "subject")),
        ),
    )
    scope = Scope(
        workspace=facts.workspace,
        conversation=facts.conversation,
        actor_type=facts.actor_type,
        actor_id=facts.actor_id,
        subject_type=facts.subject_type,
        subject_id=facts.subject_id,
    )
    access = compile_access(agent, Offer.of())
    return issue_grant(run_id=facts.run_id, access=access, scope=scope, limits=limits_of(agent))


def test_the_table_contains_every_result_type() -> None:
    assert set(RESULT_TYPES) == VALID.keys()


@pytest.mark.requirement("P05-26")
@pytest.mark.parametrize(("kind", "data"), [(kind, data) for kind, datas in VALID.items() for data in datas])
def test_a_valid_result_gives_an_unobserved_record(facts: RunFacts, kind: str, data: dict[str, Any]) -> None:
    judged = judge(facts, kind, data)
    assert (judged.type, judged.observed, judged.blob) == (kind, False, None)
    assert json.loads(judged.data).items() >= data.items()


@pytest.mark.requirement("P01-15")
@pytest.mark.parametrize(
    ("kind", "data", "field"), [(kind, data, field) for kind, cases in INVALID.items() for data, field in cases]
)
def test_an_invalid_result_leaves_a_record_with_the_problem(
    facts: RunFacts, kind: str, data: dict[str, Any], field: str
) -> None:
    judged = judge(facts, kind, data)
    said = json.loads(judged.data)
    assert (judged.type, judged.observed, judged.delta, judged.blob) == ("result.rejected", True, None, None)
    assert (said["type"], said["sequence"], said["reason"]) == (kind, 3, "invalid")
    assert said["field"].startswith(field)
    assert said["problem"]


@pytest.mark.parametrize("data", [{}, {"code": "made.up", "error": "x"}, {"code": "runner.error"}, {"error": 3}])
def test_an_invalid_failure_is_still_a_failure(facts: RunFacts, data: dict[str, Any]) -> None:
    judged = judge(facts, "run.failed", data)
    assert (judged.type, judged.observed) == ("run.failed", True)
    assert judged.fact["code"] == "runner.error"
    assert "invalid" in str(judged.fact["error"])


@pytest.mark.requirement("P01-07")
@pytest.mark.parametrize("kind", ["message.deltas", "run.ended", "run.cancelled", "event.received", "", "result.gap"])
def test_an_unknown_type_is_recorded_without_effect_and_cannot_imitate_a_host_record(
    facts: RunFacts, kind: str
) -> None:
    judged = judge(facts, kind, {"status": "completed"})
    assert (judged.type, judged.observed) == ("result.unknown", True)
    assert json.loads(judged.data) == {"type": kind, "data": {"status": "completed"}, "sequence": 3}


def test_a_delta_gives_its_message_and_its_text(facts: RunFacts) -> None:
    chunk = {"role": "assistant", "content": "a"}
    assert judge(facts, "message.delta", {"chunk": chunk}).delta == ("", "a")
    assert judge(facts, "message.delta", {"chunk": chunk, "message_id": "m"}).delta == ("m", "a")


# --- state ---


@pytest.mark.requirement("P05-35")
@pytest.mark.parametrize(
    ("scope", "missing"), [("conversation", "conversation"), ("actor", "actor_id"), ("subject", "subject_id")]
)
def test_state_outside_the_scope_of_the_run_is_refused(facts: RunFacts, scope: str, missing: str) -> None:
    without = msgspec.structs.replace(facts, **{missing: None})
    judged = judge(without, "state.updated", {"scope": scope, "key": "k", "value": 1})
    assert (judged.type, judged.fact["field"]) == ("result.rejected", "scope")
    assert judge(without, "state.updated", {"scope": "runner", "key": "k", "value": 1}).type == "state.updated"


@pytest.mark.requirement("P05-35")
def test_a_state_value_has_a_size_limit_as_json(facts: RunFacts) -> None:
    fits = "x" * (limits.STATE_VALUE_BYTES - 2)
    assert judge(facts, "state.updated", {"scope": "actor", "key": "k", "value": fits}).type == "state.updated"
    judged = judge(facts, "state.updated", {"scope": "actor", "key": "k", "value": fits + "x"})
    assert (judged.type, judged.fact["field"]) == ("result.rejected", "value")
    chinese = "汉" * (limits.STATE_VALUE_BYTES // 3 + 1)
    assert judge(facts, "state.updated", {"scope": "actor", "key": "k", "value": chinese}).type == "result.rejected"


# --- artifacts ---


@pytest.mark.requirement("P05-34")
@pytest.mark.parametrize("permissions", [frozenset[str](), frozenset({"artifacts.read"}), frozenset({"write"})])
def test_an_artifact_needs_the_permission_to_write(facts: RunFacts, permissions: frozenset[str]) -> None:
    content = base64.b64encode(b"abc").decode()
    judged = judge(facts, "artifact.created", {"artifact_type": "file", "content_base64": content}, permissions)
    assert (judged.type, judged.blob) == ("result.rejected", None)


def test_inline_content_is_moved_from_the_record_to_a_blob(facts: RunFacts) -> None:
    content = base64.b64encode(b"abc").decode()
    judged = judge(facts, "artifact.created", {"artifact_type": "file", "content_base64": content, "size_bytes": 99})
    assert judged.blob == b"abc"
    assert json.loads(judged.data) == {
        "artifact_type": "file",
        "artifact_id": "art_run_1_3",
        "sha256": hashlib.sha256(b"abc").hexdigest(),
        "size_bytes": 3,
    }


def test_a_digest_without_its_content_is_ignored(facts: RunFacts) -> None:
    judged = judge(facts, "artifact.created", {"artifact_type": "file", "sha256": "0" * 64, "size_bytes": 5})
    assert (judged.type, judged.blob) == ("artifact.created", None)
    assert json.loads(judged.data) == {"artifact_type": "file", "artifact_id": "art_run_1_3"} == judged.fact


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("art_run_1_mine", "art_run_1_mine"),
        ("chart-1.png", "art_run_1_chart-1.png"),
        ("art_run_2_theirs", "art_run_1_art_run_2_theirs"),
        ("", "art_run_1_3"),
        ("x" * 118, "art_run_1_" + "x" * 118),
        ("x" * 119, "art_run_1_" + hashlib.sha256(b"x" * 119).hexdigest()),
        ("art_run_1_a b", "art_run_1_" + hashlib.sha256(b"a b").hexdigest()),
        ("a\0b", "art_run_1_" + hashlib.sha256(b"a\0b").hexdigest()),
        ("../图", "art_run_1_" + hashlib.sha256("../图".encode()).hexdigest()),
    ],
)
def test_an_artifact_is_named_in_the_namespace_of_its_run(facts: RunFacts, given: str, kept: str) -> None:
    judged = judge(facts, "artifact.created", {"artifact_type": "file", "artifact_id": given})
    assert judged.fact["artifact_id"] == kept
    assert len(kept) <= ARTIFACT_ID_CHARACTERS


def test_a_digest_that_differs_from_its_content_is_refused(facts: RunFacts) -> None:
    content, digest = base64.b64encode(b"abc").decode(), hashlib.sha256(b"abc").hexdigest()
    body = {"artifact_type": "file", "content_base64": content}
    assert judge(facts, "artifact.created", {**body, "sha256": digest}).blob == b"abc"
    judged = judge(facts, "artifact.created", {**body, "sha256": "0" * 64})
    assert (judged.type, judged.fact["field"], judged.blob) == ("result.rejected", "sha256", None)


def test_inline_content_has_a_limit_when_decoded(facts: RunFacts) -> None:
    def body(size: int) -> dict[str, Any]:
        return {"artifact_type": "file", "content_base64": base64.b64encode(b"x" * size).decode()}

    assert judge(facts, "artifact.created", body(limits.INLINE_ARTIFACT_BYTES)).type == "artifact.created"
    judged = judge(facts, "artifact.created", body(limits.INLINE_ARTIFACT_BYTES + 1))
    assert (judged.type, judged.fact["field"]) == ("result.rejected", "content_base64")


def test_an_artifact_of_a_forbidden_type_is_refused_with_the_allowed_ones(facts: RunFacts) -> None:
    images = ArtifactTerms(mime_types=MimeTypes(allow=frozenset({"image/*"})))
    content = base64.b64encode(b"abc").decode()
    cases = [("image/png", content, True), ("text/plain", content, False), (None, content, False), (None, None, True)]
    for mime_type, inline, taken in cases:
        said = {"artifact_type": "file", "mime_type": mime_type, "content_base64": inline}
        result = WorkerResult("run_1", "artifact.created", said, 3, None, 100)
        judged = judge_result(result, grant_of(facts, WRITE), NOTHING_REVOKED, images)
        if taken:
            assert judged.type == "artifact.created"
        else:
            assert (judged.type, judged.fact["field"], judged.blob) == ("result.rejected", "mime_type", None)
            assert str(judged.fact["problem"]).endswith("is not accepted; allowed are image/*")
