"""What a runner is told when its run begins: the request, with the state and the history that the store knows."""

import asyncio
from typing import Any, Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.runs.context import Surroundings, run_request
from bollard.host.runs.creation import QueuedRun
from bollard.host.store.boundary import Store, TranscriptQuery
from bollard.protocol import JsonObject, JsonValue, limits

__all__ = ["Opening"]

_decode: Final[Any] = msgspec.json.Decoder().decode
_SNAPSHOT_PAGE: Final = limits.STATE_LIST_KEYS


class Opening:
    """Reads beside the loop, and only where there is something to read."""

    def __init__(self, store: Store, clock: Clock, host_version: str) -> None:
        self._store = store
        self._clock = clock
        self._host_version = host_version

    def at_once(self, queued: QueuedRun) -> JsonObject | None:
        """The request of a run that has no past; `None` when the store must be asked."""
        if queued.grant.state_keys or queued.facts.conversation is not None:
            return None
        return self._request(queued, Surroundings())

    async def read(self, queued: QueuedRun) -> JsonObject:
        """The request, with what the store knows now."""
        return self._request(queued, await asyncio.to_thread(self._surroundings, queued))

    def _request(self, queued: QueuedRun, surroundings: Surroundings) -> JsonObject:
        return run_request(
            queued.facts,
            queued.agent,
            queued.event,
            queued.grant,
            surroundings,
            now_ms=self._clock.now_ms(),
            host_version=self._host_version,
        )

    def _surroundings(self, queued: QueuedRun) -> Surroundings:
        facts = queued.facts
        state: JsonObject = {scope: self._state(key) for scope, key in queued.grant.state_keys.items()}
        if facts.conversation is None:
            return Surroundings(state=state)
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
        return Surroundings(
            state=state,
            transcript_seq=newest[0].seq if newest else None,
            has_history_before=bool(before),
        )

    def _state(self, scope_key: str) -> JsonObject:
        """A scope's values; only its keys where they are more than a context should carry."""
        found: dict[str, JsonValue] = {}
        size, whole = 0, True
        for row in self._store.states(scope_key, "", _SNAPSHOT_PAGE, now_ms=self._clock.now_ms()):
            size += len(row.value) + len(row.key)
            whole = whole and size <= limits.STATE_SNAPSHOT_BYTES
            found[row.key] = _decode(row.value)
        return found if whole else dict.fromkeys(found)
