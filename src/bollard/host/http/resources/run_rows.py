"""Finds runs for callers, and shows them as JSON."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Final

import msgspec
from pydantic import Field
from starlette.requests import HTTPConnection

from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, NotFound
from bollard.host.events.acceptance import Accepted
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.presence import AccessRevoked
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.limits import REPLAY_PAGE, STREAM_LOOK_S
from bollard.host.log.records import data_of
from bollard.host.runs.hub import StreamRecord
from bollard.host.scope import Place
from bollard.host.store.queries import ListedRun
from bollard.host.store.rows import RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import ActorContext, AgentRun, AgentRunRecord, JsonObject

_RUN_ID_CHARACTERS: Final = 64
_STEERING: Final = "steering."
_FAILED: Final = ("failed", "timeout")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def no_run() -> NotFound:
    """The same answer for a missing run and for a run that the caller may not see."""
    return NotFound("there is no such run", reason="no_run", hint="`bollard runs` lists the newest")


class RunRows:
    """Finds the run of a path, for callers who may see it."""

    def __init__(self, store: Store, audience: Audience, clock: Clock) -> None:
        self._store = store
        self._audience = audience
        self._clock = clock

    async def of(self, request: HTTPConnection) -> RunRow:
        """Raises `NotFound`."""
        run_id: str = request.path_params["run_id"]
        row = await asyncio.to_thread(self._store.run, run_id) if len(run_id) <= _RUN_ID_CHARACTERS else None
        caller = caller_of(request)
        if row is None or row.workspace != caller.workspace or not await self._audience.may(caller, "see", row):
            raise no_run()
        return row

    async def watched(
        self, request: HTTPConnection, row: RunRow, batches: AsyncGenerator[list[StreamRecord]]
    ) -> AsyncGenerator[list[StreamRecord]]:
        """Stream the run while its reader may see it. A deleted key, a disabled user or a changed rule ends the stream
        within two checks (`AccessRevoked`). A silent stream yields empty batches, so that the check happens."""
        caller, looked_at = caller_of(request), self._clock.monotonic()
        try:
            async for batch in batches:
                now = self._clock.monotonic()
                if now - looked_at >= STREAM_LOOK_S:
                    looked_at = now
                    if not await self._audience.still_sees(caller, row):
                        raise AccessRevoked
                yield batch
        finally:
            await batches.aclose()

    async def hidden(self, request: HTTPConnection, rows: Sequence[RunRow]) -> frozenset[str]:
        """The ids of runs that the caller may not see."""
        seen = {row.run_id for row in await self._audience.seen(caller_of(request), rows)}
        return frozenset(row.run_id for row in rows if row.run_id not in seen)

    async def seen(self, request: HTTPConnection, run_ids: Iterable[str]) -> dict[str, RunRow]:
        """Those of these runs that the caller may see, by id."""
        rows = await asyncio.to_thread(lambda: [self._store.run(run_id) for run_id in run_ids])
        found = await self._audience.seen(caller_of(request), [row for row in rows if row is not None])
        return {row.run_id: row for row in found}

    async def check_steering(self, caller: Caller, row: RunRow) -> None:
        """Raises `Forbidden` for callers who may see the run, but neither steer nor stop it."""
        if not await self._audience.may(caller, "steer", row):
            raise Forbidden(
                f"you may not steer or stop runs of agent {row.agent_id}",
                reason="not_a_steerer",
                hint="take part in its conversation, or ask the administrator of the agent (policy.audience.steer)",
                agent=row.agent_id,
            )

    async def check_entering(self, caller: Caller, place: Place) -> None:
        """Raises `Forbidden` for callers who may not post to a conversation of others."""
        if not await self._audience.may_enter(caller, place):
            raise Forbidden(
                "this conversation belongs to other people",
                reason="foreign_conversation",
                hint="choose another conversation, or ask an operator to add you",
            )

    async def listed(self, row: RunRow) -> ListedRun:
        """The run with the origin of its event."""
        event = await asyncio.to_thread(self._store.event, row.workspace, row.event_id)
        return ListedRun(
            run=row,
            source=None if event is None else event.source,
            actor_type=None if event is None else event.actor_type,
            actor_id=None if event is None else event.actor_id,
            actor_name=None if event is None else event.actor_name,
            summary=None if event is None else event.summary,
        )

    async def steering_of(self, row: RunRow) -> list[JsonObject]:
        """The messages that a run received, oldest first, with the state of each."""
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
        return list(found.values())

    async def error_of(self, row: RunRow) -> JsonObject | None:
        """The error of a run that failed, from its last record. `None` if retention dropped it."""
        return await asyncio.to_thread(self._error, row.run_id) if row.status in _FAILED else None

    def _error(self, run_id: str) -> JsonObject | None:
        last = self._store.records_of_run(run_id, self._store.last_seq(run_id) - 1, 1)
        if not last or last[0].type != "run.ended" or last[0].data is None:
            return None
        data = data_of(last[0])
        return {"code": data.get("code"), "message": data.get("error"), "details": data.get("details", {})}


def accepted_body(accepted: Accepted) -> JsonObject:
    """The answer to the sender of an event."""
    body: JsonObject = {"event_id": accepted.event_id, "run_id": accepted.run_id, "first": accepted.first}
    if accepted.steered:
        body["steering"] = {"status": "queued", "claimed_by_run_id": accepted.run_id}
    if accepted.reason is not None:
        body["reason"] = accepted.reason.to_wire()
    return body


class ShownRun(AgentRun):
    """A run with the origin of its event."""

    __qualname__ = "AgentRun"  # its name in the OpenAPI document
    source: str | None = Field(default=None, description="The source of the event, such as `api` or a channel.")
    input: str | None = Field(default=None, description="The first line of the message, at most 200 characters.")


def run_of(listed: ListedRun, steering: list[JsonObject] | None = None, error: JsonObject | None = None) -> ShownRun:
    """A run as programs read it."""

    def seconds(ms: int | None) -> float | None:
        return None if ms is None else ms / 1000

    row = listed.run
    return ShownRun(
        run_id=row.run_id,
        event_id=row.event_id,
        agent_id=row.agent_id,
        binding_id=row.binding_id,
        runner_id=row.runner_id,
        workspace_id=row.workspace,
        bot_id=row.bot,
        conversation_id=row.conversation,
        thread_id=row.thread,
        actor=None
        if listed.actor_type is None
        else ActorContext(actor_type=listed.actor_type, actor_id=listed.actor_id, actor_name=listed.actor_name),
        source=listed.source,
        input=next((line.strip() for line in (listed.summary or "").splitlines() if line.strip()), None),
        parent_run_id=row.parent_run_id,
        status=row.status,
        status_reason=row.reason,
        error=error,
        epoch=row.epoch,
        grant_sha256=row.grant_sha256,
        created_at=row.created_ms / 1000,
        started_at=seconds(row.started_ms),
        finished_at=seconds(row.finished_ms),
        updated_at=row.updated_ms / 1000,
        cancel_requested_at=seconds(row.cancel_requested_ms),
        usage=None if row.usage is None else _decode(row.usage),
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
