"""Audit queries of the log: filtered, in bounded steps, from either end. They block: call them in a thread.

`write_first` writes the audit record of an action that may run only once the record is on disk.
"""

import asyncio
from collections.abc import Iterator

import msgspec

from bollard.host.audit.severity import Severity, types_of
from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable
from bollard.host.limits import AUDIT_EXPORT_PAGE, AUDIT_S, AUDIT_WINDOW, AUDIT_WINDOWS
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.queries import RecordQuery
from bollard.host.store.rows import RecordRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of an audit query."""

    workspace: str
    types: frozenset[str] | None = None
    severity: Severity | None = None
    """The lowest severity."""
    run_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def query(self, above: int, below: int, limit: int, *, forward: bool) -> RecordQuery:
        wanted, unwanted = (None, frozenset[str]()) if self.severity is None else types_of(self.severity)
        if self.types is not None:
            wanted = self.types if wanted is None else self.types & wanted
        return RecordQuery(
            workspace=self.workspace,
            above=above,
            below=below,
            limit=limit,
            forward=forward,
            types=wanted,
            but_types=unwanted,
            run_id=self.run_id,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
        )


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records, newest first. If `before` is set, there may be more records with lower ids."""

    rows: list[RecordRow]
    before: int | None


def page_of_log(store: Store, wanted: AuditFilter, before: int | None, limit: int) -> AuditPage:
    """The newest matching records. The number of records read is bounded, however few of them match."""
    below = store.last_record() + 1 if before is None else before
    rows: list[RecordRow] = []
    for _ in range(AUDIT_WINDOWS):
        above = max(0, below - AUDIT_WINDOW - 1)
        rows += store.records_among(wanted.query(above, below, limit + 1 - len(rows), forward=False))
        if len(rows) > limit:
            return AuditPage(rows=rows[:limit], before=rows[limit - 1].id)
        below = above + 1
        if not above:
            return AuditPage(rows=rows, before=None)
    return AuditPage(rows=rows, before=below)


def all_of(store: Store, wanted: AuditFilter, up_to: int) -> Iterator[list[RecordRow]]:
    """All matching records with ids up to `up_to`, oldest first, in pages. A page may be empty."""
    above = 0
    while above < up_to:
        below = min(above + AUDIT_WINDOW, up_to) + 1
        rows = store.records_among(wanted.query(above, below, AUDIT_EXPORT_PAGE, forward=True))
        yield rows
        above = rows[-1].id if len(rows) == AUDIT_EXPORT_PAGE else below - 1


async def write_first(journal: Journal, clock: Clock, workspace: str, kind: str, data: JsonObject) -> None:
    """Write a record of the workspace durably. Raises `AuditUnavailable` if that takes too long, and the journal's
    error if it fails."""
    content = encode_data(data)
    record = NewRecord(workspace=workspace, type=kind, data=content, created_ms=clock.now_ms())
    try:
        async with asyncio.timeout(AUDIT_S):
            await journal.commit(Entry(records=[record], size=len(content)))
    except TimeoutError:
        raise AuditUnavailable(
            f"the audit record was not written within {AUDIT_S:g} s, so the action was not run",
            reason="audit_timeout",
            hint="check the disk or the database of the host, then retry",
            seconds=AUDIT_S,
        ) from None
