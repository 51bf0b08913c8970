"""Runs as the API finds and shows them."""

import asyncio
from typing import Final

from starlette.requests import Request

from bollard.host.errors import NotFound
from bollard.host.intake.accepted import Accepted
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.records import data_of
from bollard.host.store.boundary import Store
from bollard.host.store.rows import RecordRow, RunRow
from bollard.protocol import AgentRun, AgentRunRecord, JsonObject

__all__ = ["WORKSPACE", "RunRows", "accepted_body", "no_run", "record_of", "run_of"]

WORKSPACE: Final = "default"
_RUN_ID_CHARACTERS: Final = 64
_STEERING: Final = "steering."


def no_run() -> NotFound:
    """What is said of every run that is not there, or not for the caller: the same bytes."""
    return NotFound("there is no such run", hint="`bollard runs` lists the newest")


class RunRows:
    """Finds the run that a path names."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, request: Request) -> RunRow:
        """Raises `NotFound`."""
        run_id: str = request.path_params["run_id"]
        row = await asyncio.to_thread(self._store.run, run_id) if len(run_id) <= _RUN_ID_CHARACTERS else None
        if row is None or row.workspace != WORKSPACE:
            raise no_run()
        return row

    async def steering_of(self, row: RunRow) -> list[JsonObject]:
        """The messages that were given to a run, oldest first, and how far it got with each."""
        if row.conversation is None:
            return []  # only a conversation steers
        return await asyncio.to_thread(self._steering, row.run_id)

    def _steering(self, run_id: str) -> list[JsonObject]:
        found: dict[str, JsonObject] = {}
        after = 0
        while rows := self._store.records_of_run(run_id, after, REPLAY_PAGE):
            for row in rows:
                if row.type.startswith(_STEERING) and row.data is not None:
                    data = data_of(row)
                    found[str(data["event_id"])] = {**data, "status": row.type.removeprefix(_STEERING)}
            after = rows[-1].seq or 0
            if len(rows) < REPLAY_PAGE:
                break
        return list(found.values())


def accepted_body(accepted: Accepted) -> JsonObject:
    """What the sender of an event is told."""
    body: JsonObject = {"event_id": accepted.event_id, "run_id": accepted.run_id, "first": accepted.first}
    if accepted.steered:
        body["steering"] = {"status": "queued", "claimed_by_run_id": accepted.run_id}
    return body


def run_of(row: RunRow, steering: list[JsonObject] | None = None) -> AgentRun:
    """A run as programs read it."""

    def seconds(ms: int | None) -> float | None:
        return None if ms is None else ms / 1000

    return AgentRun(
        run_id=row.run_id,
        event_id=row.event_id,
        agent_id=row.agent_id,
        binding_id=row.binding_id,
        runner_id=row.runner_id,
        workspace_id=row.workspace,
        bot_id=row.bot,
        conversation_id=row.conversation,
        thread_id=row.thread,
        parent_run_id=row.parent_run_id,
        status=row.status,
        status_reason=row.reason,
        epoch=row.epoch,
        grant_sha256=row.grant_sha256,
        created_at=row.created_ms / 1000,
        started_at=seconds(row.started_ms),
        finished_at=seconds(row.finished_ms),
        updated_at=row.updated_ms / 1000,
        cancel_requested_at=seconds(row.cancel_requested_ms),
        metadata={"steering": [*steering]} if steering else {},
    )


def record_of(row: RecordRow) -> AgentRunRecord:
    """A record of a run as programs read it."""
    return AgentRunRecord(
        run_id=row.run_id or "",
        seq=row.seq or 0,
        epoch=row.epoch or 0,
        source_seq=row.source_seq,
        type=row.type,
        data=data_of(row),
        observed=row.observed,
        created_at=row.created_ms / 1000,
        metadata={} if row.data is not None else {"data_dropped": True},
    )
