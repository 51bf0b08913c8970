"""Deletes an artifact before its time: from the commit on nobody reads it, and its content is swept where nothing else
has the same. Its record stays, with its name and its digest."""

from bollard.host.log.entries import Entry, Told
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data

__all__ = ["remove_artifact"]


async def remove_artifact(
    journal: Journal, workspace: str, artifact_id: str, *, by: str, now_ms: int, then: Told | None = None
) -> None:
    """On disk when this returns; `then` hears of it, also when nobody waits any more."""
    data = encode_data({"artifact_id": artifact_id, "by": by})
    record = NewRecord(workspace=workspace, type="artifact.deleted", data=data, created_ms=now_ms)
    await journal.commit_through(Entry(records=[record], size=len(record.data)), then)
