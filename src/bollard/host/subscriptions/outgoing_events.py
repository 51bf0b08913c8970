"""The parts that bring events out of the log: to bindings, and to subscriptions."""

import asyncio

import msgspec

from bollard.host.agents.agent_repository import BindingRepository
from bollard.host.agents.routing import BindingRegistry
from bollard.host.clock import Clock
from bollard.host.feed.bound_events import BoundEvents
from bollard.host.feed.change_reader import ChangeReader
from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.event_stream import EventStreams
from bollard.host.feed.followers import Followers
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store
from bollard.host.subscriptions.subscription_repository import SubscriptionRepository
from bollard.host.subscriptions.webhooks import Webhooks


class OutgoingEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The subscriptions, their deliveries, and the followers of the log."""

    subscriptions: SubscriptionRepository
    webhooks: Webhooks
    streams: EventStreams
    changes: EventStreams
    followers: tuple[Followers, ...]

    async def load(self, store: Store) -> None:
        await self.subscriptions.load(store)

    async def run(self, recovered: asyncio.Event) -> None:
        """Raise and deliver events until cancelled. Starts when recovery has ended the interrupted runs."""
        await self.webhooks.load()
        await asyncio.gather(*(each.run(recovered) for each in self.followers))

    def refresh(self, workspace: str) -> None:
        """The workspace was closed."""
        for each in self.followers:
            each.refresh(workspace)

    def close_streams(self) -> None:
        """The host stops: readers resume later."""
        self.streams.close()
        self.changes.close()

    async def close(self) -> None:
        """What is left is read again at the next start."""
        for each in self.followers:
            await each.close()
        await self.webhooks.close()


def build_outgoing_events(
    bound: BoundEvents,
    webhooks: Webhooks,
    *,
    bindings: BindingRepository,
    routed: BindingRegistry,
    subscriptions: SubscriptionRepository,
    journal: Journal,
    store: Store,
    clock: Clock,
) -> OutgoingEvents:
    """Connect the repositories with the followers, before they are loaded."""
    of_bindings = Followers(bound, journal=journal, store=store, clock=clock)
    of_subscriptions = Followers(webhooks, journal=journal, store=store, clock=clock)
    bindings.beginning, routed.changed = of_bindings.beginning, of_bindings.refresh
    subscriptions.beginning, subscriptions.refresh = of_subscriptions.beginning, of_subscriptions.refresh
    subscriptions.forget = webhooks.forget
    return OutgoingEvents(
        subscriptions=subscriptions,
        webhooks=webhooks,
        streams=EventStreams(EventReader(store), journal),
        changes=EventStreams(ChangeReader(store), journal),
        followers=(of_bindings, of_subscriptions),
    )
