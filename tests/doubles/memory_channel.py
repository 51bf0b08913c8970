"""A channel without a network. It remembers arrivals, and can fail on demand."""

import asyncio
from collections import deque

from msgspec.structs import replace

from bollard.host.channels.channel import Abilities, Delivered, DeliveryUnknown, NotDelivered, Outgoing, SendOutcome
from bollard.host.texts import Locale


class MemoryChannel:
    """Takes everything. With native dedupe the same key again is the same message."""

    def __init__(self, abilities: Abilities | None = None) -> None:
        self.abilities = abilities or Abilities(dedupe="native")
        self.locale: Locale = "en_US"
        self.tried: list[Outgoing] = []
        """Every try, in order."""
        self.messages: dict[str, Outgoing] = {}
        """The shown messages, by the channel's own id, in the order of arrival. An edit changes one in place."""
        self.closed = False
        self._keys: dict[str, str] = {}
        self._plan: deque[NotDelivered | DeliveryUnknown] = deque()
        self._open = asyncio.Event()
        self._open.set()

    def fail(self, *outcomes: NotDelivered | DeliveryUnknown) -> None:
        """The outcomes of the next tries. A message with an unknown outcome has arrived."""
        self._plan.extend(outcomes)

    def shut(self) -> None:
        """Sends wait until `lift`."""
        self._open.clear()

    def lift(self) -> None:
        self._open.set()

    @property
    def texts(self) -> list[str]:
        """The texts that a user would read there."""
        return [message.text for message in self.messages.values() if message.failed is None]

    @property
    def failures(self) -> list[str]:
        """The notices of failed runs."""
        return [message.failed for message in self.messages.values() if message.failed is not None]

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        self.tried.append(outgoing)
        await self._open.wait()
        planned = self._plan.popleft() if self._plan else None
        if isinstance(planned, NotDelivered):
            return planned
        arrived = Delivered(self._arrive(outgoing))
        return arrived if planned is None else planned

    def _arrive(self, outgoing: Outgoing) -> str:
        if outgoing.edit_of is not None:
            self.messages[outgoing.edit_of] = replace(self.messages[outgoing.edit_of], text=outgoing.text)
            return outgoing.edit_of
        if self.abilities.dedupe == "native" and outgoing.key in self._keys:
            return self._keys[outgoing.key]
        message = f"m{len(self.messages) + 1}"
        self.messages[message] = outgoing
        self._keys[outgoing.key] = message
        return message

    async def close(self) -> None:
        self.closed = True
