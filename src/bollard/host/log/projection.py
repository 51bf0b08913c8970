"""The projector: turns records into changes of the projections. Pure; the journal and the rebuild use the same code.

A projector remembers the facts of unfinished runs, because the records of a run do not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from bollard.host.limits import LEASE_S
from bollard.host.log.item_projections import (
    ACTIONS,
    ARTIFACTS,
    QUESTIONS,
    STEERING,
    message_file,
    raw_artifact,
    uploaded,
)
from bollard.host.log.outbox_projections import DELIVERIES, queued_failure, queued_message
from bollard.host.log.records import RunFacts, flow_in, owned_scope_key, scope_key
from bollard.host.store.keys import area_key
from bollard.host.store.rows import (
    MESSAGE_SOURCE,
    ArtifactRow,
    Change,
    Dispatch,
    DropPolicy,
    DropState,
    DropStorage,
    EventRow,
    PatchEvent,
    PatchRun,
    PolicyKind,
    PolicyRow,
    PutArtifact,
    PutEvent,
    PutPolicy,
    PutRun,
    PutState,
    PutStorage,
    PutTranscript,
    RecordRow,
    RunField,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)
from bollard.segments import segment

if TYPE_CHECKING:
    from bollard.protocol import JsonObject, JsonValue, StateScope, StorageArea

UNPROJECTABLE: Final = (KeyError, TypeError, ValueError, msgspec.MsgspecError)
"""The exceptions of a projector for data that no host wrote."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_facts: Final = msgspec.json.Decoder(RunFacts).decode


_NOT_READ: Final = frozenset({"run.created", "run.claimed", "run.started", "run.cancelled"})
"""Records whose handlers do not need decoded data. They occur in every run, so decoding them would cost time."""


class Projector:
    """Turns records, in order, into changes."""

    def __init__(self) -> None:
        self._runs: dict[str, RunFacts] = {}
        self._handlers: dict[str, Callable[[RecordRow, JsonObject], list[Change]]] = {
            "event.received": self._event_received,
            "run.created": self._run_created,
            "run.claimed": self._run_claimed,
            "run.started": self._run_started,
            "run.waiting": self._run_waiting,
            "run.resumed": self._run_resumed,
            "run.cancelled": self._run_cancelled,
            "run.ended": self._run_ended,
            "model.called": self._model_called,
            "message.completed": self._message_completed,
            "state.updated": self._state_updated,
            "state.deleted": self._state_deleted,
            "storage.updated": self._storage_updated,
            "storage.deleted": self._storage_deleted,
            "artifact.created": self._artifact_created,
            "policy.changed": _policy_changed,
            **ARTIFACTS,
            **STEERING,
            **DELIVERIES,
            **ACTIONS,
            **QUESTIONS,
        }

    def remember(self, facts: RunFacts) -> None:
        """Load the facts of a run that was created before this projector."""
        self._runs[facts.run_id] = facts

    def forget(self, run_id: str) -> None:
        """Drop the facts of a run whose last record is on disk."""
        self._runs.pop(run_id, None)

    def feed(self, row: RecordRow) -> list[Change]:
        """The changes that follow from a record. A record whose data was dropped changes nothing."""
        handler = self._handlers.get(row.type)
        if handler is None or row.data is None:
            return []
        return handler(row, {} if row.type in _NOT_READ else _decode(row.data))

    def _event_received(self, row: RecordRow, data: JsonObject) -> list[Change]:
        run_id = _optional(data, "run_id")
        # Only a waiting event names it: any other event has its run in the same commit, or was dropped.
        dispatch = _optional(data, "dispatch") or ("run" if run_id is not None else "dropped")
        text = _optional(data, "text") if dispatch != "dropped" else None
        event = EventRow(
            event_id=_text(data, "event_id"),
            workspace=row.workspace,
            source=_text(data, "source"),
            source_id=_text(data, "source_id"),
            type=_text(data, "event_type"),
            run_id=run_id,
            bot=_optional(data, "bot"),
            conversation=_optional(data, "conversation"),
            thread=_optional(data, "thread"),
            actor_type=_optional(data, "actor_type"),
            actor_id=_optional(data, "actor_id"),
            actor_name=_optional(data, "actor_name"),
            subject_type=_optional(data, "subject_type"),
            subject_id=_optional(data, "subject_id"),
            summary=(text or "")[:200] or None,
            event_ms=cast("int | None", data.get("event_ms")),
            created_ms=row.created_ms,
            dispatch=cast("Dispatch", dispatch),
            steering=None,
            steering_ms=None,
            record_id=row.id,
            flow=flow_in(data),
        )
        changes: list[Change] = [PutEvent(event)]
        # A dropped event is not part of its conversation: no run may read it later.
        if dispatch != "dropped" and (text is not None or data.get("contents")):
            changes.append(PutTranscript(self._transcript_of(row, data, event, text)))
        if isinstance(raw := data.get("raw"), dict):
            changes.append(PutArtifact(raw_artifact(row, raw, event)))
        return changes

    @staticmethod
    def _transcript_of(row: RecordRow, data: JsonObject, event: EventRow, text: str | None) -> TranscriptRow:
        contents = data.get("contents")
        return TranscriptRow(
            transcript_id=f"t_{row.id}",
            workspace=row.workspace,
            bot=event.bot,
            conversation=event.conversation,
            thread=event.thread,
            event_id=event.event_id,
            run_id=event.run_id,
            seq=row.id,
            role="user",
            content=text,
            content_json=_encode(contents) if contents else None,
            search=segment(text or ""),
            created_ms=row.created_ms,
            flow=event.flow,
        )

    def _run_created(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        facts = _facts(row.data or b"{}")
        self._runs[facts.run_id] = facts
        run = RunRow(
            run_id=facts.run_id,
            workspace=facts.workspace,
            event_id=facts.event_id,
            agent_id=facts.agent_id,
            binding_id=facts.binding_id,
            runner_id=facts.runner_id,
            bot=facts.bot,
            conversation=facts.conversation,
            thread=facts.thread,
            parent_run_id=facts.parent_run_id,
            depth=facts.depth,
            # A run with an epoch is owned from the start by the incarnation that wrote it.
            status="dispatching" if row.epoch else "queued",
            reason=None,
            epoch=row.epoch or 0,
            owner=row.chain if row.epoch else None,
            lease_until_ms=row.created_ms + round(LEASE_S * 1000) if row.epoch else None,
            grant_sha256=facts.grant_sha256,
            created_ms=row.created_ms,
            started_ms=None,
            finished_ms=None,
            updated_ms=row.created_ms,
            cancel_requested_ms=None,
            last_seq=row.seq or 0,
            facts=row.data or b"{}",
        )
        if not facts.adopts:
            return [PutRun(run)]
        adopted = PatchEvent(facts.workspace, facts.event_id, {"dispatch": "run", "run_id": facts.run_id})
        return [PutRun(run), adopted]

    @staticmethod
    def _patch(row: RecordRow, **fields: str | int | None) -> list[Change]:
        # The epoch too: a run that its new owner ends at once has no `run.claimed`.
        fields |= {"epoch": row.epoch or 0, "updated_ms": row.created_ms, "last_seq": row.seq or 0}
        return [PatchRun(row.run_id or "", cast("dict[RunField, str | int | None]", fields))]

    def _run_claimed(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        return self._patch(row, status="dispatching", epoch=row.epoch, owner=row.chain)

    def _run_started(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        return self._patch(row, status="running", started_ms=row.created_ms)

    def _run_waiting(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        return self._patch(row, status="waiting")

    def _run_resumed(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        return self._patch(row, status="running")

    def _run_cancelled(self, row: RecordRow, data: JsonObject) -> list[Change]:
        del data
        return self._patch(row, cancel_requested_ms=row.created_ms)

    def _run_ended(self, row: RecordRow, data: JsonObject) -> list[Change]:
        reason = _optional(data, "code")
        ended = self._patch(
            row,
            status=_text(data, "status"),
            reason=reason,
            finished_ms=row.created_ms,
            epoch=row.epoch,
            owner=row.chain,
            lease_until_ms=None,
        )
        facts = self._runs.get(row.run_id or "")
        if facts is not None and data.get("redispatch") is True:  # its event waits for another run
            return [*ended, PatchEvent(row.workspace, facts.event_id, {"dispatch": "pending"})]
        return [*ended, *queued_failure(row, facts, data)]

    def _model_called(self, row: RecordRow, data: JsonObject) -> list[Change]:
        usage = data.get("run_usage")
        return self._patch(row, usage=_encode(usage).decode()) if isinstance(usage, dict) else []

    def _message_completed(self, row: RecordRow, data: JsonObject) -> list[Change]:
        facts = self._runs.get(row.run_id or "")
        message = data.get("message")
        if facts is None or not isinstance(message, dict):
            return []
        content = message.get("content")
        text = content if isinstance(content, str) else _text_of(content)
        transcript = TranscriptRow(
            transcript_id=f"t_{row.id}",
            workspace=row.workspace,
            bot=facts.bot,
            conversation=facts.conversation,
            thread=facts.thread,
            event_id=facts.event_id,
            run_id=row.run_id,
            seq=row.id,
            role=str(message.get("role", "assistant")),
            content=text,
            content_json=None if isinstance(content, str) and _is_plain(message) else _encode(message),
            search=segment(text),
            created_ms=row.created_ms,
            flow=flow_in(data),
        )
        return [PutTranscript(transcript), *queued_message(row, facts, data)]

    def _state_updated(self, row: RecordRow, data: JsonObject) -> list[Change]:
        facts = self._runs.get(row.run_id or "")
        if facts is None:
            return []
        scope = cast("StateScope", _text(data, "scope"))
        state = StateRow(
            scope_key=scope_key(facts, scope),
            key=_text(data, "key"),
            workspace=row.workspace,
            scope=scope,
            value=_encode(data.get("value")),
            version=_version(data),
            expires_ms=cast("int | None", data.get("expires_ms")),
            updated_ms=row.created_ms,
            flow=flow_in(data),
        )
        return [PutState(state)]

    def _state_deleted(self, row: RecordRow, data: JsonObject) -> list[Change]:
        if row.run_id is None:  # purged: the run that wrote the value may have ended
            owner = cast("dict[str, str]", data["owner"])
            return [DropState(owned_scope_key(row.workspace, _text(data, "scope"), owner), _text(data, "key"))]
        facts = self._runs.get(row.run_id or "")
        if facts is None:
            return []
        return [DropState(scope_key(facts, cast("StateScope", _text(data, "scope"))), _text(data, "key"))]

    def _storage_updated(self, row: RecordRow, data: JsonObject) -> list[Change]:
        facts = self._runs.get(row.run_id or "")
        if facts is None:
            return []
        stored = StorageRow(
            area_key=_area_key(facts, data),
            key=_text(data, "key"),
            sha256=_text(data, "sha256"),
            size_bytes=cast("int", data["size"]),
            updated_ms=row.created_ms,
            flow=flow_in(data),
        )
        return [PutStorage(stored)]

    def _storage_deleted(self, row: RecordRow, data: JsonObject) -> list[Change]:
        facts = self._runs.get(row.run_id or "")
        return [] if facts is None else [DropStorage(_area_key(facts, data), _text(data, "key"))]

    def _artifact_created(self, row: RecordRow, data: JsonObject) -> list[Change]:
        if row.run_id is None:
            made = message_file if data.get("source") == MESSAGE_SOURCE else uploaded
            return [PutArtifact(made(row, data))]
        facts = self._runs.get(row.run_id)
        if facts is None:
            return []
        artifact = ArtifactRow(
            artifact_id=_text(data, "artifact_id"),
            workspace=row.workspace,
            run_id=row.run_id,
            runner_id=facts.runner_id,
            conversation=facts.conversation,
            type=_text(data, "artifact_type"),
            mime_type=_optional(data, "mime_type"),
            name=_optional(data, "name"),
            size_bytes=cast("int | None", data.get("size_bytes")),
            sha256=_optional(data, "sha256"),
            source="runner",
            created_ms=row.created_ms,
            expires_ms=cast("int | None", data.get("expires_ms")),
            metadata=_encode(data.get("metadata") or {}),
            flow=flow_in(data),
        )
        return [PutArtifact(artifact)]


def _version(data: JsonObject) -> int:
    """The version in the record; 0 for old records without one, for which the store counts versions itself."""
    version = data.get("version")
    return version if isinstance(version, int) and version > 0 else 0


def _policy_changed(row: RecordRow, data: JsonObject) -> list[Change]:
    kind, policy_id = cast("PolicyKind", _text(data, "kind")), _text(data, "id")
    if data["action"] == "deleted":
        return [DropPolicy(kind, row.workspace, policy_id)]
    policy = PolicyRow(
        workspace=row.workspace,
        id=policy_id,
        revision=cast("int", data["revision"]),
        body=_encode(data["body"]),
        updated_ms=row.created_ms,
    )
    return [PutPolicy(kind, policy)]


def _is_plain(message: JsonObject) -> bool:
    """Whether a message consists of its text only."""
    return not any(message.get(name) for name in ("tool_calls", "tool_call_id", "artifact_refs"))


def storage_place(facts: RunFacts, data: JsonObject) -> tuple[str, str]:
    """Area and key of a stored value."""
    return _area_key(facts, data), _text(data, "key")


def _area_key(facts: RunFacts, data: JsonObject) -> str:
    return area_key(facts.workspace, cast("StorageArea", _text(data, "area")), facts.runner_id)


def _text(data: JsonObject, key: str) -> str:
    return cast("str", data[key])


def _optional(data: JsonObject, key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _text_of(content: JsonValue) -> str:
    """The text parts of structured content."""
    if not isinstance(content, list):
        return ""
    parts: list[Any] = [item.get("text") for item in content if isinstance(item, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))
