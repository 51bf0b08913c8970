"""Rows to write, with defaults for the other fields."""

from collections.abc import Sequence
from typing import Any

import pytest

from bollard.host.store.action_rows import ApprovalRow, ToolCallRow
from bollard.host.store.delta_spans import pack
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.rows import (
    ArtifactRow,
    Change,
    DeltaRow,
    EventRow,
    HeadRow,
    KeptRow,
    OutboxRow,
    PolicyRow,
    PutTranscript,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)
from bollard.host.store.store import Store
from bollard.segments import segment
from bollard.trust import Header, genesis, link, sha256_of

T0 = 1_700_000_000_000


class Make:
    """Makes rows. Records are really chained, one chain per (workspace, chain)."""

    def __init__(self) -> None:
        self._tips: dict[tuple[str, str], tuple[int, str]] = {}

    def record(
        self, record_id: int, *, workspace: str = "w", chain: str = "c", data: bytes = b"{}", **more: Any
    ) -> RecordRow:
        position, previous = self._tips.get((workspace, chain), (0, genesis(workspace, chain)))
        fields: dict[str, Any] = {
            "run_id": None,
            "seq": None,
            "epoch": None,
            "source_seq": None,
            "type": "message.completed",
            "observed": True,
            "created_ms": T0 + record_id,
            **more,
        }
        header = Header(workspace, chain, position + 1, *fields.values(), sha256_of(data))
        hash_ = link(previous, header)
        self._tips[workspace, chain] = (position + 1, hash_)
        return RecordRow(
            id=record_id,
            workspace=workspace,
            chain=chain,
            position=position + 1,
            data=data,
            data_sha256=header.data_sha256,
            hash=hash_,
            **fields,
        )

    def records(self, first_id: int, count: int, run_id: str, first_seq: int = 1) -> list[RecordRow]:
        return [self.record(first_id + i, run_id=run_id, seq=first_seq + i, epoch=1) for i in range(count)]

    def deltas(self, run_id: str, first_seq: int, texts: Sequence[bytes], *, epoch: int = 1, at: int = 0) -> DeltaRow:
        spans = [(first_seq + index, len(text)) for index, text in enumerate(texts)]
        return DeltaRow(
            run_id=run_id,
            epoch=epoch,
            first_seq=first_seq,
            last_seq=spans[-1][0],
            created_ms=T0 + at,
            spans=pack(spans),
            body=b"".join(texts),
        )

    def head(self, position: int, *, workspace: str = "w", chain: str = "c") -> HeadRow:
        return HeadRow(
            workspace=workspace,
            chain=chain,
            position=position,
            hash="h" * 64,
            created_ms=T0,
            key_id="k",
            signature=b"\x00\xffsigned",
        )

    def event(self, record_id: int, **more: Any) -> EventRow:
        fields: dict[str, Any] = {
            "event_id": f"e{record_id}",
            "workspace": "w",
            "source": "web",
            "source_id": f"s{record_id}",
            "type": "message.received",
            "run_id": None,
            "bot": None,
            "conversation": "room",
            "thread": None,
            "actor_type": "user",
            "actor_id": "u1",
            "actor_name": "Ada",
            "subject_type": None,
            "subject_id": None,
            "summary": "hello",
            "event_ms": None,
            "created_ms": T0 + record_id,
            "dispatch": "run",
            "steering": None,
            "steering_ms": None,
        }
        return EventRow(record_id=record_id, **{**fields, **more})

    def run(self, run_id: str, **more: Any) -> RunRow:
        fields: dict[str, Any] = {
            "workspace": "w",
            "event_id": "e1",
            "agent_id": "a1",
            "binding_id": "b1",
            "runner_id": "plugin:a/b/c",
            "bot": None,
            "conversation": "room",
            "thread": None,
            "parent_run_id": None,
            "depth": 0,
            "status": "queued",
            "reason": None,
            "epoch": 0,
            "owner": None,
            "lease_until_ms": None,
            "grant_sha256": "g" * 64,
            "created_ms": T0,
            "started_ms": None,
            "finished_ms": None,
            "updated_ms": T0,
            "cancel_requested_ms": None,
            "last_seq": 0,
            "facts": b'{"run":1}',
        }
        return RunRow(run_id=run_id, **{**fields, **more})

    def said(self, seq: int, content: str, **more: Any) -> TranscriptRow:
        fields: dict[str, Any] = {
            "transcript_id": f"t{seq}",
            "workspace": "w",
            "bot": None,
            "conversation": "room",
            "thread": None,
            "event_id": "e1",
            "run_id": None,
            "role": "user",
            "content_json": None,
            "created_ms": T0 + seq,
        }
        return TranscriptRow(seq=seq, content=content, search=segment(content), **{**fields, **more})

    def state(self, key: str, value: bytes, **more: Any) -> StateRow:
        fields: dict[str, Any] = {
            "scope_key": "scope",
            "workspace": "w",
            "scope": "conversation",
            "version": 0,
            "expires_ms": None,
            "updated_ms": T0,
        }
        return StateRow(key=key, value=value, **{**fields, **more})

    def stored(self, key: str, **more: Any) -> StorageRow:
        fields: dict[str, Any] = {"area_key": "area", "sha256": "5" * 64, "size_bytes": 7, "updated_ms": T0}
        return StorageRow(key=key, **{**fields, **more})

    def policy(self, policy_id: str, **more: Any) -> PolicyRow:
        fields: dict[str, Any] = {"workspace": "w", "revision": 1, "body": b'{"a":1}', "updated_ms": T0}
        return PolicyRow(id=policy_id, **{**fields, **more})

    def kept(self, kept_id: str, **more: Any) -> KeptRow:
        fields: dict[str, Any] = {
            "kind": "session",
            "workspace": "w",
            "body": b"\x00kept",
            "expires_ms": None,
            "updated_ms": T0,
        }
        return KeptRow(id=kept_id, **{**fields, **more})

    def outbox(self, delivery_id: str, **more: Any) -> OutboxRow:
        fields: dict[str, Any] = {
            "workspace": "w",
            "channel": "chat",
            "target": "room-1",
            "run_id": "r1",
            "event_id": "e1",
            "message_key": "",
            "preview": False,
            "record_id": 1,
            "max_message_size": None,
            "status": "queued",
            "attempts": 0,
            "due_ms": T0,
            "messages": b"[]",
            "reason": None,
            "created_ms": T0,
            "updated_ms": T0,
        }
        return OutboxRow(delivery_id=delivery_id, **{**fields, **more})

    def call(self, call_id: str, **more: Any) -> ToolCallRow:
        fields: dict[str, Any] = {
            "run_id": "r1",
            "workspace": "w",
            "record_id": 1,
            "capability": "tool:builtin/now",
            "name": "now",
            "effects": "none",
            "arguments_sha256": "a" * 64,
            "approval_id": None,
            "flow": 0,
            "status": "started",
            "result": None,
            "started_ms": T0,
            "ended_ms": None,
        }
        return ToolCallRow(call_id=call_id, **{**fields, **more})

    def approval(self, approval_id: str, **more: Any) -> ApprovalRow:
        fields: dict[str, Any] = {
            "workspace": "w",
            "run_id": "r1",
            "call_id": "c1",
            "agent_id": "a1",
            "digest": "d" * 64,
            "status": "requested",
            "body": b"{}",
            "decision": None,
            "created_ms": T0,
            "expires_ms": T0 + 900_000,
            "decided_ms": None,
        }
        return ApprovalRow(approval_id=approval_id, **{**fields, **more})

    def artifact(self, artifact_id: str, **more: Any) -> ArtifactRow:
        fields: dict[str, Any] = {
            "workspace": "w",
            "run_id": "r1",
            "runner_id": None,
            "conversation": None,
            "type": "file",
            "mime_type": "text/plain",
            "name": "note.txt",
            "size_bytes": 3,
            "sha256": None,
            "source": "runner",
            "created_ms": T0,
            "expires_ms": None,
            "metadata": b"{}",
        }
        return ArtifactRow(artifact_id=artifact_id, **{**fields, **more})

    def room(self, limit: int = 50, **more: Any) -> TranscriptQuery:
        fields: dict[str, Any] = {"workspace": "w", "bot": None, "conversation": "room", "thread": None, **more}
        return TranscriptQuery(limit=limit, **fields)


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def apply() -> Any:
    """Commit some changes."""

    def commit(store: Store, *changes: Change) -> None:
        with store.write() as transaction:
            transaction.apply(changes)

    return commit


@pytest.fixture
def say(make: Make, apply: Any) -> Any:
    """Commit messages into the room, numbered from 1."""

    def commit(store: Store, *contents: str) -> None:
        apply(store, *(PutTranscript(make.said(seq, text)) for seq, text in enumerate(contents, start=1)))

    return commit
