"""The saved subscriptions of every workspace."""

from collections.abc import Callable
from typing import Final

from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.limits import SUBSCRIPTIONS_OF_WORKSPACE
from bollard.host.log.saved_resources import Beginning, Repository, ResourceKind, Saved, SavedChanges, begins_nothing
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.sealing import Sealer
from bollard.host.store.rows import DropKept, KeptChange
from bollard.host.store.store import Store
from bollard.host.subscriptions.delivery_rows import RECEIVER
from bollard.host.subscriptions.subscription import Subscription
from bollard.protocol import JsonObject

SUBSCRIPTION: Final = ResourceKind(
    kind="subscription", noun="subscription", listed_by="subscriptions", limit=SUBSCRIPTIONS_OF_WORKSPACE
)


class SubscriptionRepository(Repository[Subscription]):
    """The subscriptions. Their secrets are stored beside the log."""

    def __init__(
        self,
        changes: SavedChanges,
        clock: Clock,
        *,
        egress: EgressClient,
        sealer: Sealer | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Without a `sealer`, in memory, secrets are stored in plain text."""
        super().__init__(SUBSCRIPTION, changes, self._read, Subscription.stored)
        self._secrets = SealedSecrets("subscription_secret", clock, sealer, redactor)
        self._egress = egress
        self.beginning: Beginning = begins_nothing
        """Returns the rows of the commit that first saves a subscription of a workspace."""
        self.refresh: Callable[[str], None] = lambda _: None
        """Called with the workspace whose subscriptions changed."""
        self.forget: Callable[[str, str], None] = lambda _, __: None
        """Called with the workspace and the id of a deleted subscription."""

    async def load(self, store: Store) -> None:
        await self._secrets.load(store)
        await super().load(store)

    def enabled(self, workspace: str) -> list[Saved[Subscription]]:
        """The subscriptions that get events."""
        return [saved for saved in self.all(workspace) if saved.value.enabled and saved.value.secret]

    async def save(
        self, body: JsonObject, workspace: str, subscription_id: str, *, by: str, edited: int | None
    ) -> tuple[Saved[Subscription], str | None]:
        """Save a subscription. Also returns the secret, if it is new."""
        new_secret: str | None = None

        def make(before: Saved[Subscription] | None) -> Subscription:
            nonlocal new_secret
            known = None if before is None else before.value
            wanted = Subscription.read({**body, "subscription_id": subscription_id}).checked(known)
            wanted.check_reach(wanted.url, self._egress)
            new_secret = None if known is not None and wanted.secret == known.secret else wanted.secret
            return wanted

        beginning = await self.beginning(workspace)

        def keeps() -> list[KeptChange]:
            kept = [] if new_secret is None else [self._secrets.put(workspace, subscription_id, new_secret)]
            return [*kept, *beginning]

        saved = await self._save(workspace, subscription_id, make, by=by, edited=edited, keeps=keeps)
        if saved.value.secret is not None:
            self._secrets.learn(workspace, subscription_id, saved.value.secret)
        return saved, new_secret

    async def switch_off(self, workspace: str, subscription_id: str, problem: str) -> None:
        """The host disables a subscription whose receiver fails. Raises `NotFound` if it was deleted meanwhile."""

        def make(before: Saved[Subscription] | None) -> Subscription:
            return self._existing(before).value.switched_off(problem)

        await self._save(workspace, subscription_id, make, by="host")

    async def delete(self, workspace: str, resource_id: str, /, *, by: str, edited: int | None = None) -> None:
        """Delete a subscription. Its undelivered events are dropped."""
        drops = [self._secrets.drop(workspace, resource_id), DropKept(RECEIVER, workspace, resource_id)]
        await self._delete(workspace, resource_id, by=by, edited=edited, keeps=drops)
        self._secrets.forget(workspace, resource_id)

    def changed(self, before: Saved[Subscription] | None, after: Saved[Subscription] | None) -> None:
        saved = after or before
        if saved is not None:
            self.refresh(saved.workspace)
        if after is None and before is not None:
            self.forget(before.workspace, before.id)

    def _read(self, body: JsonObject, workspace: str) -> Subscription:
        found = Subscription.read(body)
        return found.with_secret(self._secrets.find(workspace, found.subscription_id))
