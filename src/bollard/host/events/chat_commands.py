"""Chat commands: messages such as `/new` that the host answers itself, in the language of the person."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.channels.channel import COMMANDS, ChatCommand, SavedChannel
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


class CalledCommand(msgspec.Struct, frozen=True):
    """A command in a message, with the words behind it."""

    name: ChatCommand
    argument: str


def read_command(text: str | None, allowed: tuple[ChatCommand, ...]) -> CalledCommand | None:
    """The command of a message: `/name`, or `/name@bot` as in groups. `None` for every other message."""
    first, _, rest = (text or "").strip().partition(" ")
    word = first.removeprefix("/").partition("@")[0].lower()
    found = next((name for name in COMMANDS if name == word), None) if first.startswith("/") else None
    return None if found is None or found not in allowed else CalledCommand(found, rest.strip())


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

    async def execute(self, command: CalledCommand, channel: SavedChannel, event: NewEvent) -> str:
        """Execute a command. `event` is in the present conversation of its room."""
        say = _Speaker(event.facts.locale or channel.locale)
        match command.name:
            case "help":
                return "\n".join([say("help"), *(say(f"help.{name}") for name in channel.commands)])
            case "new":
                await self._rooms.renew(event)
                return say("new")
            case "stop":
                return await self._stop_runs(event, say)
            case "status":
                return await self._status(event, say)
            case "agent":
                return await self._choose(command.argument, channel, event, say)
            case "link":
                return await self._link(command.argument, event, say)

    async def _stop_runs(self, event: NewEvent, say: "_Speaker") -> str:
        """A person stops the runs that the person started; in a private chat, or as an operator, all of them."""
        user = self._links.user_of(event.scope.workspace, event.scope.actor)
        controls = user is not None and "actors.assume" in rights_of(user.role)
        agent = await self._agent(event)
        view = None if agent is None else self._intake.runs_in(agent, event.scope)
        runs = [] if view is None else [*view.queued, *view.active]
        mine = [run for run in runs if event.facts.is_private or controls or run.actor == event.scope.actor]
        stopped = [run for run in mine if await self._stop(run.run_id)]
        if stopped:
            return say("stopped", count=len(stopped))
        return say("stop_others") if runs else say("stop_nothing")

    async def _status(self, event: NewEvent, say: "_Speaker") -> str:
        agent = await self._agent(event)
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

    async def _agent(self, event: NewEvent) -> str | None:
        """The agent that would get a message of this person now."""
        chosen = (await self._rooms.room(event)).agent
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
