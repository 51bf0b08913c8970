"""A channel whose answers pass a content filter before they are sent."""

from msgspec.structs import replace

from bollard.host.channels.channel import Abilities, Channel, Outgoing, SendOutcome
from bollard.host.channels.content_filter import ContentFilter, filtered
from bollard.host.texts import Locale, read_texts

_WORDS = read_texts("chat")


class FilteredChannel:
    """Wraps a channel. A blocked message is replaced by a sentence that says so, and loses its artifacts."""

    def __init__(self, channel: Channel, rule: ContentFilter, locale: Locale) -> None:
        self.channel = channel
        self._rule = rule
        self._locale: Locale = locale

    @property
    def abilities(self) -> Abilities:
        return self.channel.abilities

    @property
    def locale(self) -> Locale:
        return self._locale

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        if outgoing.operation != "message":  # people must see exactly what they approve
            return await self.channel.send(outgoing)
        outcome = filtered(self._rule, outgoing.text)
        if outcome.outcome == "block":
            outgoing = replace(outgoing, text=_WORDS[self._locale]["withheld"], contents=(), artifacts=())
        elif outcome.outcome == "mask":
            outgoing = replace(outgoing, text=outcome.text)
        return await self.channel.send(outgoing)

    async def close(self) -> None:
        await self.channel.close()
