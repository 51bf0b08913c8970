"""Messages on disk that need a run of their own: their run ended before it read them, or the store was busy.

The messages of a conversation are dispatched in order, before any newer message. If their agent is gone, they wait: for
a saved agent without limit, for any other `AGENT_GONE_S`. Then they are dropped with an `event.dropped` record.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.lanes import LaneKey
from bollard.host.background import Background
from bollard.host.errors import HostError, Overloaded
from bollard.host.limits import AGENT_GONE_S, WORKER_START_S
from bollard.host.runs.event import NewEvent

_log = structlog.get_logger("bollard.intake")
_RETRY_S: Final = 1.0
"""Time before a message that the store refused is dispatched again."""


@dataclass(slots=True)
class _Lane:
    """The waiting messages of one conversation, oldest first."""

    items: deque[tuple[str, NewEvent]] = field(default_factory=deque[tuple[str, NewEvent]])
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all have a run, or wait for their agent."""


class RedispatchQueue:
    """Dispatches waiting messages, one task per conversation."""

    def __init__(
        self,
        *,
        agents: AgentRegistry,
        dispatch: Callable[[NewEvent, str, Agent], Awaitable[object]],
        drop: Callable[[str, str, str], Awaitable[object]],
        expected: Callable[[str, str], bool],
        stopped: Callable[[], bool],
    ) -> None:
        """`drop` receives workspace, event and agent. `expected` says whether an absent agent may return. `stopped`
        says whether the host starts no more runs."""
        self._agents = agents
        self._dispatch = dispatch
        self._drop = drop
        self._expected = expected
        self._stopped = stopped
        self._lanes: dict[LaneKey, _Lane] = {}
        self._background = Background()
        self.patience_s = AGENT_GONE_S
        """How long messages wait for an agent that is not expected to return."""

    def add(self, lane: LaneKey, event_id: str, event: NewEvent) -> None:
        """Queue a message behind the waiting ones of its conversation."""
        if (waiting := self._lanes.get(lane)) is not None:
            waiting.items.append((event_id, event))
            return
        self._lanes[lane] = _Lane(deque([(event_id, event)]))
        self._background.begin(self._work_off(lane))

    async def settled(self, lane: LaneKey) -> None:
        """Wait until the conversation has no waiting messages. Raises `Overloaded` after `WORKER_START_S`."""
        try:
            async with asyncio.timeout(WORKER_START_S):
                while (waiting := self._lanes.get(lane)) is not None:
                    await waiting.settled.wait()
        except TimeoutError:
            message = "earlier messages of this conversation are still being dispatched"
            raise Overloaded(message, reason="earlier_messages_waiting", hint="retry in a moment") from None

    async def placed(self, lane: LaneKey) -> None:
        """Wait until each message of the conversation has a run or waits for its agent."""
        if (waiting := self._lanes.get(lane)) is not None:
            await waiting.placed.wait()

    async def _work_off(self, lane: LaneKey) -> None:
        """Dispatch in order. A message that the store refused is retried before the next one."""
        waiting = self._lanes[lane]
        try:
            while waiting.items and not self._stopped():
                event_id, event = waiting.items[0]
                try:
                    await self._settle(lane, event_id, event)
                except HostError as error:
                    _log.warning("a message could not be dispatched yet", event_id=event_id, problem=error.message)
                    await asyncio.sleep(_RETRY_S)
                else:
                    waiting.items.popleft()
        finally:
            del self._lanes[lane]
            waiting.placed.set()
            waiting.settled.set()

    async def _settle(self, lane: LaneKey, event_id: str, event: NewEvent) -> None:
        agent = self._agents.get(lane.agent_id, lane.workspace)
        if agent is None:
            _log.warning("a message waits for an agent that is gone", event_id=event_id, agent=lane.agent_id)
            self._lanes[lane].placed.set()
            agent = await self._wait_for_agent(lane.agent_id, lane.workspace)
        if agent is not None:
            await self._dispatch(event, event_id, agent)
        else:
            _log.warning("a message is dropped: its agent is gone", event_id=event_id, agent=lane.agent_id)
            await self._drop(lane.workspace, event_id, lane.agent_id)

    async def _wait_for_agent(self, agent_id: str, workspace: str) -> Agent | None:
        """The agent once it returns. `None` if it is not expected and was gone for `patience_s`."""
        loop, gone_at = asyncio.get_running_loop(), None
        while (agent := self._agents.get(agent_id, workspace)) is None:
            left_s = None
            if self._expected(workspace, agent_id):
                gone_at = None
            else:
                gone_at = loop.time() if gone_at is None else gone_at
                left_s = gone_at + self.patience_s - loop.time()
                if left_s <= 0:
                    return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._agents.changed()
        return agent

    async def close(self) -> None:
        await self._background.close()


class ReturnGate:
    """Holds new messages after a restart until the queued runs and messages of their agent are back in the queue, so
    that older ones come first. Open until `begin` is called."""

    def __init__(self) -> None:
        self._unknown: asyncio.Event | None = None
        self._agents: dict[tuple[str, str], asyncio.Event] = {}

    def begin(self) -> None:
        """Hold every agent until `known` names those with queued work."""
        if self._unknown is None:
            self._unknown = asyncio.Event()

    def known(self, agents: Iterable[tuple[str, str]]) -> None:
        """Hold only these agents, each with its workspace."""
        self._agents = {agent: asyncio.Event() for agent in agents}
        if self._unknown is not None:
            self._unknown.set()

    def done(self, workspace: str, agent_id: str) -> None:
        """The queued work of this agent is back in the queue."""
        returned = self._agents.pop((workspace, agent_id), None)
        if returned is not None:
            returned.set()

    async def wait(self, workspace: str, agent_id: str) -> None:
        """Wait for the queued work of this agent. Raises `Overloaded` after `WORKER_START_S`."""
        if (self._unknown is None or self._unknown.is_set()) and (workspace, agent_id) not in self._agents:
            return
        try:
            async with asyncio.timeout(WORKER_START_S):
                if self._unknown is not None:
                    await self._unknown.wait()
                if (returned := self._agents.get((workspace, agent_id))) is not None:
                    await returned.wait()
        except TimeoutError:
            message = "the host is still restoring runs that were queued before its restart"
            raise Overloaded(message, reason="restoring_queue", hint="retry in a moment") from None
