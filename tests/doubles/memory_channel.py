"""A channel without a network. It remembers arrivals, and can fail on demand."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from bollard.host.channels.channel import (
    Abilities,
    Acted,
    ActionOrder,
    ActOutcome,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
    SendOutcome,
)
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.platform_actions import PlatformAction
from bollard.host.texts import Locale


class MemoryChannel:
    """Takes everything. With native dedupe the same key again is the same message."""

    def __init__(self, abilities: Abilities | None = None, actions: tuple[PlatformAction, ...] = ()) -> None:
        self.abilities = abilities or Abilities(dedupe="native")
        self.actions = actions
        self.acted: list[ActionOrder] = []
        """Every action, in order."""
        self.reactions: set[tuple[str, str]] = set()
        """Message and reaction."""
        self.pinned: set[str] = set()
        self.friends: dict[str, bool] = {}
        """By request, whether it was accepted."""
        self.members: dict[str, dict[str, int]] = {}
        """By group, its members and for how many seconds each is muted."""
        self.names: dict[str, str] = {}
        """By group."""
        self.locale: Locale = "en_US"
        self.filter_out: ContentFilter | None = None
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

    async def act(self, order: ActionOrder) -> ActOutcome:
        self.acted.append(order)
        await self._open.wait()
        planned = self._plan.popleft() if self._plan else None
        if isinstance(planned, NotDelivered):
            return planned
        outcome = self._carry_out(order.action, order.arguments)
        return outcome if planned is None else planned

    def _carry_out(self, action: str, arguments: Mapping[str, Any]) -> ActOutcome:
        message, user = arguments.get("message"), arguments.get("user")
        members = self.members.setdefault(arguments.get("target", ""), {})
        if message is not None and message not in self.messages:
            return NotDelivered("there is no such message", retryable=False)
        if action in ("group.member.remove", "group.member.mute") and user not in members:
            return NotDelivered("there is no such member", retryable=False)
        return Acted(self._effects[action](arguments, members))

    @property
    def _effects(self) -> Mapping[str, Callable[[Mapping[str, Any], dict[str, int]], Any]]:
        """What each action does with its arguments and the members of its target."""

        def put(there: set[Any], it: Any, asked: Mapping[str, Any]) -> None:
            (there.discard if asked.get("remove") else there.add)(it)

        return {
            "message.recall": lambda asked, _: self.messages.__delitem__(asked["message"]),
            "message.react": lambda asked, _: put(self.reactions, (asked["message"], asked["reaction"]), asked),
            "message.pin": lambda asked, _: put(self.pinned, asked["message"], asked),
            "friend.request.accept": lambda asked, _: self.friends.update({asked["request"]: True}),
            "friend.request.reject": lambda asked, _: self.friends.update({asked["request"]: False}),
            "group.member.invite": lambda asked, members: members.update({asked["user"]: 0}),
            "group.member.remove": lambda asked, members: members.__delitem__(asked["user"]),
            "group.member.mute": lambda asked, members: members.update({asked["user"]: asked["seconds"]}),
            "group.rename": lambda asked, _: self.names.update({asked["target"]: asked["name"]}),
            "user.info": lambda asked, _: {
                "id": asked["user"],
                "groups": [name for name, there in self.members.items() if asked["user"] in there],
            },
            "conversation.members": lambda asked, members: {"members": sorted(members)[: asked.get("limit", 100)]},
        }

    async def close(self) -> None:
        self.closed = True
