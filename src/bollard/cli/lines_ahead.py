"""Lines that a person typed during a run and that the host has already: read by that run, or with a run of their own.

A line is sent once. Where the run did not read it, the host gives it a run by itself; that run is followed then, and
the line is not sent again.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

from bollard.cli.errors import HostProblem
from bollard.cli.host_client import HostClient
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.protocol import AgentRunRecord, JsonObject

__all__ = ["LinesAhead"]

_LISTED = 50
"""Newest runs of a conversation among which the run of a line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    text: str
    event_id: str
    claimed: bool
    """The run that it was given to may read it."""
    run_id: str | None = None
    """Its own run, as soon as that is known."""


class LinesAhead:
    """The lines of one chat."""

    def __init__(self, client: HostClient, conversation: str, actor: JsonObject | None) -> None:
        self._client = client
        self._conversation = conversation
        self._actor = actor
        self._lines: list[_Line] = []
        self._dropped: dict[str, bool] = {}
        """Messages that the run did not read, and whether the host gives them a run."""
        self._giving: set[asyncio.Task[None]] = set()

    def give(self, run_id: str, text: str, told: Callable[[bool], None]) -> None:
        """Send a line into a run; `told` hears whether it went there."""
        task = asyncio.create_task(self._give(run_id, text, told))
        self._giving.add(task)
        task.add_done_callback(self._giving.discard)

    async def _give(self, run_id: str, text: str, told: Callable[[bool], None]) -> None:
        body: JsonObject = {"input": {"text": text}, "id": secrets.token_hex(16)}
        if self._actor is not None:
            body["actor"] = self._actor
        try:
            answer = await self._client.post(f"/api/v1/runs/{run_id}/steer", body)
        except HostProblem:  # it cannot be steered, or it has ended: the line is the next message
            told(False)
            return
        claimed = "steering" in answer
        own = None if claimed else cast("str | None", answer["run_id"])
        self._lines.append(_Line(text=text, event_id=str(answer["event_id"]), claimed=claimed, run_id=own))
        told(claimed)

    def saw(self, record: AgentRunRecord) -> None:
        """A record of the run that is followed."""
        if record.type == "steering.dropped":
            self._dropped[str(record.data.get("event_id"))] = bool(record.data.get("redispatch"))

    async def settle(self) -> tuple[str, ...]:
        """The run has ended: what it did not read, in order, each with its own run known. Raises `HostProblem`."""
        await asyncio.gather(*self._giving)
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, {}
        unread: list[str] = []
        for line in lines:
            if line.claimed and line.event_id in dropped:
                unread.append(line.text)
            if dropped.get(line.event_id, not line.claimed):  # it has a run of its own, or gets one
                own = line.run_id or await self._run_of(line.event_id)
                self._lines.append(replace(line, claimed=False, run_id=own))
        return tuple(unread)

    def take(self, text: str | None) -> str | None:
        """The run that this line has already, if it has one; it is asked for once."""
        for index, line in enumerate(self._lines):
            if line.text == text:
                del self._lines[index]
                return line.run_id
        return None

    async def drop(self) -> None:
        """Stop the runs of lines that nobody waits for any more."""
        lines, self._lines = self._lines, []
        waiting = (self._client.post(f"/api/v1/runs/{line.run_id}/cancel", {}) for line in lines)
        await asyncio.gather(*waiting, return_exceptions=True)

    async def close(self) -> None:
        """Wait for what is still being sent."""
        await asyncio.gather(*self._giving, return_exceptions=True)

    async def _run_of(self, event_id: str) -> str:
        """The host makes the run right behind the end of the one that dropped the line."""
        query = urlencode({"conversation": self._conversation, "limit": _LISTED})
        until = asyncio.get_running_loop().time() + AGENT_WAIT_S
        while True:
            page = await self._client.get(f"/api/v1/runs?{query}")
            for item in cast("list[dict[str, Any]]", page["items"]):
                if item["event_id"] == event_id:
                    return str(item["run_id"])
            if asyncio.get_running_loop().time() > until:
                raise HostProblem("error.no_run", "hint.lost", event=event_id)
            await asyncio.sleep(WATCH_S)
