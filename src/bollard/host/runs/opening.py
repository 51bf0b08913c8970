"""What a runner is told when its run begins: the request, with the state and the history that the store knows."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.flow_bits import NO_BITS, PRIVATE_BIT
from bollard.host.runs.config_secrets import ConfigSecrets
from bollard.host.runs.context import Surroundings, run_request
from bollard.host.runs.creation import QueuedRun
from bollard.host.store.boundary import Store, TranscriptQuery
from bollard.host.telemetry.trace_context import RunTrace
from bollard.protocol import JsonObject, JsonValue, StateScope, limits

__all__ = ["Opened", "Opening"]

_decode: Final[Any] = msgspec.json.Decoder().decode


class Opened(msgspec.Struct, frozen=True):
    """What a runner is told, and what that brings along: bits of `Flow`."""

    request: JsonObject
    flow: int


class Opening:
    """Reads beside the loop, and only where there is something to read."""

    def __init__(self, store: Store, clock: Clock, host_version: str, *, secrets: ConfigSecrets | None = None) -> None:
        self._secrets = secrets
        self._store = store
        self._clock = clock
        self._host_version = host_version

    def at_once(self, queued: QueuedRun, trace: RunTrace | None = None) -> JsonObject | None:
        """The request of a run that has no past; `None` when the store must be asked."""
        if queued.grant.state_keys or queued.facts.conversation is not None:
            return None
        if queued.agent.form and ConfigSecrets.any_for(queued.agent):
            return None
        return self._request(queued, Surroundings(), trace)

    async def read(self, queued: QueuedRun, trace: RunTrace | None = None) -> Opened:
        """The request, with what the store knows now, and the secrets that it is given."""
        surroundings, flow = await asyncio.to_thread(self._surroundings, queued)
        if queued.agent.form and ConfigSecrets.any_for(queued.agent):
            flow |= PRIVATE_BIT
        if self._secrets is not None and queued.agent.form and self._secrets.to_fill(queued.agent):
            queued = await self._secrets.filled(queued)
        return Opened(self._request(queued, surroundings, trace), flow)

    def _request(self, queued: QueuedRun, surroundings: Surroundings, trace: RunTrace | None) -> JsonObject:
        return run_request(
            queued.facts,
            queued.agent,
            queued.event,
            queued.grant,
            surroundings,
            now_ms=self._clock.now_ms(),
            host_version=self._host_version,
            trace=trace,
        )

    def _surroundings(self, queued: QueuedRun) -> tuple[Surroundings, int]:
        facts = queued.facts
        state, shortened, flow = self._snapshot(queued.grant.state_keys)
        if facts.conversation is None:
            return Surroundings(state=state, shortened=shortened), flow
        newest = self._store.transcript(
            TranscriptQuery(
                workspace=facts.workspace,
                bot=facts.bot,
                conversation=facts.conversation,
                thread=facts.thread,
                limit=2,
            )
        )
        before = [row for row in newest if row.event_id != facts.event_id]
        found = Surroundings(
            state=state,
            shortened=shortened,
            transcript_seq=newest[0].seq if newest else None,
            has_history_before=bool(before),
        )
        return found, flow

    def _snapshot(self, state_keys: Mapping[StateScope, str]) -> tuple[JsonObject, JsonObject, int]:
        """The values of each scope while all of them are no more than a context should carry. A scope with which they
        would be more, or that has too many keys to list, has its keys only; and what was done is said of each. Keys
        bring along as much as values."""
        flow, state = NO_BITS, dict[str, JsonValue]()
        shortened: JsonObject = {}
        left, now_ms = limits.STATE_SNAPSHOT_BYTES, self._clock.now_ms()
        for scope, scope_key in state_keys.items():
            rows = self._store.states(scope_key, "", limits.STATE_LIST_KEYS + 1, now_ms=now_ms)
            more, rows = len(rows) > limits.STATE_LIST_KEYS, rows[: limits.STATE_LIST_KEYS]
            size = sum(len(row.value) + len(row.key.encode()) for row in rows)
            for row in rows:
                flow |= row.flow
            if more or size > left:
                state[scope] = {row.key: None for row in rows}
                shortened[scope] = {"keys_only": True, "more_keys": more}
            else:
                state[scope] = {row.key: _decode(row.value) for row in rows}
                left -= size
        return state, shortened, flow
