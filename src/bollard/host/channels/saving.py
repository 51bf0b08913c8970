"""A channel as a person saves it, and as it is shown. Reading and writing only: who keeps it is not decided here.

A secret is shown as `KEPT`, and `KEPT` saved back means the secret that is there.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from bollard.host.agents.form_values import KEPT
from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.channels.boundary import Abilities
from bollard.host.channels.signing import new_secret, secret_bytes
from bollard.host.egress.places import Place
from bollard.host.errors import InvalidRequest
from bollard.protocol import Flag, Int, JsonObject, Number, Strict, limits
from bollard.wire.addresses import is_loopback

__all__ = ["ChannelConfig", "channel_from_store", "channel_from_wire", "channel_to_wire"]

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
    abilities: Abilities


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
        raise _wrong("channel_id", f"{saved.channel_id} is a name of the host's own", "choose another")
    secret = saved.secret
    if secret is None or secret == KEPT:
        secret = new_secret() if before is None or not before.secret else before.secret
    try:
        secret_bytes(secret)
    except ValueError as error:
        raise _wrong("secret", str(error), "leave it out, and one is made") from error
    if saved.url is not None:
        _check_url(saved.url)
    if saved.abilities.supports_streaming and not saved.abilities.supports_edit:
        raise _wrong(
            "abilities.supports_streaming", "needs supports_edit", "a message that is still written is shown by edits"
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
        abilities=Abilities(
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
        place = Place.of(url)
    except ValueError as error:
        raise _wrong("url", str(error), "use something like https://chat.example.org/hook") from error
    if place.scheme == "http" and not is_loopback(place.host):
        raise _wrong("url", "is plain http to another machine", "use https, or a program on this machine")


def _wrong(field: str, problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"channel.{field}: {problem}", hint=hint, field=f"channel.{field}")
