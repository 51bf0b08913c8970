"""The own secrets of saved resources of one kind, such as the signing secrets of channels.

A secret is stored beside the log, sealed for its place, and hidden in everything that the host writes.
"""

import asyncio
import contextlib

from bollard.host.clock import Clock
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import Sealer, Unsealable, is_sealed
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store


class SealedSecrets:
    """One secret for each resource of a kind. A change returns the row for the commit of the resource."""

    def __init__(self, kind: str, clock: Clock, sealer: Sealer | None = None, redactor: Redactor | None = None) -> None:
        """`kind` is the kind of the rows. Without a `sealer`, in memory, secrets are stored in plain text."""
        self._kind = kind
        self._clock = clock
        self._sealer = sealer
        self._redactor = redactor or Redactor()
        self._known: dict[tuple[str, str], str] = {}

    async def load(self, store: Store) -> None:
        """Read every secret. One that cannot be opened is absent: its resource needs a new one."""
        for row in await asyncio.to_thread(store.all_kept, self._kind):
            with contextlib.suppress(Unsealable):
                self.learn(row.workspace, row.id, self._opened(row))

    def find(self, workspace: str, resource_id: str) -> str | None:
        return self._known.get((workspace, resource_id))

    def learn(self, workspace: str, resource_id: str, secret: str) -> None:
        """Hold a secret whose row is on disk."""
        self._known[workspace, resource_id] = secret
        self._redactor.add(workspace, secret)

    def forget(self, workspace: str, resource_id: str) -> None:
        self._known.pop((workspace, resource_id), None)

    def put(self, workspace: str, resource_id: str, secret: str) -> PutKept:
        """The row of a secret."""
        content = secret.encode()
        row = KeptRow(
            kind=self._kind,
            workspace=workspace,
            id=resource_id,
            body=content if self._sealer is None else self._sealer.seal(self._place(workspace, resource_id), content),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )
        return PutKept(row)

    def drop(self, workspace: str, resource_id: str) -> DropKept:
        return DropKept(self._kind, workspace, resource_id)

    def _opened(self, row: KeptRow) -> str:
        """Raises `Unsealable`. A secret that an earlier version stored in plain text is sealed when it changes."""
        if self._sealer is None or not is_sealed(row.body):
            return row.body.decode()
        return self._sealer.open(self._place(row.workspace, row.id), row.body).decode()

    def _place(self, workspace: str, resource_id: str) -> str:
        return f"{self._kind}/{workspace}/{resource_id}"
