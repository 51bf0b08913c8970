"""The saved webhook routes of every workspace, with their rates and last requests."""

from collections.abc import Callable
from typing import Final

from bollard.host.agents.rates import Rates
from bollard.host.hooks.deliveries import HookDeliveries
from bollard.host.hooks.hook import Hook
from bollard.host.hooks.limits import HOOKS_OF_WORKSPACE
from bollard.host.log.saved_resources import ResourceKind, Saved, SavedChanges
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.secret_repository import SecretRepository

HOOK: Final = ResourceKind(kind="hook", noun="hook", listed_by="hooks", limit=HOOKS_OF_WORKSPACE)
HOOK_SECRET: Final = "hook_secret"  # noqa: S105 -- the kind of row that holds one
_BURST: Final = 6
"""The burst is one sixth of the requests per minute."""


class HookTraffic:
    """What the host remembers of the requests of one route."""

    def __init__(self, requests_per_minute: int, deliveries: HookDeliveries | None = None) -> None:
        self.rate: Rates[str] = Rates(requests_per_minute, max(1, requests_per_minute // _BURST))
        self.deliveries = deliveries or HookDeliveries()
        self.waits = 0
        """Requests that wait for the answer of a run."""


class HookRepository(SecretRepository[Hook]):
    """The saved routes."""

    def __init__(
        self, changes: SavedChanges, secrets: SealedSecrets, is_open: Callable[[str], bool] = lambda _: True
    ) -> None:
        """`is_open` says whether a workspace is open: a route of a closed workspace receives nothing."""
        super().__init__(HOOK, changes, secrets, Hook.read)
        self._is_open = is_open
        self._by_route: dict[str, dict[str, Saved[Hook]]] = {}
        self._traffic: dict[tuple[str, str], HookTraffic] = {}

    def named(self, route: str) -> list[Saved[Hook]]:
        """The open routes of this name, in every open workspace. The proof of a request says which one is meant."""
        found = self._by_route.get(route)
        if found is None:
            return []
        return [saved for saved in found.values() if saved.value.is_open and self._is_open(saved.workspace)]

    def traffic(self, saved: Saved[Hook]) -> HookTraffic:
        return self._traffic[saved.workspace, saved.id]

    def changed(self, before: Saved[Hook] | None, after: Saved[Hook] | None) -> None:
        if after is None:
            if before is not None:
                self._traffic.pop((before.workspace, before.id), None)
                self._by_route[before.id].pop(before.workspace)
                if not self._by_route[before.id]:
                    del self._by_route[before.id]
            return
        key = after.workspace, after.id
        self._by_route.setdefault(after.id, {})[after.workspace] = after
        known = self._traffic.get(key)
        self._traffic[key] = HookTraffic(after.value.requests_per_minute, None if known is None else known.deliveries)
