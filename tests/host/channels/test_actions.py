"""Platform actions as capabilities of a channel without a network: what each does, and what each failure means."""

from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_channel import MemoryChannel
from tests.tables import for_each

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.channels.actions import ChannelActions
from bollard.host.channels.channel import Abilities, DeliveryUnknown, NotDelivered, Outgoing
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.platform_actions import PLATFORM_ACTIONS
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import OutcomeUnknown, ToolFailed
from bollard.host.log.saved_resources import SavedChanges

PLACE = {"target": "room-1"}
MESSAGE = {**PLACE, "message": "m1"}
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "message.recall": (MESSAGE, lambda chat: chat.messages == {}),
    "message.react": ({**MESSAGE, "reaction": "👍"}, lambda chat: chat.reactions == {("m1", "👍")}),
    "message.pin": (MESSAGE, lambda chat: chat.pinned == {"m1"}),
    "friend.request.accept": ({"request": "f1"}, lambda chat: chat.friends == {"f1": True}),
    "friend.request.reject": ({"request": "f1", "text": "no"}, lambda chat: chat.friends == {"f1": False}),
    "group.member.invite": ({**PLACE, "user": "bob"}, lambda chat: sorted(chat.members["room-1"]) == ["ann", "bob"]),
    "group.member.remove": ({**PLACE, "user": "ann"}, lambda chat: chat.members["room-1"] == {}),
    "group.member.mute": ({**PLACE, "user": "ann", "seconds": 60}, lambda chat: chat.members["room-1"] == {"ann": 60}),
    "group.rename": ({**PLACE, "name": "Desk"}, lambda chat: chat.names == {"room-1": "Desk"}),
    "user.info": ({"user": "ann"}, None),
    "conversation.members": (PLACE, None),
}
READS = {"user.info": {"id": "ann", "groups": ["room-1"]}, "conversation.members": {"members": ["ann"]}}


class Desk:
    """A channel `chat` that declares every action, and its capabilities."""

    def __init__(self, dedupe: Any = "none") -> None:
        clock = ManualClock()
        self.chat = MemoryChannel(Abilities(dedupe=dedupe, supports_edit=True), tuple(PLATFORM_ACTIONS))
        self.chat.messages["m1"] = Outgoing(key="k", target="room-1", text="hello", run_id="", event_id="")
        self.chat.members["room-1"] = {"ann": 0}
        book = ChannelRepository(SavedChanges(None, clock), clock)  # pyright: ignore[reportArgumentType]
        book.put("default", "chat", self.chat)
        self.actions = ChannelActions(book)

    def offered(self) -> dict[str, Capability]:
        return {each.name: each for each in self.actions.capabilities("default")}

    async def request(self, action: str, arguments: dict[str, Any]) -> CallResult:
        context = CallContext(run_id="run_1", workspace="default", agent_id="polly")
        capability = self.offered()[action]
        return await self.actions.invoke(
            CallOrder(call_id="call_1", capability=capability, arguments=arguments, context=context, timeout_s=30)
        )


def test_a_channel_offers_the_actions_that_it_declares() -> None:
    desk = Desk()
    assert {*desk.offered()} == {"message.send", "message.edit", *PLATFORM_ACTIONS}
    desk.chat.actions = ("message.pin",)
    desk.chat.abilities = Abilities()
    assert {*desk.offered()} == {"message.send", "message.pin"}


def test_the_risk_the_flow_and_the_repeatability_of_every_action() -> None:
    offered = Desk().offered()
    by_risk = {risk: sorted(n for n, each in offered.items() if each.risk == risk) for risk in ("low", "high")}
    assert by_risk["low"] == ["conversation.members", "message.react", "user.info"]
    assert by_risk["high"] == [
        *("friend.request.accept", "group.member.invite", "group.member.mute", "group.member.remove")
    ]
    for name, each in offered.items():
        reads = name in READS
        assert (each.flow.sends_out, each.flow.reads_private, each.flow.brings_untrusted) == (not reads, reads, reads)
        assert each.effects == ("none" if reads else "idempotent" if name == "message.edit" else "at_most_once"), name
    assert Desk("native").offered()["message.recall"].effects == "idempotent"


@for_each("action", [*PLATFORM_ACTIONS])
async def test_each_action_reaches_the_channel_once_with_its_key(action: Any) -> None:
    desk = Desk()
    arguments, done = CASES[action]
    result = await desk.request(action, arguments)
    assert result.structured == READS.get(action)
    (order,) = desk.chat.acted
    assert (order.key, order.action, order.arguments) == ("run_1.call_1", action, arguments)
    assert done is None or done(desk.chat)


@for_each("action", [*PLATFORM_ACTIONS])
async def test_a_lost_answer_is_unknown_unless_the_action_only_reads(action: Any) -> None:
    desk = Desk()
    desk.chat.fail(DeliveryUnknown("the connection broke"))
    with pytest.raises(ToolFailed if action in READS else OutcomeUnknown) as lost:
        await desk.request(action, CASES[action][0])
    assert lost.value.details["problem"] == "the connection broke"
    assert len(desk.chat.acted) == 1


async def test_a_refused_action_says_why() -> None:
    desk = Desk()
    with pytest.raises(ToolFailed) as refused:
        await desk.request("message.pin", {**PLACE, "message": "m9"})
    assert (refused.value.reason, refused.value.details["problem"]) == (
        *("channel_action_failed", "there is no such message"),
    )
    desk.chat.fail(NotDelivered("the receiver responded with status 500", retryable=True))
    with pytest.raises(ToolFailed):
        await desk.request("message.pin", MESSAGE)


async def test_the_content_filter_holds_for_the_texts_of_actions() -> None:
    desk = Desk()
    desk.chat.filter_out = ContentFilter(words=("rum",), outcome="block")
    for action, arguments in (
        ("group.rename", {**PLACE, "name": "the rum shop"}),
        ("friend.request.reject", {"request": "f1", "text": "bring rum"}),
        ("message.send", {**PLACE, "text": "rum"}),
    ):
        with pytest.raises(ToolFailed) as refused:
            await desk.request(action, arguments)
        assert refused.value.reason == "channel_filtered"
    assert (desk.chat.acted, desk.chat.tried) == ([], [])
    desk.chat.filter_out = ContentFilter(words=("rum",), outcome="mask")
    await desk.request("group.rename", {**PLACE, "name": "the rum shop"})
    assert desk.chat.names == {"room-1": "the *** shop"}
