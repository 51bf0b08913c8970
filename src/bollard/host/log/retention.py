"""How long what is kept: per kind of record, in small commits, each with a record of its own that says how much it was.

Headers and hashes stay, so that the chain still verifies. What was made of the data goes with it: the event with what
was sent in full, what is in the transcript, and the delivery. Nothing is taken from what is under way.
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

# Every kind of record that a host writes. A test holds the list against the code that writes them.


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
        "delivery.deferred",
        "delivery.failed",
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
        "plugin.consented",
        "plugin.developed",
        "plugin.installed",
        "plugin.quarantined",
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
        "workspace.imported",
    }
)


STANDING: Final = frozenset(
    {
        *ACTIONS,
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
"""Kinds that something is made of which stands until it is changed or expires: without their data, a rebuild would
forget it. What was taken from a run is read from the log itself."""
_STEP: Final = 1000
"""Rows of one purge commit."""
_DAY_MS: Final = 24 * 3600 * 1000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Days by kind of record; a kind that is not named is kept. `deltas_days` is for the deltas of ended runs."""

    days: tuple[tuple[str, float], ...] = ()
    deltas_days: float | None = None

    def __post_init__(self) -> None:
        for kind, _ in self.days:
            if kind in STANDING:
                raise SettingsError(
                    f"the data of {kind} cannot be dropped by age: what it says still stands",
                    hint="take it out of retention; artifacts have artifact_days, and values of state a ttl",
                    field="retention",
                )


def retention_of(days: tuple[tuple[str, float], ...]) -> Retention:
    """From a table by kind, in which `message.delta` stands for the deltas of ended runs. Raises `SettingsError`."""
    for kind, _ in days:
        if kind not in KINDS:
            near = get_close_matches(kind.lower(), sorted(KINDS - STANDING), n=1)
            raise SettingsError(
                f"retention names {kind[:64]!r}, and there is no such kind of record",
                hint=f"did you mean {near[0]}?" if near else "name kinds such as message.completed",
                field="retention",
            )
    deltas = dict(days).get("message.delta")
    return Retention(days=tuple(item for item in days if item[0] != "message.delta"), deltas_days=deltas)


async def purge(journal: Journal, clock: Clock, retention: Retention, workspace: str) -> dict[str, int]:
    """Drop what is too old; returns what was dropped by kind. Each commit of it leaves a `retention.purged` record."""
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
    dropped = {kind: await _all(journal, chore, record) for kind, chore in chores.items()}
    return {kind: count for kind, count in dropped.items() if count}


async def _all(journal: Journal, chore: Chore, record: NewRecord) -> int:
    """In small commits, so that nobody waits long behind a purge."""
    total = 0
    while count := await journal.housekeep(chore, record):
        kill_point("retention.after_step")
        total += count
        if count < _STEP:
            break
    return total
