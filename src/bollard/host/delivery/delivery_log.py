"""The records of deliveries. Each is on disk when its method returns."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import DeliverTo, NewRecord, RunFacts, encode_data
from bollard.host.store.rows import OutboxRow
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.delivery")
_RETRY_S: Final = 1.0
"""Time before a record that the store refused is written again."""


class DeliveryLog:
    """Writes records of the workspace, not of the run, because a delivery may outlive its run."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    async def started(self, row: OutboxRow, part: int) -> None:
        """Record that a part is about to be sent. If this raises `HostError`, the part must not be sent."""
        await self._write(row.workspace, "delivery.started", {**_named(row), "part": part})

    async def begun(self, delivery_id: str, facts: RunFacts, goes_to: DeliverTo, message_key: str) -> None:
        """Record that a preview is about to be sent. If this raises `HostError`, it must not be sent."""
        preview: JsonObject = {
            "channel": goes_to.channel,
            "target": goes_to.target,
            "run_id": facts.run_id,
            "event_id": facts.event_id,
            "message_key": message_key,
            "max_message_size": goes_to.max_message_size,
        }
        data: JsonObject = {"delivery_id": delivery_id, "run_id": facts.run_id, "preview": preview}
        await self._write(facts.workspace, "delivery.started", data)

    # --- outcomes: retried until the store takes them, because they cannot be undone ---

    async def previewed(self, delivery_id: str, facts: RunFacts, message: str) -> None:
        data: JsonObject = {"delivery_id": delivery_id, "run_id": facts.run_id, "messages": [message], "preview": True}
        await self._insist(facts.workspace, "delivery.shown", data)

    async def shown(self, row: OutboxRow, messages: Sequence[str]) -> None:
        await self._insist(row.workspace, "delivery.shown", {**_named(row), "messages": [*messages]})

    async def deferred(self, row: OutboxRow, attempts: int, due_ms: int, reason: str) -> None:
        data: JsonObject = {**_named(row), "attempts": attempts, "due_ms": due_ms, "reason": reason}
        await self._insist(row.workspace, "delivery.deferred", data)

    async def sent(self, row: OutboxRow, messages: Sequence[str], preview: str | None) -> None:
        data: JsonObject = {**_named(row), "messages": [*messages]}
        await self._insist(row.workspace, "delivery.sent", data if preview is None else {**data, "preview": preview})

    async def failed(self, workspace: str, delivery_id: str, run_id: str, reason: str) -> None:
        data: JsonObject = {"delivery_id": delivery_id, "run_id": run_id, "reason": reason}
        await self._insist(workspace, "delivery.failed", data)

    async def unknown(self, workspace: str, delivery_id: str, run_id: str, reason: str) -> None:
        data: JsonObject = {"delivery_id": delivery_id, "run_id": run_id, "reason": reason}
        await self._insist(workspace, "delivery.unknown", data)

    async def _insist(self, workspace: str, kind: str, data: JsonObject) -> None:
        while True:
            try:
                await self._write(workspace, kind, data)
            except HostError as error:
                _log.warning("the outcome of a delivery could not be recorded yet", problem=error.message)
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _write(self, workspace: str, kind: str, data: JsonObject) -> None:
        record = NewRecord(workspace=workspace, type=kind, data=encode_data(data), created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(record.data)))


def _named(row: OutboxRow) -> JsonObject:
    return {"delivery_id": row.delivery_id, "run_id": row.run_id}
