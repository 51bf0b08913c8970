"""Audit records that must be on disk before their action runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable
from bollard.host.limits import AUDIT_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


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
