"""Chat commands: messages such as `/new` that the host answers itself, in the language of the person, and those that
agents add."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.commands import COMMANDS, AgentCommand, CalledCommand
from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.rooms import Rooms
from bollard.host.errors import InvalidRequest, Overloaded
from bollard.host.events.intake import Intake
from bollard.host.identity.caller import rights_of
from bollard.host.identity.link_codes import LinkCodes
from bollard.host.identity.users import ActorLinks
from bollard.host.limits import LINK_CODE_S
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.host.texts import Locale, read_texts

_WORDS: Final = read_texts("chat")
_DEFAULT: Final = "default"
"""The argument of `/agent` that leaves the choice to the bindings."""
Stop = Callable[[str], Awaitable[bool]]
"""Stops a run; returns whether it was active."""


class FoundCommand(msgspec.Struct, frozen=True):
    """A command that the channel has: of the host, or of an agent."""

    called: CalledCommand
    agent: str | None = None
    """`None` for a command of the host."""
    is_off: bool = False


class ChatCommands:
    """Executes the commands of channels. Each returns the answer."""

    def __init__(
        self, *, intake: Intake, rooms: Rooms, agents: AgentRegistry, links: ActorLinks, codes: LinkCodes, stop: Stop
    ) -> None:
        self._intake = intake
        self._rooms = rooms
        self._agents = agents
        self._links = links
        self._codes = codes
        self._stop = stop

    async def find(self, called: CalledCommand, channel: SavedChannel, event: NewEvent) -> FoundCommand | None:
        """The command of the host, of the agent that answers here, or of one that people may choose here."""
        if called.name in COMMANDS:
            return FoundCommand(called) if called.name in channel.commands else None
        for agent_id, command in await self._of_agents(channel, event):
            if command.name == called.name:
                return FoundCommand(called, agent_id, is_off=called.name in channel.rules.commands_off)
        return None

    async def _of_agents(self, channel: SavedChannel, event: NewEvent) -> list[tuple[str, AgentCommand]]:
        """The commands of agents with their agents. The first of a name counts."""
        found: dict[str, tuple[str, AgentCommand]] = {}
        for agent_id in dict.fromkeys((await self._agent(channel, event), *channel.agents)):
            agent = None if agent_id is None else self._agents.get(agent_id, event.scope.workspace)
            for command in () if agent is None or not agent.enabled else agent.commands:
                found.setdefault(command.name, (agent.agent_id if agent else "", command))
        return [*found.values()]

    async def _help(self, channel: SavedChannel, event: NewEvent, locale: Locale) -> str:
        say = _Speaker(locale)
        added = [command for _, command in await self._of_agents(channel, event)]
        shown = [each.help(locale) for each in added if each.name not in channel.rules.commands_off]
        return "\n".join([say("help"), *(say(f"help.{name}") for name in channel.commands), *shown])

    async def execute(self, command: CalledCommand, channel: SavedChannel, event: NewEvent) -> str:
        """Execute a command of the host. `event` is in the present conversation of its room."""
        locale = event.locale(channel.locale)
        say = _Speaker(locale)
        match command.name:
            case "help":
                return await self._help(channel, event, locale)
            case "new":
                await self._rooms.renew(event)
                return say("new")
            case "stop":
                return await self._stop_runs(channel, event, say)
            case "status":
                return await self._status(channel, event, say)
            case "agent":
                return await self._choose(command.arguments, channel, event, say)
            case _:
                return await self._link(command.arguments, event, say)

    async def _stop_runs(self, channel: SavedChannel, event: NewEvent, say: "_Speaker") -> str:
        """A person stops the runs that the person started; in a private chat, or as an operator, all of them."""
        user = self._links.user_of(event.scope.workspace, event.scope.actor)
        controls = user is not None and "actors.assume" in rights_of(user.role)
        agent = await self._agent(channel, event)
        view = None if agent is None else self._intake.runs_in(agent, event.scope)
        runs = [] if view is None else [*view.queued, *view.active]
        mine = [run for run in runs if event.facts.is_private or controls or run.actor == event.scope.actor]
        stopped = [run for run in mine if await self._stop(run.run_id)]
        if stopped:
            return say("stopped", count=len(stopped))
        return say("stop_others") if runs else say("stop_nothing")

    async def _status(self, channel: SavedChannel, event: NewEvent, say: "_Speaker") -> str:
        agent = await self._agent(channel, event)
        view = None if agent is None else self._intake.runs_in(agent, event.scope)
        user = self._links.user_of(event.scope.workspace, event.scope.actor)
        return say(
            "status",
            agent=agent or say("nobody"),
            conversation=event.scope.conversation or "-",
            runs=0 if view is None else len(view.active) + len(view.queued),
            user=say("nobody") if user is None else user.user_id,
        )

    async def _choose(self, name: str, channel: SavedChannel, event: NewEvent, say: "_Speaker") -> str:
        known = [each for each in channel.agents if self._agents.is_known(each, event.scope.workspace)]
        if not known:
            return say("agent_none")
        if name in known:
            await self._rooms.choose(event, name)
            return say("agent_chosen", agent=name)
        if name == _DEFAULT:
            await self._rooms.choose(event, None)
            return say("agent_default")
        return say("agent_list", agents=", ".join(known), default=_DEFAULT)

    async def _link(self, code: str, event: NewEvent, say: "_Speaker") -> str:
        if not event.facts.is_private or event.scope.actor_id is None:
            return say("link_private")
        workspace, actor = event.scope.workspace, spelled(event.scope)
        try:
            if not code:
                made = await self._codes.for_actor(workspace, actor)
                return say("link_code", code=made, minutes=LINK_CODE_S // 60)
            user = await self._codes.redeem_as_actor(workspace, actor, code)
            return say("linked", user=user)
        except Overloaded:
            return say("link_slow")
        except InvalidRequest:
            return say("link_wrong", minutes=LINK_CODE_S // 60)

    async def _agent(self, channel: SavedChannel, event: NewEvent) -> str | None:
        """The agent that would get a message of this person now."""
        chosen = (await self._rooms.room(event)).chosen(channel)
        agent = self._intake.preview(event, chosen).resolution.agent
        return None if agent is None else agent.agent_id


class _Speaker:
    """The texts of one language."""

    def __init__(self, locale: Locale) -> None:
        self._words = _WORDS[locale]

    def __call__(self, key: str, **fields: str | int) -> str:
        return self._words[key].format_map(fields)


def spelled(scope: Scope) -> str:
    """The actor of an event as `type:id`."""
    return f"{scope.actor_type}:{scope.actor_id}"
