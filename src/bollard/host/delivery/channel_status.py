"""Whether each channel takes its messages. A change is a record `channel.status_changed`, which is a host event too."""

import asyncio

import structlog

from bollard.host.channels.registry import DEGRADED
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.delivery")


class ChannelStatuses:
    """A channel is `degraded` after an attempt that failed, and `connected` after one that arrived."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._degraded: set[tuple[str, str]] = set()

    async def load(self, store: Store) -> None:
        self._degraded |= {(row.workspace, row.id) for row in await asyncio.to_thread(store.all_kept, DEGRADED)}

    def degraded(self, workspace: str) -> list[str]:
        """The channels of a workspace that fail."""
        return sorted(channel_id for owner, channel_id in self._degraded if owner == workspace)

    def forget(self, workspace: str, channel_id: str) -> None:
        """Forget a deleted channel: another one of its name has no status yet."""
        self._degraded.discard((workspace, channel_id))

    async def arrived(self, workspace: str, channel_id: str) -> None:
        if (workspace, channel_id) in self._degraded:
            self._degraded.discard((workspace, channel_id))
            await self._write(workspace, channel_id, {"status": "connected"}, DropKept(DEGRADED, workspace, channel_id))

    async def failed(self, workspace: str, channel_id: str, reason: str) -> None:
        if (workspace, channel_id) not in self._degraded:
            self._degraded.add((workspace, channel_id))
            row = KeptRow(
                kind=DEGRADED,
                workspace=workspace,
                id=channel_id,
                body=b"",
                expires_ms=None,
                updated_ms=self._clock.now_ms(),
            )
            await self._write(workspace, channel_id, {"status": "degraded", "reason": reason}, PutKept(row))

    async def _write(self, workspace: str, channel_id: str, data: JsonObject, change: KeptChange) -> None:
        body = encode_data({"channel_id": channel_id, **data})
        record = NewRecord(
            workspace=workspace, type="channel.status_changed", data=body, created_ms=self._clock.now_ms()
        )
        try:
            await self._journal.commit(Entry(records=[record], keeps=[change], size=len(body)))
        except HostError as error:  # a delivery does not wait for the record of its channel
            _log.warning("the status of a channel could not be recorded", channel=channel_id, problem=error.message)
