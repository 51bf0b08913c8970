"""Audience rules of agents: whether a caller may see a run, steer it or decide its approvals.

The rules do not bind callers that may change the agent, because they could change the rule. A caller that may read the
log sees every run, because the log contains it. A caller is a participant of a run if the run is in its name, or if it
recently sent a message in the conversation. A caller that may act for others sees what a participant sees.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import AudienceRule
from bollard.host.identity.caller import Caller
from bollard.host.identity.tokens import CallerRegistry
from bollard.host.identity.users import ActorLinks, Users, names_of_user
from bollard.host.limits import PARTICIPANT_EVENTS
from bollard.host.log.records import RunFacts
from bollard.host.scope import Actor, Place
from bollard.host.store.rows import EventRow, RunRow
from bollard.host.store.store import Store

Deed = Literal["steer", "see", "approve"]
_facts: Final = msgspec.json.Decoder(RunFacts).decode
_DELETED_AGENT: Final = AudienceRule(who="participants")
"""The rule for runs of a deleted agent."""


class Audience:
    """Applies the audience rules of agents."""

    def __init__(
        self, *, agents: AgentRegistry, users: Users, links: ActorLinks, callers: CallerRegistry, store: Store
    ) -> None:
        self._agents = agents
        self._callers = callers
        self._users = users
        self._links = links
        self._store = store

    def is_free(self, caller: Caller) -> bool:
        """Whether this caller may see every run."""
        return caller.may("agents.write") or caller.may("audit.read")

    def sees_agent(self, caller: Caller, agent_id: str) -> bool:
        """Whether this caller may see every run of an agent, also the runs of others."""
        if self.is_free(caller):
            return True
        rule = self._rule(caller.workspace, agent_id, "see")
        if rule.who == "listed":
            return not self._names(caller).isdisjoint(rule.actors)
        return rule.who == "everyone" or caller.may("actors.assume")

    async def may(self, caller: Caller, deed: Deed, row: RunRow) -> bool:
        """Whether the caller may do this with a run of its workspace. A caller with `actors.assume` may steer every
        run. The executor of a run never decides its approvals."""
        if caller.kind == "run" and deed == "approve":
            return False
        if caller.may("agents.write") or (deed == "steer" and caller.may("actors.assume")):
            return True
        if deed == "see" and self.is_free(caller):
            return True
        if caller.kind == "run":
            return caller.name == f"run:{row.run_id}"  # the executor
        rule = self._rule(row.workspace, row.agent_id, deed)
        match rule.who:
            case "everyone":
                return True
            case "listed":
                return not self._names(caller).isdisjoint(rule.actors)
            case "participants":
                if deed == "see" and caller.may("actors.assume"):
                    return True
                return await asyncio.to_thread(self._is_participant, caller, row)

    def is_current(self, caller: Caller) -> bool:
        """Whether a caller that was admitted would be admitted now."""
        return self._callers.is_current(caller)

    async def still_sees(self, caller: Caller, row: RunRow) -> bool:
        """Whether a reader of a run would be admitted now."""
        return self._callers.is_current(caller) and await self.may(caller, "see", row)

    async def seen(self, caller: Caller, rows: Iterable[RunRow]) -> list[RunRow]:
        """The runs that the caller may see."""
        if self.is_free(caller):
            return list(rows)
        return [row for row in rows if await self.may(caller, "see", row)]

    async def sees_run(self, caller: Caller, run_id: str | None) -> bool:
        """Whether the caller may see an item of a run. An item without a run is visible to all that may read its
        kind."""
        if run_id is None or self.is_free(caller):
            return True
        row = await asyncio.to_thread(self._store.run, run_id)
        return row is not None and row.workspace == caller.workspace and await self.may(caller, "see", row)

    async def sees_event(self, caller: Caller, row: EventRow) -> bool:
        """Whether the caller may see an event. An event without a run is visible to its sender, and in a conversation
        with runs to callers that see the conversation. Without a conversation it is visible to all that may read
        events."""
        if row.run_id is not None or row.conversation is None or self.is_free(caller):
            return await self.sees_run(caller, row.run_id)
        if caller.may("actors.assume") or self.is_caller(caller, row.actor):
            return True
        runs = await self._newest(row)
        return bool(runs) and all([await self.may(caller, "see", run) for run in runs])

    async def sees_place(self, caller: Caller, place: Place) -> bool:
        """Whether the caller may see the newest run of each agent in a conversation."""
        if self.is_free(caller):
            return True
        return all([await self.may(caller, "see", row) for row in await self._newest(place)])

    async def may_enter(self, caller: Caller, place: Place) -> bool:
        """Whether the caller may send messages in a conversation. A sender becomes a participant and gets the history,
        so it must be allowed to see it. A caller with `actors.assume` may send everywhere."""
        if self.is_free(caller) or caller.may("actors.assume"):
            return True
        for row in await self._newest(place):
            if not await self.may(caller, "see", row) and not await asyncio.to_thread(
                self._is_participant, caller, row
            ):
                return False
        return True

    async def _newest(self, place: Place) -> list[RunRow]:
        """The newest run of each agent in a conversation."""
        if place.conversation is None:
            return []
        return await asyncio.to_thread(
            self._store.newest_runs, place.workspace, place.bot, place.conversation, place.thread
        )

    def _rule(self, workspace: str, agent_id: str, deed: Deed) -> AudienceRule:
        agent = self._agents.get(agent_id, workspace) or self._agents.saved_one(agent_id, workspace)
        return _DELETED_AGENT if agent is None else getattr(agent.policy.audience, deed)

    def _names(self, caller: Caller) -> frozenset[str]:
        own = self._links.names(caller.workspace, caller.actor)
        user = None if caller.user_id is None else self._users.user(caller.workspace, caller.user_id)
        return own if user is None else own | names_of_user(user)

    def _is_participant(self, caller: Caller, row: RunRow) -> bool:
        facts = _facts(row.facts)
        if self.is_caller(caller, facts.actor):
            return True
        if row.conversation is None:
            return False
        actors = self._store.actors_in(row.workspace, row.bot, row.conversation, row.thread, PARTICIPANT_EVENTS)
        return any(self.is_caller(caller, actor) for actor in actors)

    def is_nobody(self, caller: Caller) -> bool:
        """Whether messages of the caller have no actor, so that an event without an actor may be its own."""
        return caller.actor is None

    def is_caller(self, caller: Caller, actor: Actor | None) -> bool:
        """Whether an actor is the caller, or linked to the same user."""
        if actor is None or actor.id is None:
            return False
        if caller.actor == actor:
            return True
        user = self._links.user_of(caller.workspace, actor)
        return user is not None and user.user_id == caller.user_id
