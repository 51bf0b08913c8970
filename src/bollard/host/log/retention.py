"""How long what is kept: per kind of record, in small commits, each purge recorded. Headers and hashes stay."""

from dataclasses import dataclass

from bollard.host.clock import Clock
from bollard.host.log.entries import Chore, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data

__all__ = ["Retention", "purge", "retention_of"]

_STEP = 1000
"""Rows of one purge commit."""
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days by kind of record; a kind that is not named is kept. `deltas_days` is for the deltas of ended runs."""

    days: tuple[tuple[str, float], ...] = ()
    deltas_days: float | None = None


def retention_of(days: tuple[tuple[str, float], ...]) -> Retention:
    """From a table by kind, in which `message.delta` stands for the deltas of ended runs."""
    deltas = dict(days).get("message.delta")
    return Retention(days=tuple(item for item in days if item[0] != "message.delta"), deltas_days=deltas)


async def purge(journal: Journal, clock: Clock, retention: Retention, workspace: str) -> dict[str, int]:
    """Drop what is too old; returns what was dropped by kind. Ends with a `retention.purged` record if anything was."""
    now_ms = clock.now_ms()
    dropped: dict[str, int] = {}
    for kind, days in retention.days:
        before_ms = now_ms - round(days * _DAY_MS)
        dropped[kind] = await _all(journal, Chore(kind="drop_data", type=kind, before_ms=before_ms, limit=_STEP))
    if retention.deltas_days is not None:
        before_ms = now_ms - round(retention.deltas_days * _DAY_MS)
        dropped["message.delta"] = await _all(journal, Chore(kind="drop_deltas", before_ms=before_ms, limit=_STEP))
    dropped["expired"] = await _all(journal, Chore(kind="drop_expired", before_ms=now_ms, limit=_STEP))
    dropped = {kind: count for kind, count in dropped.items() if count}
    if dropped:
        data = encode_data({"dropped": dropped})
        record = NewRecord(workspace=workspace, type="retention.purged", data=data, created_ms=now_ms)
        await journal.commit(Entry(records=[record], size=len(data)))
    return dropped


async def _all(journal: Journal, chore: Chore) -> int:
    """In small commits, so that nobody waits long behind a purge."""
    total = 0
    while count := await journal.housekeep(chore):
        total += count
        if count < _STEP:
            break
    return total
