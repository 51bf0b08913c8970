"""Whether an event that came again under the same `Idempotency-Key` is the same one. Asked only of repeats."""

import asyncio
from dataclasses import replace

from bollard.host.http.errors import RepeatMismatch
from bollard.host.intake.accepted import Accepted
from bollard.host.recovery import facts_of
from bollard.host.runs.event import NewEvent
from bollard.host.store.boundary import Store

__all__ = ["refuse_other"]


async def refuse_other(
    store: Store,
    workspace: str,
    accepted: Accepted,
    event: NewEvent,
    agent_id: str | None,
    *,
    external: bool | None = None,
) -> None:
    """Raises `RepeatMismatch` where the first one said something else, said it to another agent, or was to be executed
    by somebody else."""
    if accepted.first:
        return
    if not await asyncio.to_thread(_is_same, store, workspace, accepted, event, agent_id, external):
        raise RepeatMismatch(
            "this Idempotency-Key came before with another request",
            hint="use a new key for a new request; repeat a request exactly as it was",
            event_id=accepted.event_id,
        )


def _is_same(
    store: Store, workspace: str, accepted: Accepted, event: NewEvent, agent_id: str | None, external: bool | None
) -> bool:
    row = store.event(workspace, accepted.event_id)
    if row is None:
        return True
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    if record is None or record.data is None:
        return True  # retention dropped what it said
    _, first = NewEvent.from_record(record.data)
    run = None if accepted.run_id is None or agent_id is None else store.run(accepted.run_id)
    if run is not None and (run.agent_id != agent_id or external not in (None, facts_of(run).external)):
        return False
    return _said(first) == _said(event)


def _said(event: NewEvent) -> NewEvent:
    """Without what differs each time it is sent."""
    return replace(event, traceparent=None, extra=None, known=True)
