"""Writes down what must be on disk before it is done, or refuses it."""

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
    """A record of the workspace, on disk when this returns. Raises `AuditUnavailable` when it takes too long, and what
    the journal says when it cannot be written."""
    said = encode_data(data)
    record = NewRecord(workspace=workspace, type=kind, data=said, created_ms=clock.now_ms())
    try:
        async with asyncio.timeout(AUDIT_S):
            await journal.commit(Entry(records=[record], size=len(said)))
    except TimeoutError:
        raise AuditUnavailable(
            f"it could not be written down within {AUDIT_S:g} s, so it was not done",
            hint="look at the disk or the database of the host, and try again",
        ) from None
