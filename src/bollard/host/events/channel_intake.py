"""The path of an event of a channel to the intake: the rules of the channel, its chat commands, and the conversation
that its room has now."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.gate import ChannelGate
from bollard.host.channels.rooms import Rooms
from bollard.host.channels.rules import Decision
from bollard.host.errors import Overloaded
from bollard.host.events.acceptance import Accepted, EventDeduplication, EventRejection
from bollard.host.events.chat_commands import CalledCommand, ChatCommands, read_command
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

    async def admit(self, channel: SavedChannel, event: NewEvent) -> Accepted | Admitted:
        """The event that goes on, or the outcome of an event that gets no run. Raises `Overloaded` beyond a rate; then
        nothing is stored."""
        try:
            decision = self._gate.decide(channel.channel_id, channel.rules, event)
        except Overloaded:
            if (known := await self._deduplication.find(event)) is not None:
                return known
            raise
        if not decision.answered:
            return await self._deduplication.drop(_without_content(event), _rejection(decision))
        if decision.text != event.text:
            event = replace(event, text=decision.text, known=True)
        command = read_command(event.text, channel.commands) if event.is_message and event.reply is not None else None
        if command is not None:
            return await self._answer(command, channel, event)
        return Admitted(*await self._rooms.enter(channel, event))

    async def _answer(self, command: CalledCommand, channel: SavedChannel, event: NewEvent) -> Accepted:
        """Execute a command once: a repeated event gets its first outcome."""
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

    def explain(self, channel: SavedChannel, event: NewEvent) -> Decision:
        """The decision about an event now, without counting it."""
        return self._gate.decide(channel.channel_id, channel.rules, event, takes=False)


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


def _rejection(decision: Decision) -> EventRejection:
    step = decision.steps[-1]
    code = "content_blocked" if step.key == "content_blocked" else "not_answered"
    return EventRejection(code=code, message=step.sentence(), hint="`bollard resolve` says why, rule by rule")
