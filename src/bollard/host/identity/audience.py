"""Whether a caller may see a run of an agent, steer it, or approve what it asks: the agent's rules, for who is bound by
them. Whoever may change an agent is not: they could change the rule.

A caller takes part in a run when it is in their name, or when they spoke in its conversation lately.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.policies import AudienceRule
from bollard.host.identity.caller import Caller
from bollard.host.identity.tokens import CallerRegistry
from bollard.host.identity.users import ActorLinks, Users, names_of_user
from bollard.host.limits import PARTICIPANT_EVENTS
from bollard.host.log.records import RunFacts
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store

Deed = Literal["steer", "see", "approve"]
_facts: Final = msgspec.json.Decoder(RunFacts).decode
_OF_NOBODY: Final = AudienceRule(who="participants")
"""The rule for runs of an agent that is gone, where any agent of its workspace has a rule."""
_EVERYONE: Final = AudienceRule(who="everyone")


class RunPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, or one of its threads."""

    bot: str | None
    conversation: str
    thread: str | None


class Audience:
    """One per host. Cheap where no rule says anything."""

    def __init__(
        self, *, agents: AgentRegistry, users: Users, links: ActorLinks, callers: CallerRegistry, store: Store
    ) -> None:
        self._agents = agents
        self._callers = callers
        self._users = users
        self._links = links
        self._store = store
        self._restricting: dict[str, tuple[int, bool]] = {}

    def is_free(self, caller: Caller) -> bool:
        """Whether no rule hides anything from this caller."""
        return caller.may("agents.write") or not self._restricts(caller.workspace)

    async def may(self, caller: Caller, deed: Deed, row: RunRow) -> bool:
        """Whether the caller may do this with a run of their workspace. Who speaks for others may steer for them.
        Whoever executes a run never approves what it asks."""
        if caller.kind == "run" and deed == "approve":
            return False
        if caller.may("agents.write") or (deed == "steer" and caller.may("actors.assume")):
            return True
        if caller.kind == "run":
            return caller.name == f"run:{row.run_id}"  # whoever executes it
        rule = self._rule(row.workspace, row.agent_id, deed)
        match rule.who:
            case "everyone":
                return True
            case "listed":
                return not self._names(caller).isdisjoint(rule.actors)
            case "participants":
                return await asyncio.to_thread(self._takes_part, caller, row)

    def is_current(self, caller: Caller) -> bool:
        """Whether somebody who was let in would be let in now."""
        return self._callers.is_current(caller)

    async def still_sees(self, caller: Caller, row: RunRow) -> bool:
        """Whether somebody who was let in to see a run would be let in now."""
        return self._callers.is_current(caller) and await self.may(caller, "see", row)

    async def seen(self, caller: Caller, rows: Iterable[RunRow]) -> list[RunRow]:
        """Those that the caller may see."""
        if self.is_free(caller):
            return list(rows)
        return [row for row in rows if await self.may(caller, "see", row)]

    async def sees_run(self, caller: Caller, run_id: str | None) -> bool:
        """The same for what belongs to a run; what belongs to none is for everybody who may read its kind."""
        if run_id is None or self.is_free(caller):
            return True
        row = await asyncio.to_thread(self._store.run, run_id)
        return row is not None and row.workspace == caller.workspace and await self.may(caller, "see", row)

    async def sees_place(self, caller: Caller, place: RunPlace) -> bool:
        """A conversation is for who may see the newest runs in it."""
        if self.is_free(caller):
            return True
        return all([await self.may(caller, "see", row) for row in await self._newest(caller.workspace, place)])

    async def may_enter(self, caller: Caller, place: RunPlace) -> bool:
        """Whether the caller may speak in a conversation. Who speaks in it takes part and has its history, so that
        nobody lets themselves in to what they may not see. Who speaks for others may speak everywhere."""
        if self.is_free(caller) or caller.may("actors.assume"):
            return True
        for row in await self._newest(caller.workspace, place):
            if not await self.may(caller, "see", row) and not await asyncio.to_thread(self._takes_part, caller, row):
                return False
        return True

    async def _newest(self, workspace: str, place: RunPlace) -> list[RunRow]:
        """The newest run of each agent in a conversation."""
        return await asyncio.to_thread(self._store.newest_runs, workspace, place.bot, place.conversation, place.thread)

    def _rule(self, workspace: str, agent_id: str, deed: Deed) -> AudienceRule:
        agent = self._agents.get(agent_id, workspace) or self._agents.saved_one(agent_id, workspace)
        if agent is None:
            return _OF_NOBODY if deed != "see" or self._restricts(workspace) else _EVERYONE
        return getattr(agent.policy.audience, deed)

    def _restricts(self, workspace: str) -> bool:
        """Whether any agent of the workspace shows its runs to some only."""
        known = self._restricting.get(workspace)
        if known is None or known[0] != self._agents.changes:
            agents: list[Agent] = [*self._agents.of(workspace), *self._agents.saved(workspace)]
            found = any(agent.policy.audience.see.who != "everyone" for agent in agents)
            known = self._restricting[workspace] = (self._agents.changes, found)
        return known[1]

    def _names(self, caller: Caller) -> frozenset[str]:
        actor = caller.actor
        own = frozenset[str]() if actor is None else self._links.names(caller.workspace, *actor)
        user = None if caller.user_id is None else self._users.user(caller.workspace, caller.user_id)
        return own if user is None else own | names_of_user(user)

    def _takes_part(self, caller: Caller, row: RunRow) -> bool:
        facts = _facts(row.facts)
        if self.is_caller(caller, facts.actor_type, facts.actor_id):
            return True
        if row.conversation is None:
            return False
        said = self._store.events_in(row.workspace, row.bot, row.conversation, row.thread, None, PARTICIPANT_EVENTS)
        return any(self.is_caller(caller, event.actor_type, event.actor_id) for event in said)

    def is_nobody(self, caller: Caller) -> bool:
        """Whether the caller's own messages have no actor: what nobody is known to have caused may be theirs."""
        return caller.actor is None

    def is_caller(self, caller: Caller, actor_type: str | None, actor_id: str | None) -> bool:
        """Whether an actor is the caller, or the user behind both."""
        if actor_type is None or actor_id is None:
            return False
        if caller.actor == (actor_type, actor_id):
            return True
        user = self._links.user_of(caller.workspace, actor_type, actor_id)
        return user is not None and user.user_id == caller.user_id
