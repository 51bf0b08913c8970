"""Records of the log as audit entries: actor, action, right, time and outcome. Pure.

Messages and tool results are shown as digests only. Arguments are redacted in the log already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from bollard.host.audit.severity import severity_of
from bollard.host.log.records import data_of
from bollard.host.store.rows import RecordRow

if TYPE_CHECKING:
    from bollard.protocol import JsonObject, JsonValue

_ACTORS: Final = ("by", "user_id", "made_by", "actor", "requested_by")
"""Fields that name the actor, the most reliable first."""
_SUBJECTS: Final = (
    "thing",
    "runtime",
    "plugin",
    "name",
    "approval_id",
    "key_id",
    "event_id",
    "delivery_id",
    "key",
    "artifact_id",
)
_ASKED: Final = ("action", "resource", "key", "target")
"""Fields of run API calls that are joined."""
_OUTCOMES: Final = ("outcome", "code", "status", "decision", "reason")
_OUTCOMES_OF: Final = {"worker.violation": ("kind",), "plugin.refused": ("path",)}
_DIGESTS: Final = (
    "definition_sha256",
    "arguments_sha256",
    "result_sha256",
    "grant_sha256",
    "graph_sha256",
    "digest",
    "sha256",
    "name_fingerprint",
)
_TEXT_CHARACTERS: Final = 512
"""The limit of one field; longer texts are truncated."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of the run of a record."""

    actor: str | None = None
    runner: str | None = None
    agent: str | None = None
    trace_id: str | None = None


_NO_RUN: Final = RunContext()


def audited(row: RecordRow, run: RunContext = _NO_RUN) -> JsonObject:
    """The record as it is displayed and exported."""
    data = data_of(row)
    entry: dict[str, JsonValue] = {
        "id": row.id,
        "chain": row.chain,
        "position": row.position,
        "at": row.created_ms / 1000,
        "type": row.type,
        "severity": severity_of(row.type),
        "workspace": row.workspace,
        "observed": row.observed,
        "data_sha256": row.data_sha256,
        "hash": row.hash,
    }
    if row.data is None:
        entry["data_dropped"] = True
    found: dict[str, JsonValue] = {
        "seq": row.seq,
        "run_id": row.run_id or _text(data, "run_id"),
        "actor": _actor(data, run),
        "runner": run.runner,
        "agent": run.agent,
        "subject": _subject(row.type, data),
        "outcome": next((text for name in _outcomes(row.type) if (text := _text(data, name)) is not None), None),
        "duration_ms": _number(data, "duration_ms", "ms"),
        "trace_id": run.trace_id,
        "capability": _capability(data),
        "digests": {name: text for name in _DIGESTS if (text := _text(data, name)) is not None} or None,
        "arguments": data.get("arguments") if row.type.startswith("action.") else None,
    }
    return {**entry, **{name: value for name, value in found.items() if value is not None}}


def actor_of(row: RecordRow, run: RunContext = _NO_RUN) -> str | None:
    """The actor, from the record or its run."""
    return _actor(data_of(row), run)


def _actor(data: dict[str, JsonValue], run: RunContext) -> str | None:
    return next((text for name in _ACTORS if (text := _text(data, name)) is not None), run.actor)


def _subject(kind: str, data: dict[str, JsonValue]) -> str | None:
    if kind == "policy.changed":
        return f"{_text(data, 'kind')}/{_text(data, 'id')} {_text(data, 'action')}"
    if kind.startswith("api."):
        return " ".join(text for name in _ASKED if (text := _text(data, name)) is not None)
    return next((text for name in _SUBJECTS if (text := _text(data, name)) is not None), None)


def _outcomes(kind: str) -> tuple[str, ...]:
    return _OUTCOMES_OF.get(kind, _OUTCOMES)


def _capability(data: dict[str, JsonValue]) -> JsonObject | None:
    """The used capability: its id and its source."""
    identity = _text(data, "capability")
    if identity is None:
        return None
    found: dict[str, JsonValue] = {"id": identity}
    for name in ("kind", "source", "version", "risk", "effects", "definition_sha256"):
        if (text := _text(data, name)) is not None:
            found[name] = text
    return found


def _text(data: dict[str, JsonValue], name: str) -> str | None:
    value = data.get(name)
    return value[:_TEXT_CHARACTERS] if isinstance(value, str) and value else None


def _number(data: dict[str, JsonValue], *names: str) -> float | None:
    return next((value for name in names if isinstance(value := data.get(name), int | float)), None)
