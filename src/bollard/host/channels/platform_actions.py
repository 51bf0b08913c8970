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
ID_CHARACTERS: Final = 256
"""An id of the platform."""
_NAME_CHARACTERS: Final = 256
_REACTION_CHARACTERS: Final = 64
_TEXT_CHARACTERS: Final = 1000
_MUTE_MAX_S: Final = 366 * 24 * 3600
_MEMBERS_MAX: Final = 500
ID: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": ID_CHARACTERS}
_FLAG: Final[JsonObject] = {"type": "boolean"}
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


def _text(characters: int) -> JsonObject:
    return {"type": "string", "minLength": 1, "maxLength": characters}


def _count(least: int, most: int) -> JsonObject:
    return {"type": "integer", "minimum": least, "maximum": most}


_MESSAGE: Final = {"target": ID, "message": ID}
_MEMBER: Final = {"target": ID, "user": ID}

PLATFORM_ACTIONS: Final[Mapping[PlatformAction, ActionKind]] = MappingProxyType(
    {
        "message.recall": ActionKind(description="Recall a message", risk="medium", required=_MESSAGE),
        "message.react": ActionKind(
            description="Add a reaction to a message, or remove it",
            risk="low",
            required={**_MESSAGE, "reaction": _text(_REACTION_CHARACTERS)},
            optional={"remove": _FLAG},
        ),
        "message.pin": ActionKind(
            description="Pin a message, or unpin it", risk="medium", required=_MESSAGE, optional={"remove": _FLAG}
        ),
        "friend.request.accept": ActionKind(
            description="Accept a friend request",
            risk="high",
            required={"request": ID},
            optional={"target": ID, "text": _text(_TEXT_CHARACTERS)},
        ),
        "friend.request.reject": ActionKind(
            description="Reject a friend request",
            risk="medium",
            required={"request": ID},
            optional={"target": ID, "text": _text(_TEXT_CHARACTERS)},
        ),
        "group.member.invite": ActionKind(description="Invite a person to a group", risk="high", required=_MEMBER),
        "group.member.remove": ActionKind(description="Remove a person from a group", risk="high", required=_MEMBER),
        "group.member.mute": ActionKind(
            description="Mute a member of a group for some seconds; 0 ends it",
            risk="high",
            required={**_MEMBER, "seconds": _count(0, _MUTE_MAX_S)},
        ),
        "group.rename": ActionKind(
            description="Rename a group", risk="medium", required={"target": ID, "name": _text(_NAME_CHARACTERS)}
        ),
        "user.info": ActionKind(
            description="Look up a person", risk="low", required={"user": ID}, optional={"target": ID}, reads=True
        ),
        "conversation.members": ActionKind(
            description="List the members of a conversation",
            risk="low",
            required={"target": ID},
            optional={"limit": _count(1, _MEMBERS_MAX), "cursor": ID},
            reads=True,
        ),
    }
)
SHOWN_TEXTS: Final = ("text", "name", "reaction")
"""The arguments that people read."""
