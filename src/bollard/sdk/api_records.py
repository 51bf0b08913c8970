"""Calls that read what happened and act beyond the run.

`api.history`, `api.events`, `api.steering`, `api.agents`, `api.platform`, `api.host`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from bollard.protocol import (
    AgentEventRecord,
    AgentInput,
    ChildRunResult,
    EventPage,
    HistoryPage,
    HistorySearchResult,
    HostInfo,
    JsonObject,
    PlatformOutcome,
    SteeringPullResult,
)
from bollard.sdk.calls import Namespace

__all__ = ["AgentsApi", "EventsApi", "HistoryApi", "HostApi", "PlatformApi", "SteeringApi"]


class HistoryApi(Namespace):
    """The transcript: of this conversation and thread, unless more was granted."""

    __slots__ = ()

    async def page(
        self,
        conversation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        direction: Literal["backward", "forward"] = "backward",
        include_artifacts: bool = False,
    ) -> HistoryPage:
        """One page, at most 100 items."""
        fields = {
            "conversation_id": conversation_id,
            "before": before,
            "after": after,
            "limit": limit,
            "direction": direction,
            "include_artifacts": include_artifacts,
        }
        return await self._ask("history.page", HistoryPage, fields)

    async def search(self, query: str, filters: JsonObject | None = None, top_k: int = 10) -> HistorySearchResult:
        """The items that fit best, at most 50."""
        return await self._ask(
            "history.search", HistorySearchResult, {"query": query, "filters": filters, "top_k": top_k}
        )


class EventsApi(Namespace):
    """The events of this conversation."""

    __slots__ = ()

    async def get(self, event_id: str) -> AgentEventRecord:
        """One event."""
        return await self._ask("events.get", AgentEventRecord, {"event_id": event_id})

    async def page(self, before: str | None = None, limit: int = 50) -> EventPage:
        """One page, at most 100 items."""
        return await self._ask("events.page", EventPage, {"before": before, "limit": limit})


class SteeringApi(Namespace):
    """Messages that were absorbed into this run."""

    __slots__ = ()

    async def pull(self, mode: Literal["all", "one-at-a-time"] = "all", limit: int | None = None) -> SteeringPullResult:
        """What is waiting. Pull after a tool batch, before a model call, and once more before ending."""
        return await self._ask("steering.pull", SteeringPullResult, {"mode": mode, "limit": limit})


class AgentsApi(Namespace):
    """Other agents the run may call; their ids are in `ctx.resources.agents`."""

    __slots__ = ()

    # `input` is the protocol's own name.
    async def call(self, agent_id: str, input: str | AgentInput | Mapping[str, Any]) -> ChildRunResult:  # noqa: A002
        """Run another agent to its end."""
        given = AgentInput(text=input) if isinstance(input, str) else input
        return await self._ask("agents.call", ChildRunResult, {"agent_id": agent_id, "input": given})


class PlatformApi(Namespace):
    """Actions on the platform the event came from."""

    __slots__ = ()

    async def request(
        self, action: str, target: JsonObject | None = None, payload: JsonObject | None = None
    ) -> PlatformOutcome:
        """The outcome, after policy and approval."""
        fields = {"action": action, "target": target, "payload": payload}
        return await self._ask("platform.request", PlatformOutcome, fields)


class HostApi(Namespace):
    """The host itself."""

    __slots__ = ()

    async def info(self) -> HostInfo:
        """Its version and limits."""
        return await self._ask("host.info", HostInfo, {})
