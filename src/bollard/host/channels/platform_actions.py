"""The platform actions that a channel can declare, beside the messages that every channel sends. Pure.

Each action is the same on every platform: a name, its arguments, its risk and its data flow. The program behind the
channel translates it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from bollard.host.capabilities.capability import Flow, Risk
from bollard.protocol import JsonObject
from bollard.protocol.platform_actions import ACTION_FORMS

PlatformAction = Literal[
    "message.recall",
    "message.react",
    "message.pin",
    "friend.request.accept",
    "friend.request.reject",
    "group.member.invite",
    "group.member.remove",
    "group.member.mute",
    "group.rename",
    "user.info",
    "conversation.members",
]
_SENDS: Final = Flow(reads_private=False, brings_untrusted=False, sends_out=True)
_READS: Final = Flow(reads_private=True, brings_untrusted=True, sends_out=False)


class ActionKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of action."""

    description: str
    risk: Risk
    required: Mapping[str, JsonObject]
    """The schemas of the arguments that a call must have."""
    optional: Mapping[str, JsonObject] = MappingProxyType({})
    reads: bool = False
    """Whether the action only reads."""

    @property
    def flow(self) -> Flow:
        return _READS if self.reads else _SENDS

    @property
    def input_schema(self) -> JsonObject:
        return {
            "type": "object",
            "properties": {**self.required, **self.optional},
            "required": [*self.required],
            "additionalProperties": False,
        }


_RISKS: Final[Mapping[PlatformAction, Risk]] = {
    "message.recall": "medium",
    "message.react": "low",
    "message.pin": "medium",
    "friend.request.accept": "high",
    "friend.request.reject": "medium",
    "group.member.invite": "high",
    "group.member.remove": "high",
    "group.member.mute": "high",
    "group.rename": "medium",
    "user.info": "low",
    "conversation.members": "low",
}
_READING: Final = ("user.info", "conversation.members")


def _kind(name: PlatformAction, risk: Risk) -> ActionKind:
    form = ACTION_FORMS[name]
    return ActionKind(
        description=form.description, risk=risk, required=form.required, optional=form.optional, reads=name in _READING
    )


PLATFORM_ACTIONS: Final[Mapping[PlatformAction, ActionKind]] = MappingProxyType(
    {name: _kind(name, risk) for name, risk in _RISKS.items()}
)
SHOWN_TEXTS: Final = ("text", "name", "reaction")
"""The arguments that people read."""
