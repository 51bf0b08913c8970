"""Saved resources with an own secret each, such as the signing secret of a channel. The log has the resource, and a
sealed row of the same commit its secret."""

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.store.rows import KeptChange
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class HoldsSecret(Protocol):
    """A saved body whose secret is not in the log."""

    @property
    def secret(self) -> str | None: ...
    def stored(self) -> JsonObject: ...
    def with_secret(self, secret: str | None) -> Self: ...

    def checked(self, before: Self | None) -> Self:
        """The body of a request, with its secret: that of the request, the one before, or a new one. Raises
        `InvalidRequest`."""
        ...


S = TypeVar("S", bound=HoldsSecret)


class SecretRepository(Repository[S]):
    """The resources of one kind. The field `KIND_id` of a body has its id."""

    def __init__(
        self, kind: ResourceKind, changes: SavedChanges, secrets: SealedSecrets, read: Callable[[JsonObject], S]
    ) -> None:
        super().__init__(kind, changes, self._opened, lambda value: value.stored())
        self._read = read
        self._id_field = f"{kind.kind}_id"
        self._secrets = secrets

    async def load(self, store: Store) -> None:
        await self._secrets.load(store)
        await super().load(store)

    async def save(
        self, body: JsonObject, workspace: str, resource_id: str, *, by: str, edited: int | None
    ) -> tuple[Saved[S], str | None]:
        """Save a resource. Also returns the secret, if it is new."""
        new_secret: str | None = None
        has_secret = True

        def make(before: Saved[S] | None) -> S:
            nonlocal new_secret, has_secret
            known = None if before is None else before.value
            value = self._read({**body, self._id_field: resource_id}).checked(known)
            self.check(value)
            new_secret = None if known is not None and value.secret == known.secret else value.secret
            has_secret = value.secret is not None
            return value

        beside = await self.saved_beside(workspace)

        def keeps() -> list[KeptChange]:
            if new_secret is not None:
                return [self._secrets.put(workspace, resource_id, new_secret), *beside]
            # A resource that needs no secret any more must not find its old one after a restart.
            return [*beside] if has_secret else [self._secrets.drop(workspace, resource_id), *beside]

        saved = await self._save(workspace, resource_id, make, by=by, edited=edited, keeps=keeps)
        if saved.value.secret is not None:
            self._secrets.learn(workspace, resource_id, saved.value.secret)
        else:
            self._secrets.forget(workspace, resource_id)
        return saved, new_secret

    async def delete(self, workspace: str, resource_id: str, /, *, by: str, edited: int | None = None) -> None:
        drops = [self._secrets.drop(workspace, resource_id), *self.deleted_beside(workspace, resource_id)]
        await self._delete(workspace, resource_id, by=by, edited=edited, keeps=drops)
        self._secrets.forget(workspace, resource_id)

    # --- what a kind adds ---

    def check(self, value: S) -> None:
        """Raises `HostError` for a resource that this host cannot have."""

    async def saved_beside(self, workspace: str) -> Sequence[KeptChange]:
        """More rows of the commit that saves a resource."""
        del workspace
        return ()

    def deleted_beside(self, workspace: str, resource_id: str) -> Sequence[KeptChange]:
        """More rows of the commit that deletes a resource."""
        del workspace, resource_id
        return ()

    def _opened(self, body: JsonObject, workspace: str) -> S:
        return self._read(body).with_secret(self._secrets.find(workspace, str(body[self._id_field])))
