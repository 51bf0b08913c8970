"""Messages that a person types while a run is active."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

from bollard.cli.client.host_client import HostClient
from bollard.cli.errors import CliError, HostProblem
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.cli.runs.chat_files import ChatFiles, message_input
from bollard.protocol import AgentRunRecord, JsonObject

_LISTED = 50
"""Newest runs of a conversation among which the run of a line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    text: str
    event_id: str
    claimed: bool
    """Whether the active run may read it."""
    run_id: str | None = None
    """Its own run, if known."""


class InputLines:
    """Lines that a person types during a run.

    A line is sent once. If the active run does not read it, the host starts a run for it; the chat follows that run.
    """

    def __init__(self, client: HostClient, conversation: str, actor: JsonObject | None, files: ChatFiles) -> None:
        self._client = client
        self._conversation = conversation
        self._actor = actor
        self._files = files
        self._lines: list[_Line] = []
        self._dropped: dict[str, bool] = {}
        """Messages that the run did not read, and whether the host starts runs for them."""
        self._sending: set[asyncio.Task[None]] = set()

    def send(self, run_id: str, text: str, on_sent: Callable[[bool], None]) -> None:
        """Send a line into a run; `on_sent` is called with whether the run took it."""
        task = asyncio.create_task(self._send(run_id, text, on_sent))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, run_id: str, text: str, on_sent: Callable[[bool], None]) -> None:
        try:
            given = await message_input(self._files, self._conversation, text)
            body: JsonObject = {"input": given, "id": secrets.token_hex(16)}
            if self._actor is not None:
                body["actor"] = self._actor
            answer = await self._client.post(f"/api/v1/runs/{run_id}/steer", body)
        except CliError:  # it cannot be steered, or it has ended: the line is the next message
            on_sent(False)
            return
        claimed = "steering" in answer
        own = None if claimed else cast("str | None", answer["run_id"])
        self._lines.append(_Line(text=text, event_id=str(answer["event_id"]), claimed=claimed, run_id=own))
        on_sent(claimed)

    def observe(self, record: AgentRunRecord) -> None:
        """Take note of a record of the active run."""
        if record.type == "steering.dropped":
            self._dropped[str(record.data.get("event_id"))] = bool(record.data.get("redispatch"))

    async def settle(self) -> tuple[str, ...]:
        """After the end of a run: the lines that it did not read, in order. Raises `HostProblem`."""
        await asyncio.gather(*self._sending)
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
        """Remove a line and return its run, if it has one."""
        for index, line in enumerate(self._lines):
            if line.text == text:
                del self._lines[index]
                return line.run_id
        return None

    async def drop(self) -> None:
        """Cancel the runs of the remaining lines."""
        lines, self._lines = self._lines, []
        waiting = (self._client.post(f"/api/v1/runs/{line.run_id}/cancel", {}) for line in lines)
        await asyncio.gather(*waiting, return_exceptions=True)

    async def close(self) -> None:
        """Wait for requests in flight."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _run_of(self, event_id: str) -> str:
        """The run of a dropped line, which the host starts after the end of the run that dropped it."""
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
