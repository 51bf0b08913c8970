"""The saved subscriptions of every workspace."""

from collections.abc import Callable, Sequence
from typing import Final

from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.limits import SUBSCRIPTIONS_OF_WORKSPACE
from bollard.host.log.saved_resources import Beginning, ResourceKind, Saved, SavedChanges, begins_nothing
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.sealing import Sealer
from bollard.host.secrets.secret_repository import SecretRepository
from bollard.host.store.rows import DropKept, KeptChange
from bollard.host.subscriptions.delivery_rows import RECEIVER
from bollard.host.subscriptions.subscription import Subscription

SUBSCRIPTION: Final = ResourceKind(
    kind="subscription", noun="subscription", listed_by="subscriptions", limit=SUBSCRIPTIONS_OF_WORKSPACE
)


class SubscriptionRepository(SecretRepository[Subscription]):
    """The subscriptions. The undelivered events of a deleted one are dropped."""

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
        secrets = SealedSecrets("subscription_secret", clock, sealer, redactor)
        super().__init__(SUBSCRIPTION, changes, secrets, Subscription.read)
        self._egress = egress
        self.beginning: Beginning = begins_nothing
        """Returns the rows of the commit that first saves a subscription of a workspace."""
        self.refresh: Callable[[str], None] = lambda _: None
        """Called with the workspace whose subscriptions changed."""
        self.forget: Callable[[str, str], None] = lambda _, __: None
        """Called with the workspace and the id of a deleted subscription."""

    def enabled(self, workspace: str) -> list[Saved[Subscription]]:
        """The subscriptions that get events."""
        return [saved for saved in self.all(workspace) if saved.value.enabled and saved.value.secret]

    def check(self, value: Subscription) -> None:
        value.check_reach(value.url, self._egress)

    async def saved_beside(self, workspace: str) -> Sequence[KeptChange]:
        return await self.beginning(workspace)

    def deleted_beside(self, workspace: str, resource_id: str) -> list[KeptChange]:
        return [DropKept(RECEIVER, workspace, resource_id)]

    async def switch_off(self, workspace: str, subscription_id: str, problem: str) -> None:
        """The host disables a subscription whose receiver fails. Raises `NotFound` if it was deleted meanwhile."""

        def make(before: Saved[Subscription] | None) -> Subscription:
            return self._existing(before).value.switched_off(problem)

        await self._save(workspace, subscription_id, make, by="host")

    def changed(self, before: Saved[Subscription] | None, after: Saved[Subscription] | None) -> None:
        saved = after or before
        if saved is not None:
            self.refresh(saved.workspace)
        if after is None and before is not None:
            self.forget(before.workspace, before.id)
