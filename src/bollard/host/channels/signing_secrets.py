"""The signing secrets of one kind of saved resource, stored beside the log."""

import asyncio
import contextlib

from bollard.host.clock import Clock
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import Sealer, Unsealable, is_sealed
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store


class SigningSecrets:
    """Secrets by workspace and id. Each is sealed on disk and redacted from every text."""

    def __init__(self, kind: str, clock: Clock, sealer: Sealer | None, redactor: Redactor) -> None:
        """`kind` is the kind of the rows. Without a `sealer`, in memory, secrets are stored in plain text."""
        self._kind = kind
        self._clock = clock
        self._sealer = sealer
        self._redactor = redactor
        self._known: dict[tuple[str, str], str] = {}

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, self._kind):
            with contextlib.suppress(Unsealable):  # a resource without its secret does nothing until it gets a new one
                self.know(row.workspace, row.id, self._opened(row))

    def get(self, workspace: str, resource_id: str) -> str | None:
        return self._known.get((workspace, resource_id))

    def know(self, workspace: str, resource_id: str, secret: str) -> None:
        """Use a secret that is on disk."""
        self._known[workspace, resource_id] = secret
        self._redactor.add(workspace, secret)

    def forget(self, workspace: str, resource_id: str) -> None:
        self._known.pop((workspace, resource_id), None)

    def put(self, workspace: str, resource_id: str, secret: str) -> KeptChange:
        content = secret.encode()
        body = content if self._sealer is None else self._sealer.seal(self._place(workspace, resource_id), content)
        return PutKept(
            KeptRow(
                kind=self._kind,
                workspace=workspace,
                id=resource_id,
                body=body,
                expires_ms=None,
                updated_ms=self._clock.now_ms(),
            )
        )

    def drop(self, workspace: str, resource_id: str) -> KeptChange:
        return DropKept(self._kind, workspace, resource_id)

    def _opened(self, row: KeptRow) -> str:
        """Raises `Unsealable`. A secret that an earlier version stored in plain text is sealed when it changes."""
        if self._sealer is None or not is_sealed(row.body):
            return row.body.decode()
        return self._sealer.open(self._place(row.workspace, row.id), row.body).decode()

    def _place(self, workspace: str, resource_id: str) -> str:
        return f"{self._kind}/{workspace}/{resource_id}"
