"""Follows one run of a host to its end. A stream that breaks is picked up behind the last record that came."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from bollard.cli.errors import HostProblem
from bollard.cli.host_client import HostClient, problem_of_failure
from bollard.cli.http_client import Answer, BadAnswer, ConnectionLost, Unreachable
from bollard.cli.limits import RECONNECT_S, RECONNECT_WAIT_S
from bollard.cli.records import RecordSink
from bollard.cli.sse_client import ServerEvent
from bollard.protocol import AgentRunRecord, JsonObject

__all__ = ["FollowedRun"]

Stream = AbstractAsyncContextManager[tuple[Answer, AsyncIterator[ServerEvent]]]


class FollowedRun:
    """One run, whose id may only be known once the host has answered."""

    def __init__(
        self,
        client: HostClient,
        sink: RecordSink,
        *,
        run_id: str | None = None,
        request: JsonObject | None = None,
        place: str | None = None,
        lost: Callable[[str], None] = lambda _: None,
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._sink = sink
        self._run_id = run_id
        self._request = request
        self._place = place
        self._lost = lost
        self._resumed = resumed
        self._end: AgentRunRecord | None = None
        self._cancel_wanted = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str | None:
        """The run, as soon as the host has named it."""
        return self._run_id

    async def to_the_end(self) -> AgentRunRecord:
        """Its `run.ended`. Raises `HostProblem` when the host refuses, or stays away too long."""
        tries, since = 0, time.monotonic()
        while True:
            place = self._place
            failure = await self._read_once()
            if self._end is not None:
                return self._end
            if self._place != place:  # it got on: what failed before does not count
                tries, since = 0, time.monotonic()
            if self._run_id is None and isinstance(failure, Unreachable) and tries == 0:
                raise problem_of_failure(failure)  # nothing was begun: say so at once
            if time.monotonic() - since > RECONNECT_S:
                raise problem_of_failure(failure)
            if tries == 0:
                self._lost(failure.detail)
            await asyncio.sleep(RECONNECT_WAIT_S[min(tries, len(RECONNECT_WAIT_S) - 1)])
            tries += 1

    def cancel(self) -> bool:
        """Ask the host to stop it; as soon as it is known there. False when that was asked already."""
        if self._cancel_wanted:
            return False
        self._cancel_wanted = True
        if self._run_id is not None:
            self._send_cancel(self._run_id)
        return True

    async def close(self) -> None:
        """Wait for what is still being said to the host."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read_once(self) -> Unreachable | ConnectionLost:
        """Read until the stream ends, however it does. A stream that ends before its run has broken off."""
        try:
            async with self._opened() as (answer, events):
                self._known(answer.headers.get("bollard-run-id"))
                async for event in events:
                    self._take(event)
        except (Unreachable, ConnectionLost) as error:
            return error
        except BadAnswer as error:
            raise problem_of_failure(error) from error
        return ConnectionLost(self._client.address, "the stream ended before the run")

    def _opened(self) -> Stream:
        if self._run_id is not None:
            return self._client.events("GET", f"/api/v1/runs/{self._run_id}/stream", last_id=self._place)
        # The request has an id of its own: sent once more, it finds the run that the first one made.
        return self._client.events("POST", "/api/v1/runs", self._request)

    def _known(self, run_id: str | None) -> None:
        again = self._run_id is not None and self._place is not None
        first = self._run_id is None
        self._run_id = self._run_id or run_id
        if again:
            self._resumed()
        if first and self._cancel_wanted and self._run_id is not None:
            self._send_cancel(self._run_id)

    def _take(self, event: ServerEvent) -> None:
        value: Any = json.loads(event.data)
        if event.type == "gap":
            self._sink.gap(value)
            return
        record = AgentRunRecord.from_wire(value)
        self._place = event.id or self._place
        if record.type == "run.ended":
            self._end = record
        self._sink.record(record)

    def _send_cancel(self, run_id: str) -> None:
        task = asyncio.create_task(self._post_cancel(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post_cancel(self, run_id: str) -> None:
        try:
            await self._client.post(f"/api/v1/runs/{run_id}/cancel", {})
        except HostProblem:
            self._cancel_wanted = False  # it has ended, or the host is away: another Ctrl-C may ask again
