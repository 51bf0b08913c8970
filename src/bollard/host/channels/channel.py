"""What a channel can do, what it is given to send, and what became of that.

A channel sends; it keeps nothing, decides no order and tries nothing twice. All of that is the outbox's.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Protocol

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.config_form import KEPT
from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.channels.signing import new_secret, secret_bytes
from bollard.host.egress.destination import Destination
from bollard.host.errors import InvalidRequest
from bollard.protocol import Flag, Int, JsonObject, Number, Strict, limits
from bollard.wire.addresses import is_loopback


class ChannelAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel promises of itself. The least, unless it says more."""

    dedupe: Literal["native", "none"] = "none"
    """`native`: the same key again is the same message, so that what is in doubt may be sent again. `none`: it may not,
    and stays unknown."""
    supports_streaming: bool = False
    """Whether a message may be shown while it is written; needs `supports_edit`."""
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None
    """Characters of one message."""
    edits_per_s: float = 1.0
    """Edits that one message may have in a second."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One message, or one part of a long one, or a new text for one that is there."""

    key: str
    """The same for every try."""
    target: str
    text: str
    run_id: str
    event_id: str
    part: int = 0
    parts: int = 1
    edit_of: str | None = None
    """The channel's own id of the message that gets this text."""
    final: bool = True
    """Whether the text is whole; if not, it will be edited."""
    failed: str | None = None
    """Why the run ended without a further word, as a failure code. Then there is no text: the channel has its own."""
    artifacts: tuple[str, ...] = ()
    """Ids of artifacts that belong to the message; they come with its last part."""


class Delivered(msgspec.Struct, frozen=True):
    """It is there. `message` is the channel's own id of it, where it has one."""

    message: str | None = None


class NotDelivered(msgspec.Struct, frozen=True):
    """It is not there, and the channel knows."""

    reason: str
    retryable: bool
    retry_after_s: float | None = None


class DeliveryUnknown(msgspec.Struct, frozen=True):
    """It left, and no answer came: it may be there or not."""

    reason: str


SendOutcome = Delivered | NotDelivered | DeliveryUnknown


class Channel(Protocol):
    """One place to send to."""

    @property
    def abilities(self) -> ChannelAbilities: ...

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        """Try once. What goes wrong is an outcome, never an exception."""
        ...

    async def close(self) -> None: ...


# A channel as a person saves it, and as it is shown. Reading and writing only: who keeps it is not decided here.
#
# A secret is shown as `KEPT`, and `KEPT` saved back means the secret that is there.


_URL_CHARACTERS: Final = 2048
_EDITS_PER_S_MAX: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """One saved channel."""

    channel_id: str
    kind: Literal["http"] = "http"
    enabled: bool = True
    url: str | None = None
    """Where messages go; without it the channel only brings events."""
    secret: str = field(repr=False)
    """Signs what goes out, and checks what comes in. Without one nothing can do either."""
    bot: str | None = None
    """The bot that its events are for, where they do not say."""
    abilities: ChannelAbilities


class _Abilities(Strict):
    dedupe: Literal["native", "none"] = "none"
    supports_streaming: Flag = False
    supports_edit: Flag = False
    supports_reaction: Flag = False
    max_message_size: Annotated[Int, Field(ge=16, le=limits.RESULT_BYTES)] | None = None
    edits_per_s: Annotated[Number, Field(gt=0, le=_EDITS_PER_S_MAX)] = 1.0


_OWN: Final = frozenset({"api", "key", "role", "run", "user"})
"""Whoever speaks through a channel is `channel:id`, and must not pass for somebody of the workspace."""


class SavedChannel(Strict):
    """`PUT /api/v1/channels/{id}`."""

    channel_id: ChosenName
    kind: Literal["http"] = "http"
    enabled: Flag = True
    url: Annotated[str, Field(min_length=1, max_length=_URL_CHARACTERS)] | None = None
    secret: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    bot: ForeignId | None = None
    abilities: _Abilities = Field(default_factory=_Abilities)
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


def channel_from_wire(body: JsonObject, before: ChannelConfig | None) -> ChannelConfig:
    """The channel that a person saves. Without a secret it gets one, or keeps the one that it had."""
    saved = _read(body)
    if saved.channel_id in _OWN:
        raise _wrong("channel_reserved", "channel_id", f"{saved.channel_id} is reserved", "choose another name")
    secret = saved.secret
    if secret is None or secret == KEPT:
        secret = new_secret() if before is None or not before.secret else before.secret
    try:
        secret_bytes(secret)
    except ValueError as error:
        raise _wrong("channel_secret", "secret", str(error), "leave it out: the host makes one") from error
    if saved.url is not None:
        _check_url(saved.url)
    if saved.abilities.supports_streaming and not saved.abilities.supports_edit:
        raise _wrong(
            "channel_streaming",
            "abilities.supports_streaming",
            "needs supports_edit",
            "the host shows an unfinished message by edits",
        )
    return _config(saved, secret)


def channel_from_store(body: JsonObject, secret: str) -> ChannelConfig:
    """A channel that was saved before. Its secret is kept elsewhere: it must not be in the log."""
    return _config(_read(body), secret)


def channel_to_wire(channel: ChannelConfig) -> JsonObject:
    """What `channel_from_wire` takes."""
    able = channel.abilities
    abilities: JsonObject = {
        "dedupe": able.dedupe,
        "supports_streaming": able.supports_streaming,
        "supports_edit": able.supports_edit,
        "supports_reaction": able.supports_reaction,
        "edits_per_s": able.edits_per_s,
    }
    if able.max_message_size is not None:
        abilities["max_message_size"] = able.max_message_size
    body: JsonObject = {
        "channel_id": channel.channel_id,
        "kind": channel.kind,
        "enabled": channel.enabled,
        "secret": KEPT,
        "abilities": abilities,
    }
    named = {"url": channel.url, "bot": channel.bot}
    return body | {name: value for name, value in named.items() if value is not None}


def _read(body: JsonObject) -> SavedChannel:
    try:
        return SavedChannel.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "channel") from error


def _config(saved: SavedChannel, secret: str) -> ChannelConfig:
    able = saved.abilities
    return ChannelConfig(
        channel_id=saved.channel_id,
        kind=saved.kind,
        enabled=saved.enabled,
        url=saved.url,
        secret=secret,
        bot=saved.bot,
        abilities=ChannelAbilities(
            dedupe=able.dedupe,
            supports_streaming=able.supports_streaming,
            supports_edit=able.supports_edit,
            supports_reaction=able.supports_reaction,
            max_message_size=able.max_message_size,
            edits_per_s=able.edits_per_s,
        ),
    )


def _check_url(url: str) -> None:
    try:
        place = Destination.of(url)
    except ValueError as error:
        raise _wrong("channel_url", "url", str(error), "use something like https://chat.example.org/hook") from error
    if place.scheme == "http" and not is_loopback(place.host):
        raise _wrong(
            "channel_url_plain", "url", "is plain http to another machine", "use https, or a program on this machine"
        )


def _wrong(reason: str, field: str, problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(
        f"channel.{field}: {problem}", reason=reason, hint=hint, field=f"channel.{field}", problem=problem
    )
