"""Retention: drops the data of old records by type, in small commits that each leave a `retention.purged` record.

Headers and hashes stay, so the chain still verifies. Projections of the data are dropped with it: the event and its
raw artifact, the transcript row and the delivery. Unfinished runs and deliveries are left alone.
"""

from difflib import get_close_matches
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import SettingsError
from bollard.host.log.entries import Chore
from bollard.host.log.item_projections import ACTIONS
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord
from bollard.protocol import HOST_RECORD_TYPES, RESULT_TYPES

KINDS: Final = frozenset(
    {
        *RESULT_TYPES,
        *HOST_RECORD_TYPES,
        "action.completed",
        "action.failed",
        "action.rejected",
        "action.started",
        "action.unknown",
        "api.called",
        "api.denied",
        "approval.denied",
        "approval.expired",
        "approval.granted",
        "approval.requested",
        "approval.used",
        "artifact.deleted",
        "audit.exported",
        "audit.gap",
        "channel.status_changed",
        "conversation.deleted",
        "delivery.deferred",
        "delivery.failed",
        "delivery.queued",
        "delivery.sent",
        "delivery.shown",
        "delivery.started",
        "delivery.unknown",
        "event.dropped",
        "event.received",
        "grant.issued",
        "grant.revoked",
        "knowledge.changed",
        "log.archived",
        "login.ended",
        "login.failed",
        "login.succeeded",
        "model.called",
        "person.erased",
        "plugin.consented",
        "plugin.developed",
        "plugin.installed",
        "plugin.quarantined",
        "plugin.refused",
        "plugin.removed",
        "plugin.undeveloped",
        "plugin.updated",
        "policy.changed",
        "question.answered",
        "question.asked",
        "question.expired",
        "retention.purged",
        "run.cancelled",
        "run.claimed",
        "run.created",
        "run.resumed",
        "run.started",
        "run.waiting",
        "runtime.connected",
        "runtime.consented",
        "runtime.enrolled",
        "runtime.invited",
        "runtime.lost",
        "runtime.refused",
        "runtime.revoked",
        "secret.used",
        "state.deleted",
        "state.refused",
        "steering.acknowledged",
        "steering.dropped",
        "steering.injected",
        "steering.queued",
        "storage.deleted",
        "storage.updated",
        "store.restored",
        "token.issued",
        "webhook.failed",
        "webhook.sent",
        "worker.connection",
        "worker.violation",
        "workspace.imported",
    }
)
"""Every record type that a host writes. A test compares the list with the code."""


ERASURES: Final = frozenset({"conversation.deleted", "person.erased"})
"""Record types that account for erased data."""
STANDING: Final = frozenset(
    {
        *ACTIONS,
        *ERASURES,
        "artifact.created",
        "artifact.deleted",
        "delivery.deferred",
        "delivery.failed",
        "delivery.sent",
        "delivery.shown",
        "delivery.started",
        "delivery.unknown",
        "event.dropped",
        "grant.revoked",
        "model.called",
        "policy.changed",
        "run.cancelled",
        "run.claimed",
        "run.created",
        "run.ended",
        "run.resumed",
        "run.started",
        "run.waiting",
        "state.deleted",
        "state.updated",
        "steering.acknowledged",
        "steering.dropped",
        "steering.injected",
        "steering.queued",
        "storage.deleted",
        "storage.updated",
    }
)
"""Record types whose data is still in effect until it is changed or expires: without it, a rebuild would lose rows.
Revocations are read from the log itself."""
_STEP: Final = 1000
"""Rows of one purge commit."""
_DAY_MS: Final = 24 * 3600 * 1000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Days by record type; types that are not listed are kept. `deltas_days` is for the deltas of ended runs."""

    days: tuple[tuple[str, float], ...] = ()
    deltas_days: float | None = None

    def __post_init__(self) -> None:
        for kind, _ in self.days:
            if kind in STANDING:
                raise SettingsError(
                    f"retention lists {kind}, whose data is still in effect and cannot be dropped by age",
                    reason="retention_in_effect",
                    hint="remove it from retention; use artifact_days for artifacts, and a ttl for state values",
                    field="retention",
                    kind=kind,
                )


def retention_of(days: tuple[tuple[str, float], ...]) -> Retention:
    """Parse the setting, in which `message.delta` means the deltas of ended runs. Raises `SettingsError`."""
    for kind, _ in days:
        if kind not in KINDS:
            example = (*get_close_matches(kind.lower(), sorted(KINDS - STANDING), n=1), "message.completed")[0]
            raise SettingsError(
                f"retention lists {kind[:64]!r}, which is not a record type",
                reason="unknown_record_type",
                hint=f"use a record type such as {example}",
                field="retention",
                kind=kind[:64],
                example=example,
            )
    deltas = dict(days).get("message.delta")
    return Retention(days=tuple(item for item in days if item[0] != "message.delta"), deltas_days=deltas)


async def purge(journal: Journal, clock: Clock, retention: Retention, workspace: str) -> dict[str, int]:
    """Drop old data; returns the number of dropped rows by record type."""
    now_ms = clock.now_ms()
    chores = {
        kind: Chore(kind="drop_data", type=kind, before_ms=now_ms - round(days * _DAY_MS), limit=_STEP)
        for kind, days in retention.days
    }
    if retention.deltas_days is not None:
        before_ms = now_ms - round(retention.deltas_days * _DAY_MS)
        chores["message.delta"] = Chore(kind="drop_deltas", before_ms=before_ms, limit=_STEP)
    chores["expired"] = Chore(kind="drop_expired", before_ms=now_ms, limit=_STEP)
    record = NewRecord(workspace=workspace, type="retention.purged", data=b"{}", created_ms=now_ms)
    dropped = {kind: await _drop_all(journal, chore, record) for kind, chore in chores.items()}
    return {kind: count for kind, count in dropped.items() if count}


async def _drop_all(journal: Journal, chore: Chore, record: NewRecord) -> int:
    """Repeat the chore in small commits, so that other entries do not wait long."""
    total = 0
    while count := await journal.housekeep(chore, record):
        kill_point("retention.after_step")
        total += count
        if count < _STEP:
            break
    return total
