"""A saved channel, and the interface that sends its messages.

A `Channel` sends one message once. The outbox stores messages, orders them and retries them.
"""

from typing import Annotated, Final, Literal, Protocol

import msgspec
from pydantic import Field

from bollard.host.agents.commands import COMMANDS, ChatCommand
from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.gate import check_patterns
from bollard.host.channels.platform_actions import PLATFORM_ACTIONS, PlatformAction
from bollard.host.channels.rules import ChannelRules
from bollard.host.channels.signed_body import URL_CHARACTERS, SignedBody
from bollard.host.runs.event import ReplyRoute
from bollard.host.texts import Locale
from bollard.protocol import Flag, Int, JsonObject, JsonValue, Number, Strict, limits

_EDITS_PER_S_MAX: Final = 20.0
_RESERVED: Final = frozenset({"api", "key", "role", "run", "schedule", "user"})
"""Names that are no channel: an actor of a channel is `channel:id`, and must not imitate a caller of the workspace."""


_AGENTS: Final = 32
"""Agents that people may choose in one channel."""
_IDLE_MAX_S: Final = 366.0 * 24 * 3600


class Abilities(Strict):
    """The features of a channel. The defaults are the least."""

    dedupe: Literal["native", "none"] = Field(
        default="none", description="`native`: a message with a known key is the same message, so it can be sent again."
    )
    supports_streaming: Flag = Field(
        default=False, description="Show a message while it is written; needs `supports_edit`."
    )
    supports_edit: Flag = False
    supports_reaction: Flag = False
    supports_buttons: Flag = Field(
        default=False, description="Show approvals and choices with buttons; without, they are text."
    )
    supports_forms: Flag = Field(default=False, description="Show a question without choices as a form.")
    private_messages: Flag = Field(
        default=False, description="A message can be shown to some people only: approvals, to those who may decide."
    )
    max_message_size: Annotated[Int, Field(ge=16, le=limits.RESULT_BYTES)] | None = Field(
        default=None, description="Characters of one message."
    )
    edits_per_s: Annotated[Number, Field(gt=0, le=_EDITS_PER_S_MAX)] = Field(
        default=1.0, description="Edits of one message in a second."
    )


_NAMED: Final = {"supports_streaming", "supports_edit", "supports_reaction", "max_message_size"}
"""Abilities with a field of their own in the context of a run."""


def reply_route(channel_id: str, abilities: Abilities, target: str) -> ReplyRoute:
    """The way of an answer through a channel."""
    return ReplyRoute(
        channel=channel_id,
        target=target,
        supports_streaming=abilities.supports_streaming,
        supports_edit=abilities.supports_edit,
        supports_reaction=abilities.supports_reaction,
        max_message_size=abilities.max_message_size,
        platform_capabilities=abilities.model_dump(mode="json", exclude=_NAMED),
    )


class SavedChannel(SignedBody):
    """A channel. Without a secret it neither sends nor receives anything."""

    noun = "channel"
    channel_id: ChosenName
    kind: Literal["http"] = "http"
    enabled: Flag = True
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARACTERS)] | None = Field(
        default=None, description="Where messages go; without it the channel only receives events."
    )
    bot: ForeignId | None = Field(default=None, description="The bot of events that name none.")
    locale: Locale = Field(default="en_US", description="The language of the host's own texts in this channel.")
    abilities: Abilities = Field(default_factory=Abilities)
    actions: tuple[PlatformAction, ...] = Field(
        default=(), max_length=len(PLATFORM_ACTIONS), description="Platform actions that the program carries out."
    )
    rules: ChannelRules = Field(default_factory=ChannelRules)
    commands: tuple[ChatCommand, ...] = Field(default=COMMANDS, description="Chat commands that the host answers.")
    agents: tuple[ChosenName, ...] = Field(
        default=(), max_length=_AGENTS, description="Agents that people may choose with `/agent`."
    )
    idle_s: Annotated[Number, Field(ge=1, le=_IDLE_MAX_S)] | None = Field(
        default=None, description="A message after this time begins a new conversation."
    )

    def checked(self, before: "SavedChannel | None") -> "SavedChannel":
        """The channel of a request, with its secret: a new one, the one of the request, or the one that it had.
        Raises `InvalidRequest`."""
        if self.channel_id in _RESERVED:
            raise self._wrong("channel_reserved", "channel_id", f"{self.channel_id} is reserved", "choose another name")
        secret = self.checked_secret(before and before.secret)
        if self.url is not None:
            self.check_url(self.url)
        if self.proxy is not None and self.url is None:
            raise self._wrong(
                "channel_proxy_unused", "proxy", "the channel has no url, so nothing is sent", "set url, or omit proxy"
            )
        if self.abilities.supports_streaming and not self.abilities.supports_edit:
            raise self._wrong(
                "channel_streaming",
                "abilities.supports_streaming",
                "needs supports_edit",
                "the host shows an unfinished message by edits",
            )
        if self.actions and self.url is None:
            raise self._wrong(
                "channel_actions_unused",
                "actions",
                "the channel has no url, so nothing is sent",
                "set url, or omit actions",
            )
        check_patterns(self.rules)
        return self.with_secret(secret)


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One operation: a message, a part of a long message, a new text for a message that was sent, an interaction, or
    the outcome of one."""

    key: str
    """The idempotency key: the same for every try."""
    target: str
    text: str
    run_id: str
    event_id: str
    part: int = 0
    parts: int = 1
    edit_of: str | None = None
    """The id of the message that gets this text, as the channel gave it."""
    final: bool = True
    """Whether the text is complete; otherwise an edit follows."""
    failed: str | None = None
    """The failure code of a run that ended without a message. The text is empty: the channel has its own."""
    contents: tuple[JsonObject, ...] = ()
    """The elements of the message besides its text; its last part has them."""
    artifacts: tuple[str, ...] = ()
    """Ids of the artifacts among them."""
    operation: Literal["message", "interaction", "interaction_update"] = "message"
    card: JsonObject | None = None
    """The interaction with its buttons, or its outcome. The text says the same."""
    visible_to: tuple[str, ...] = ()
    """Ids of the actors who alone may see it; empty: everyone in the conversation."""


class Delivered(msgspec.Struct, frozen=True):
    """The message arrived. `message` is its id in the channel, if the channel has ids."""

    message: str | None = None


class NotDelivered(msgspec.Struct, frozen=True):
    """The message did not arrive."""

    reason: str
    retryable: bool
    retry_after_s: float | None = None
    gone: bool = False
    """Whether the receiver says that it wants no more messages."""


class DeliveryUnknown(msgspec.Struct, frozen=True):
    """The message was sent, but not confirmed."""

    reason: str


SendOutcome = Delivered | NotDelivered | DeliveryUnknown


class ActionOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One platform action."""

    key: str
    """The idempotency key."""
    action: str
    arguments: JsonObject
    run_id: str
    call_id: str


class Acted(msgspec.Struct, frozen=True):
    """The program carried the action out. `result` is its answer."""

    result: JsonValue = None


ActOutcome = Acted | NotDelivered | DeliveryUnknown


class Channel(Protocol):
    """Sends the messages of one channel, and its platform actions."""

    @property
    def abilities(self) -> Abilities: ...

    @property
    def locale(self) -> Locale: ...

    @property
    def filter_out(self) -> ContentFilter | None:
        """The filter of texts that leave. `screened` applies it."""
        ...

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        """Try once. A failure is an outcome, never an exception."""
        ...

    @property
    def actions(self) -> tuple[PlatformAction, ...]:
        """The actions that the channel declares."""
        ...

    async def act(self, order: ActionOrder) -> ActOutcome:
        """Try once. A failure is an outcome, never an exception."""
        ...

    async def close(self) -> None: ...
