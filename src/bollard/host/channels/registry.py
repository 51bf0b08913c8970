"""The channels that people saved, of every workspace, and what sends through each of them."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from bollard.host.channels.channel import Channel, ChannelConfig, channel_from_store, channel_from_wire, channel_to_wire
from bollard.host.channels.http_channel import HttpChannel
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import Destination
from bollard.host.errors import Conflict, EgressDenied, InvalidRequest, NotFound
from bollard.host.limits import CHANNELS_OF_WORKSPACE
from bollard.host.log.saved_resources import Saved, SavedChanges, SavedResources
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import Sealer, Unsealable, is_sealed
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_SECRET: Final = "channel_secret"  # noqa: S105 -- the kind of row that holds one


class Channels(Protocol):
    """Where a delivery finds its channel."""

    def find(self, workspace: str, channel_id: str) -> Channel | None:
        """What sends there; nothing where there is no such channel, or it is switched off, or it only brings events."""
        ...

    def is_off(self, workspace: str, channel_id: str) -> bool:
        """Whether it is there and switched off: what is meant for it can wait."""
        ...


class ChannelRepository:
    """One per host. Changes are made one after the other."""

    def __init__(
        self,
        changes: SavedChanges,
        store: Store,
        clock: Clock,
        is_open: Callable[[str], bool] = lambda _: True,
        *,
        sealer: Sealer | None = None,
        redactor: Redactor | None = None,
        egress: EgressClient | None = None,
    ) -> None:
        """`is_open` says whether a workspace is there: a channel of one that was closed brings and takes nothing.
        Without a `sealer`, in memory, secrets are kept as they are."""
        self._sealer = sealer
        self._redactor = redactor or Redactor()
        self._egress = egress or EgressClient()
        self._is_open = is_open
        self._store = store
        self._clock = clock
        self._secrets: dict[tuple[str, str], str] = {}
        self._live: dict[tuple[str, str], Channel] = {}
        self.changes = 0
        """Grows whenever a channel comes, changes or goes."""
        self._changing = asyncio.Lock()
        self._shelf: SavedResources[ChannelConfig] = SavedResources(
            "channel", changes=changes, read=self._read, write=_written, watch=self._changed
        )

    async def load(self) -> None:
        """What is on disk."""
        for row in await asyncio.to_thread(self._store.all_kept, _SECRET):
            with contextlib.suppress(Unsealable):  # without its secret a channel does nothing until it gets a new one
                self._know(row.workspace, row.id, self._opened(row))
        await self._shelf.load(self._store)

    def get(self, workspace: str, channel_id: str) -> Saved[ChannelConfig]:
        """Raises `NotFound`."""
        saved = self._shelf.get(workspace, channel_id)
        if saved is None:
            raise NotFound("there is no such channel", hint="`bollard channels` lists them")
        return saved

    def has(self, workspace: str, channel_id: str) -> bool:
        return self._shelf.get(workspace, channel_id) is not None

    def all(self, workspace: str) -> list[Saved[ChannelConfig]]:
        return self._shelf.all(workspace)

    def named(self, channel_id: str) -> list[Saved[ChannelConfig]]:
        """The channels of this name, one for each workspace that has it: whose a request is, its signature says."""
        return [
            saved for saved in self._shelf.everywhere() if saved.id == channel_id and self._is_open(saved.workspace)
        ]

    async def save(
        self, body: JsonObject, workspace: str, channel_id: str, *, by: str, edited: int | None
    ) -> tuple[Saved[ChannelConfig], str | None]:
        """Take a channel, or a new version of one; and its secret, where it is a new one."""
        async with self._changing:
            before = self._shelf.get(workspace, channel_id)
            known = None if before is None else before.thing
            if before is None and self._shelf.count(workspace) >= CHANNELS_OF_WORKSPACE:
                raise Conflict(
                    f"the workspace has {CHANNELS_OF_WORKSPACE} channels already", hint="delete one that is not used"
                )
            config = channel_from_wire({**body, "channel_id": channel_id}, known)
            self._check_reach(config)
            is_new = known is None or config.secret != known.secret
            kept = KeptRow(
                kind=_SECRET,
                workspace=workspace,
                id=channel_id,
                body=self._sealed(workspace, channel_id, config.secret),
                expires_ms=None,
                updated_ms=self._clock.now_ms(),
            )
            saved = await self._shelf.save(
                workspace, channel_id, lambda _: config, by=by, edited=edited, keeps=[PutKept(kept)] if is_new else ()
            )
            self._know(workspace, channel_id, config.secret)
            return saved, config.secret if is_new else None

    async def delete(self, workspace: str, channel_id: str, *, by: str, edited: int | None) -> None:
        """Forget a channel. What waits for it will have failed."""

        def check(before: Saved[ChannelConfig] | None) -> None:
            if before is None:
                raise NotFound("there is no such channel", hint="`bollard channels` lists them")

        async with self._changing:
            drop = DropKept(_SECRET, workspace, channel_id)
            await self._shelf.delete(workspace, channel_id, check, by=by, edited=edited, keeps=[drop])
            self._secrets.pop((workspace, channel_id), None)

    def _check_reach(self, config: ChannelConfig) -> None:
        """A place that can never be reached is told at once; a name is judged when something is sent."""
        if config.url is None:
            return
        try:
            self._egress.check_host(Destination.of(config.url))
        except EgressDenied as error:
            raise InvalidRequest(f"channel.url: {error.message}", hint=error.hint, field="channel.url") from error

    def _know(self, workspace: str, channel_id: str, secret: str) -> None:
        self._secrets[workspace, channel_id] = secret
        self._redactor.add(workspace, secret)

    def _sealed(self, workspace: str, channel_id: str, secret: str) -> bytes:
        content = secret.encode()
        return content if self._sealer is None else self._sealer.seal(_place(workspace, channel_id), content)

    def _opened(self, row: KeptRow) -> str:
        """Raises `Unsealable`. What an earlier version kept in plain is sealed when the channel gets a new secret."""
        if self._sealer is None or not is_sealed(row.body):
            return row.body.decode()
        return self._sealer.open(_place(row.workspace, row.id), row.body).decode()

    # --- sending ---

    def find(self, workspace: str, channel_id: str) -> Channel | None:
        return self._live.get((workspace, channel_id)) if self._is_open(workspace) else None

    def is_off(self, workspace: str, channel_id: str) -> bool:
        saved = self._shelf.get(workspace, channel_id)
        return saved is not None and not saved.thing.enabled

    def put(self, workspace: str, channel_id: str, channel: Channel) -> None:
        """A channel that no person saved: one of the host's own parts brings it."""
        self._live[workspace, channel_id] = channel
        self.changes += 1

    def ids(self, workspace: str) -> list[str]:
        """Of every channel, also those that were not saved by people."""
        own = [channel_id for there, channel_id in self._live if there == workspace]
        return sorted({*own, *(saved.id for saved in self._shelf.all(workspace))})

    def _changed(self, before: Saved[ChannelConfig] | None, after: Saved[ChannelConfig] | None) -> None:
        self.changes += 1
        if before is not None:
            self._live.pop((before.workspace, before.id), None)
        if after is not None and after.thing.enabled and after.thing.url is not None and after.thing.secret:
            self._live[after.workspace, after.id] = HttpChannel(after.thing, after.workspace, self._clock, self._egress)

    def _read(self, body: JsonObject, workspace: str) -> ChannelConfig:
        config = channel_from_store(body, "")
        return replace(config, secret=self._secrets.get((workspace, config.channel_id), ""))


def _place(workspace: str, channel_id: str) -> str:
    return f"{_SECRET}/{workspace}/{channel_id}"


def _written(config: ChannelConfig) -> JsonObject:
    """As the log has it: without the secret."""
    return {name: value for name, value in channel_to_wire(config).items() if name != "secret"}
