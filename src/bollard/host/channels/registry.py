"""The saved channels of every workspace, and their senders."""

import contextlib
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from bollard.host.agents.saved_proxy import Logins, OwnProxy
from bollard.host.channels.channel import Abilities, Channel, Delivered, Outgoing, SavedChannel, SendOutcome
from bollard.host.channels.filtered_channel import FilteredChannel
from bollard.host.channels.signed_post import SignedPost
from bollard.host.channels.signing import secret_bytes
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import EgressResponse
from bollard.host.limits import CHANNELS_OF_WORKSPACE, LAZY_FILE_BYTES
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.sealing import Sealer
from bollard.host.store.rows import KeptChange
from bollard.host.store.store import Store
from bollard.host.texts import Locale
from bollard.protocol import JsonObject

_CARD_TYPES: Final = {"interaction": "interaction.requested", "interaction_update": "interaction.updated"}
_ID_CHARACTERS: Final = 256


class HttpChannel:
    """One saved channel of kind `http` that has a URL."""

    def __init__(
        self, config: SavedChannel, workspace: str, clock: Clock, egress: EgressClient, logins: Logins | None = None
    ) -> None:
        """`logins` has the login of the channel's proxy."""
        self._config = config
        self._workspace = workspace
        proxy = OwnProxy(config, logins, workspace, f"channel:{config.channel_id}")
        key = secret_bytes(config.secret or "")
        self._post = SignedPost(config.url or "", key, clock=clock, egress=egress, proxy=proxy)

    @property
    def abilities(self) -> Abilities:
        return self._config.abilities

    @property
    def locale(self) -> Locale:
        return self._config.locale

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        reply = await self._post.send(outgoing.key, self._body(outgoing))
        return Delivered(_message_of(reply)) if isinstance(reply, EgressResponse) else reply

    async def fetch(self, handle: str, file_id: str) -> EgressResponse:
        """Request a file that the program behind the channel has. Raises `HostError`."""
        return await self._post.fetch(handle, file_id, LAZY_FILE_BYTES)

    def _body(self, outgoing: Outgoing) -> JsonObject:
        body: JsonObject = {
            "type": "message.sent" if outgoing.edit_of is None else "message.edited",
            "channel": self._config.channel_id,
            "workspace": self._workspace,
            "target": outgoing.target,
            "text": outgoing.text,
            "part": outgoing.part,
            "parts": outgoing.parts,
            "final": outgoing.final,
            "run_id": outgoing.run_id,
            "event_id": outgoing.event_id,
        }
        if outgoing.failed is not None:
            body |= {"type": "run.failed", "code": outgoing.failed}
        if outgoing.edit_of is not None:
            body["message"] = outgoing.edit_of
        if outgoing.contents:
            body["contents"] = [*outgoing.contents]
        if outgoing.artifacts:
            body["artifacts"] = [*outgoing.artifacts]
        if outgoing.visible_to:
            body["visible_to"] = [*outgoing.visible_to]
        if outgoing.card is not None:
            body |= {"type": _CARD_TYPES[outgoing.operation], "interaction": outgoing.card}
        return body

    async def close(self) -> None:
        """A no-op: no connection stays open between messages."""


class _ResponseBody(msgspec.Struct):
    """The optional body of a response."""

    message: str | None = None


def _message_of(reply: EgressResponse) -> str | None:
    """The receiver's id of the message, if the response has one: `{"message": "…"}`."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        message = msgspec.json.decode(reply.body, type=_ResponseBody).message
        if message is not None and 0 < len(message) <= _ID_CHARACTERS:
            return message
    return None


CHANNEL: Final = ResourceKind(kind="channel", noun="channel", listed_by="channels", limit=CHANNELS_OF_WORKSPACE)


class Channels(Protocol):
    """Finds the channel of a delivery."""

    def sender(self, workspace: str, channel_id: str) -> Channel | None:
        """The sender of the channel; `None` if the channel does not exist, is disabled, or only receives events."""
        ...

    def is_off(self, workspace: str, channel_id: str) -> bool:
        """Whether the channel is disabled: its messages wait."""
        ...


class ChannelRepository(Repository[SavedChannel]):
    """The saved channels. Their secrets are stored beside the log."""

    def __init__(
        self,
        changes: SavedChanges,
        clock: Clock,
        is_open: Callable[[str], bool] = lambda _: True,
        *,
        sealer: Sealer | None = None,
        redactor: Redactor | None = None,
        egress: EgressClient | None = None,
        logins: Logins | None = None,
    ) -> None:
        """`is_open` says whether a workspace is open: a channel of a closed workspace receives and sends nothing.
        Without a `sealer`, in memory, secrets are stored in plain text."""
        super().__init__(CHANNEL, changes, self._read_channel, SavedChannel.stored)
        self._secrets = SealedSecrets("channel_secret", clock, sealer, redactor)
        self._egress = egress or EgressClient()
        self._logins = logins
        self._is_open = is_open
        self._clock = clock
        self._live: dict[tuple[str, str], Channel] = {}
        self.revision = 0
        """Grows with every change."""

    async def load(self, store: Store) -> None:
        await self._secrets.load(store)
        await super().load(store)

    def named(self, channel_id: str) -> list[Saved[SavedChannel]]:
        """The channels of this name, in every open workspace. The signature of a request says which one is meant."""
        return [saved for saved in self.everywhere() if saved.id == channel_id and self._is_open(saved.workspace)]

    async def save(
        self, body: JsonObject, workspace: str, channel_id: str, *, by: str, edited: int | None
    ) -> tuple[Saved[SavedChannel], str | None]:
        """Save a channel. Also returns the secret, if it is new."""
        new_secret: str | None = None

        def make(before: Saved[SavedChannel] | None) -> SavedChannel:
            nonlocal new_secret
            known = None if before is None else before.value
            config = SavedChannel.read({**body, "channel_id": channel_id}).checked(known)
            config.check_reach(config.url, self._egress)
            new_secret = None if known is not None and config.secret == known.secret else config.secret
            return config

        def keeps() -> list[KeptChange]:
            return [] if new_secret is None else [self._secrets.put(workspace, channel_id, new_secret)]

        saved = await self._save(workspace, channel_id, make, by=by, edited=edited, keeps=keeps)
        if saved.value.secret is not None:
            self._secrets.learn(workspace, channel_id, saved.value.secret)
        return saved, new_secret

    async def delete(self, workspace: str, channel_id: str, *, by: str, edited: int | None = None) -> None:
        """Delete a channel. Messages that wait for it fail."""
        drop = self._secrets.drop(workspace, channel_id)
        await self._delete(workspace, channel_id, by=by, edited=edited, keeps=[drop])
        self._secrets.forget(workspace, channel_id)

    # --- sending ---

    def sender(self, workspace: str, channel_id: str) -> Channel | None:
        return self._live.get((workspace, channel_id)) if self._is_open(workspace) else None

    def file_source(self, workspace: str, channel_id: str) -> HttpChannel | None:
        """The channel that has files behind handles; `None` if it is gone or disabled."""
        channel = self.sender(workspace, channel_id)
        channel = channel.channel if isinstance(channel, FilteredChannel) else channel
        return channel if isinstance(channel, HttpChannel) else None

    def is_off(self, workspace: str, channel_id: str) -> bool:
        saved = self.find(workspace, channel_id)
        return saved is not None and not saved.value.enabled

    def put(self, workspace: str, channel_id: str, channel: Channel) -> None:
        """Add a channel that is not saved: a part of the host provides it."""
        self._live[workspace, channel_id] = channel
        self.revision += 1

    def ids(self, workspace: str) -> list[str]:
        """The ids of every channel, also of those that are not saved."""
        own = [channel_id for there, channel_id in self._live if there == workspace]
        return sorted({*own, *(saved.id for saved in self.all(workspace))})

    def changed(self, before: Saved[SavedChannel] | None, after: Saved[SavedChannel] | None) -> None:
        self.revision += 1
        if before is not None:
            self._live.pop((before.workspace, before.id), None)
        if after is not None and after.value.enabled and after.value.url is not None and after.value.secret:
            channel = HttpChannel(after.value, after.workspace, self._clock, self._egress, self._logins)
            rule = after.value.rules.filter_out
            self._live[after.workspace, after.id] = (
                channel if rule is None else FilteredChannel(channel, rule, after.value.locale)
            )

    def _read_channel(self, body: JsonObject, workspace: str) -> SavedChannel:
        config = SavedChannel.read(body)
        return config.with_secret(self._secrets.find(workspace, config.channel_id))
