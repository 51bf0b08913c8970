"""The path of an event of a channel to the intake: the rules of the channel, its chat commands, and the conversation
that its room has now."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
from pydantic import ValidationError

from bollard.host.agents.commands import COMMAND_INVOKED, CalledCommand, CommandInvoked, read_command
from bollard.host.agents.saved_body import refusal
from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.gate import ChannelGate
from bollard.host.channels.rooms import Rooms
from bollard.host.channels.rules import Decision, RuleKey, RuleStep
from bollard.host.errors import Overloaded
from bollard.host.events.acceptance import Accepted, EventDeduplication, EventRejection
from bollard.host.events.chat_commands import ChatCommands, FoundCommand
from bollard.host.runs.event import MessageFacts, NewEvent


class Admitted(msgspec.Struct, frozen=True):
    """An event that goes on. Without an agent, the bindings choose one."""

    event: NewEvent
    agent: str | None = None


class ChannelIntake:
    """Decides about the events of channels before the bindings do."""

    def __init__(
        self,
        *,
        gate: ChannelGate,
        rooms: Rooms,
        commands: ChatCommands,
        deduplication: EventDeduplication,
        replied: Callable[[], None],
    ) -> None:
        """`replied` is called after an answer of the host is on disk."""
        self._gate = gate
        self._rooms = rooms
        self._commands = commands
        self._deduplication = deduplication
        self._replied = replied
        self._answering = asyncio.Lock()

    async def admit(self, channel: SavedChannel, event: NewEvent) -> Accepted | Admitted:
        """The event that goes on, or the outcome of an event that gets no run. Raises `Overloaded` beyond a rate; then
        nothing is stored."""
        try:
            decision = await self._gate.decide(channel.channel_id, channel.rules, event)
        except Overloaded:
            if (known := await self._deduplication.find(event)) is not None:
                return known
            raise
        if not decision.answered:
            return await self._deduplication.drop(_without_content(event), _rejection(decision))
        event = decision.event
        if event.event_type == COMMAND_INVOKED:
            event = _invoked(event, _called(event))
        found = await self._command(channel, event)
        if found is None or (found.is_off and event.is_message):
            return Admitted(*await self._rooms.enter(channel, event))
        if found.is_off:
            return await self._deduplication.drop(_without_content(event), _off(found))
        if found.agent is None:
            return await self._answer(found.called, channel, event)
        placed, _ = await self._rooms.enter(channel, _invoked(event, found.called))
        return Admitted(placed, found.agent)

    async def _command(self, channel: SavedChannel, event: NewEvent) -> FoundCommand | None:
        """The command of a message, or of an event of the platform. The answer needs a place to go to."""
        if event.reply is None or not event.is_spoken:
            return None
        called = read_command(event.text) if event.is_message else _called(event)
        return None if called is None else await self._commands.find(called, channel, event)

    async def _answer(self, command: CalledCommand, channel: SavedChannel, event: NewEvent) -> Accepted:
        """Execute a command once: a repeated event gets its first outcome, also while that is not on disk yet."""
        async with self._answering:
            if (known := await self._deduplication.find(event)) is not None:
                return known
            placed = await self._rooms.placed(event)
            text = await self._commands.execute(command, channel, placed)
            reason = EventRejection(code="command", message=f"the host answered the chat command /{command.name}")
            if command.name == "link":  # the text has a code
                placed = replace(placed, text=f"/{command.name}", known=True)
            accepted = await self._deduplication.drop(placed, reason, reply=text)
        self._replied()
        return accepted

    async def explain(self, channel: SavedChannel, event: NewEvent) -> tuple[Decision, Admitted]:
        """The decision about an event now, without counting it, and the event that would go on."""
        decision = await self._gate.decide(channel.channel_id, channel.rules, event, takes=False)
        found = await self._command(channel, event) if decision.answered else None
        room = await self._rooms.room(event)
        placed = Admitted(await self._rooms.placed(event), room.chosen(channel))
        if found is None:
            return decision, placed
        key: RuleKey = "command_off" if found.is_off else "host_command" if found.agent is None else "agent_command"
        step = RuleStep(key=key, fields={"command": found.called.name, "agent": found.agent or ""})
        goes_on = found.is_off and event.is_message
        explained = msgspec.structs.replace(
            decision, steps=(*decision.steps, step), answered=goes_on or key == "agent_command"
        )
        if key == "agent_command":
            return explained, Admitted(_invoked(placed.event, found.called), found.agent)
        return explained, placed


def _without_content(event: NewEvent) -> NewEvent:
    """An event that gets no answer is stored without the words of people who did not speak to the bot."""
    return replace(
        event,
        text=None,
        contents=(),
        attachments=(),
        data={},
        raw=None,
        actor_name=None,
        facts=MessageFacts(),
        known=True,
    )


def _called(event: NewEvent) -> CalledCommand:
    """Raises `InvalidRequest` for an event without a command."""
    try:
        invoked = CommandInvoked.from_wire(event.data)
    except ValidationError as error:
        raise refusal(error, "data", reason="field", hint="see docs/reference/http.md") from error
    return CalledCommand(invoked.command.removeprefix("/").lower(), invoked.arguments)


def _invoked(event: NewEvent, called: CalledCommand) -> NewEvent:
    """The event of a command of an agent."""
    text = event.text or f"/{called.name} {called.arguments}".strip()
    return replace(event, event_type=COMMAND_INVOKED, data={**event.data, **called.data}, text=text, known=True)


def _off(found: FoundCommand) -> EventRejection:
    step = RuleStep(key="command_off", fields={"command": found.called.name, "agent": found.agent or ""})
    return EventRejection(code="not_answered", message=step.sentence(), hint="`bollard resolve` says why, rule by rule")


def _rejection(decision: Decision) -> EventRejection:
    step = decision.steps[-1]
    code = "content_blocked" if step.key == "content_blocked" else "not_answered"
    return EventRejection(code=code, message=step.sentence(), hint="`bollard resolve` says why, rule by rule")
