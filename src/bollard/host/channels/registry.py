"""The saved channels of every workspace, and their senders."""

from collections.abc import Callable
from typing import Final, Protocol

from bollard.host.agents.saved_proxy import Logins
from bollard.host.channels.channel import Channel, SavedChannel
from bollard.host.channels.http_channel import HttpChannel
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.limits import CHANNELS_OF_WORKSPACE
from bollard.host.log.saved_resources import ResourceKind, Saved, SavedChanges
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.sealing import Sealer
from bollard.host.secrets.secret_repository import SecretRepository
from bollard.host.store.rows import DropKept, KeptChange

CHANNEL: Final = ResourceKind(kind="channel", noun="channel", listed_by="channels", limit=CHANNELS_OF_WORKSPACE)

DEGRADED: Final = "channel_degraded"
"""The kind of row of a channel that fails, so that its recovery is recorded after a restart too."""


class Channels(Protocol):
    """Finds the channel of a delivery."""

    def sender(self, workspace: str, channel_id: str) -> Channel | None:
        """The sender of the channel; `None` if the channel does not exist, is disabled, or only receives events."""
        ...

    def is_off(self, workspace: str, channel_id: str) -> bool:
        """Whether the channel is disabled: its messages wait."""
        ...


class ChannelRepository(SecretRepository[SavedChannel]):
    """The saved channels. Messages that wait for a deleted one fail."""

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
        super().__init__(CHANNEL, changes, SealedSecrets("channel_secret", clock, sealer, redactor), SavedChannel.read)
        self._egress = egress or EgressClient()
        self._logins = logins
        self._is_open = is_open
        self._clock = clock
        self._live: dict[tuple[str, str], Channel] = {}
        self.revision = 0
        """Grows with every change."""
        self.forget: Callable[[str, str], None] = lambda _, __: None
        """Called with the workspace and the id of a deleted channel."""

    def named(self, channel_id: str) -> list[Saved[SavedChannel]]:
        """The channels of this name, in every open workspace. The signature of a request says which one is meant."""
        return [saved for saved in self.everywhere() if saved.id == channel_id and self._is_open(saved.workspace)]

    def check(self, value: SavedChannel) -> None:
        value.check_reach(value.url, self._egress)

    def deleted_beside(self, workspace: str, resource_id: str) -> list[KeptChange]:
        return [DropKept(DEGRADED, workspace, resource_id)]

    # --- sending ---

    def sender(self, workspace: str, channel_id: str) -> Channel | None:
        return self._live.get((workspace, channel_id)) if self._is_open(workspace) else None

    def file_source(self, workspace: str, channel_id: str) -> HttpChannel | None:
        """The channel that has files behind handles; `None` if it is gone or disabled."""
        channel = self.sender(workspace, channel_id)
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
            if after is None:
                self.forget(before.workspace, before.id)
        if after is not None and after.value.enabled and after.value.url is not None and after.value.secret:
            channel = HttpChannel(after.value, after.workspace, self._clock, self._egress, self._logins)
            self._live[after.workspace, after.id] = channel
