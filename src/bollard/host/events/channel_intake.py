"""The path of an event of a channel to the intake: the rules of the channel come first."""

from dataclasses import replace

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.gate import ChannelGate
from bollard.host.channels.rules import Decision
from bollard.host.errors import Overloaded
from bollard.host.events.acceptance import Accepted, EventDeduplication, EventRejection
from bollard.host.runs.event import MessageFacts, NewEvent


class ChannelIntake:
    """Decides about the events of channels before the bindings do."""

    def __init__(self, gate: ChannelGate, deduplication: EventDeduplication) -> None:
        self._gate = gate
        self._deduplication = deduplication

    async def admit(self, channel: SavedChannel, event: NewEvent) -> Accepted | NewEvent:
        """The event that goes on to the bindings, or the outcome of an event that gets no answer. Raises `Overloaded`
        beyond a rate; then nothing is stored."""
        try:
            decision = self._gate.decide(channel.channel_id, channel.rules, event)
        except Overloaded:
            if (known := await self._deduplication.find(event)) is not None:
                return known
            raise
        if not decision.answered:
            return await self._deduplication.drop(_without_content(event), _rejection(decision))
        return event if decision.text == event.text else replace(event, text=decision.text, known=True)

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
