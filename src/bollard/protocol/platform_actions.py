"""The platform actions of channels: their names and arguments, the same on every platform. Pure.

The host checks the arguments and the channel carries the action out; an agent describes the actions to its model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from bollard.protocol.shape import JsonObject

ID_CHARACTERS: Final = 256
"""An id of the platform."""
_NAME_CHARACTERS: Final = 256
_REACTION_CHARACTERS: Final = 64
_TEXT_CHARACTERS: Final = 1000
_MUTE_MAX_S: Final = 366 * 24 * 3600
_MEMBERS_MAX: Final = 500
ID: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": ID_CHARACTERS}
_FLAG: Final[JsonObject] = {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActionForm:
    """One action: what it does, and the schemas of its arguments."""

    description: str
    required: Mapping[str, JsonObject]
    """The arguments that a call must have."""
    optional: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])

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
_REPLY: Final = {"target": ID, "text": _text(_TEXT_CHARACTERS)}
MESSAGE_CHARACTERS: Final = 16_000
"""The longest message of an action. A channel may allow less."""

ACTION_FORMS: Final[Mapping[str, _ActionForm]] = MappingProxyType(
    {
        "message.send": _ActionForm(
            description="Send a message", required={"target": ID, "text": _text(MESSAGE_CHARACTERS)}
        ),
        "message.edit": _ActionForm(
            description="Give a message another text", required={**_MESSAGE, "text": _text(MESSAGE_CHARACTERS)}
        ),
        "message.recall": _ActionForm(description="Recall a message", required=_MESSAGE),
        "message.react": _ActionForm(
            description="Add a reaction to a message, or remove it",
            required={**_MESSAGE, "reaction": _text(_REACTION_CHARACTERS)},
            optional={"remove": _FLAG},
        ),
        "message.pin": _ActionForm(
            description="Pin a message, or unpin it", required=_MESSAGE, optional={"remove": _FLAG}
        ),
        "friend.request.accept": _ActionForm(
            description="Accept a friend request", required={"request": ID}, optional=_REPLY
        ),
        "friend.request.reject": _ActionForm(
            description="Reject a friend request", required={"request": ID}, optional=_REPLY
        ),
        "group.member.invite": _ActionForm(description="Invite a person to a group", required=_MEMBER),
        "group.member.remove": _ActionForm(description="Remove a person from a group", required=_MEMBER),
        "group.member.mute": _ActionForm(
            description="Mute a member of a group for some seconds; 0 ends it",
            required={**_MEMBER, "seconds": _count(0, _MUTE_MAX_S)},
        ),
        "group.rename": _ActionForm(
            description="Rename a group", required={"target": ID, "name": _text(_NAME_CHARACTERS)}
        ),
        "user.info": _ActionForm(description="Look up a person", required={"user": ID}, optional={"target": ID}),
        "conversation.members": _ActionForm(
            description="List the members of a conversation",
            required={"target": ID},
            optional={"limit": _count(1, _MEMBERS_MAX), "cursor": ID},
        ),
    }
)
