"""The secrets of every workspace: write-only, sealed on disk, handed out by name.

A value is handed out only after its record `secret.used` is on disk. The redactor knows every value from the moment it
is entered.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import structlog

from bollard.host.clock import Clock
from bollard.host.errors import (
    AuditUnavailable,
    Conflict,
    HostError,
    InvalidRequest,
    NotFound,
    Overloaded,
    StorageFull,
    caused_by,
)
from bollard.host.limits import AUDIT_S, SECRET_CHARACTERS, SECRET_LEAST_CHARACTERS, SECRETS_BYTES, SECRETS_OF_WORKSPACE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import JointChange, Repository, ResourceKind, Saved, SavedChanges
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.references import is_chosen
from bollard.host.secrets.sealing import SEALED_BYTES, Fingerprints, Sealer, Unsealable
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue

_log = structlog.get_logger("bollard.host.secrets")
_SECRET: Final = "secret"  # noqa: S105 -- the kind of row that holds one
_USE: Final = "secret_use"


SECRET: Final = ResourceKind(
    kind="secret", noun="secret", listed_by="secrets", limit=SECRETS_OF_WORKSPACE, full=Overloaded
)


class SecretNote(msgspec.Struct, frozen=True, kw_only=True):
    """The public data of a secret: everything except its value."""

    created_ms: int
    set_ms: int
    set_by: str

    def to_wire(self) -> JsonObject:
        return {"created_ms": self.created_ms, "set_ms": self.set_ms, "set_by": self.set_by}


class Vault(Repository[SecretNote]):
    """The secrets of every workspace. The log holds names and dates, the rows beside it the sealed values."""

    def __init__(self, *, journal: Journal, clock: Clock, sealer: Sealer, redactor: Redactor) -> None:
        super().__init__(SECRET, SavedChanges(journal, clock), _note, SecretNote.to_wire)
        self._journal = journal
        self._clock = clock
        self._sealer = sealer
        self._redactor = redactor
        self.fingerprints: Final = Fingerprints(journal, sealer, clock)
        self._sealed: dict[tuple[str, str], bytes] = {}
        self._unreadable: set[tuple[str, str]] = set()
        self._used_ms: dict[tuple[str, str], int] = {}

    async def load(self, store: Store) -> None:
        """Load the secrets. A secret that cannot be opened is listed as not readable and does not affect the others."""
        for row in await asyncio.to_thread(store.all_kept, _SECRET):
            self._sealed[row.workspace, row.id] = row.body
            try:
                value = self._sealer.open(_place(row.workspace, row.id), row.body).decode()
            except Unsealable as error:
                self._unreadable.add((row.workspace, row.id))
                _log.error("a secret cannot be read", workspace=row.workspace, named=row.id, problem=str(error))
            else:
                self._redactor.hold(row.workspace, value)
        for row in await asyncio.to_thread(store.all_kept, _USE):
            self._used_ms[row.workspace, row.id] = row.updated_ms
        await self.fingerprints.load(store)
        await super().load(store)

    # --- public data ---

    def last_used_ms(self, workspace: str, name: str) -> int | None:
        return self._used_ms.get((workspace, name))

    def is_readable(self, workspace: str, name: str) -> bool:
        """Whether the value can be handed out: false if it was sealed with a missing key."""
        return (workspace, name) in self._sealed and (workspace, name) not in self._unreadable

    # --- changing ---

    async def set(
        self, workspace: str, name: str, value: str, *, by: str, edited: int | None = None
    ) -> Saved[SecretNote]:
        """Save a value under a name, in place of an earlier one."""
        if not is_chosen(name):
            raise InvalidRequest(
                f"{name!r} is not a valid name for a secret",
                reason="secret_name",
                hint="use up to 64 letters, digits, dots, dashes and underscores",
                field="name",
                name=name,
            )
        check_value(value)
        return await self.keep_own(workspace, name, value, by=by, edited=edited)

    async def keep_own(
        self, workspace: str, name: str, value: str, *, by: str, edited: int | None = None
    ) -> Saved[SecretNote]:
        """The same for a secret that belongs to another resource, under a name that users cannot choose. The redactor
        knows each line of the value."""
        row = self._row(workspace, name, value)

        def make(before: Saved[SecretNote] | None) -> SecretNote:
            return self._noted(before, by)

        return await self._save(
            workspace, name, make, by=by, edited=edited, keeps=[PutKept(row)], then=lambda: self._keep(row)
        )

    async def delete(self, workspace: str, name: str, *, by: str, edited: int | None = None) -> None:
        """Delete a secret. Resources that refer to it stop working."""

        self.get(workspace, name)
        if not is_chosen(name):
            raise Conflict(
                f"the secret {name} belongs to another resource",
                reason="secret_owned",
                hint="change or delete the resource in its name",
                secret=name,
            )
        await self.drop_own(workspace, name, by=by, edited=edited)

    async def drop_own(self, workspace: str, name: str, *, by: str, edited: int | None = None) -> None:
        """The same for a secret that belongs to another resource. Raises `NotFound`."""
        await self._delete(
            workspace,
            name,
            by=by,
            edited=edited,
            keeps=_drops(workspace, name),
            then=lambda: self._forget(workspace, name),
        )

    def joining(self, workspace: str, name: str, value: str, by: str) -> JointChange:
        """The row of a secret that belongs to another resource, for the commit of that resource, which alone changes
        it."""
        check_value(value)
        row = self._row(workspace, name, value)
        note = self._noted(self.find(workspace, name), by)
        kept = JointChange(keeps=[PutKept(row)], settled=[lambda: self._keep(row)])
        return self._joining(workspace, name, note, by) + kept

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> JointChange:
        """The rows to delete with another resource."""
        going = {name for name in names if self.find(workspace, name) is not None}
        drops = [drop for name in sorted(going) for drop in _drops(workspace, name)]

        def settled() -> None:
            for name in going:
                self._forget(workspace, name)

        return self._leaving(workspace, lambda saved: saved.id in going, by) + JointChange(
            keeps=drops, settled=[settled]
        )

    def of_thing(self, workspace: str, kind: str, thing: str) -> list[str]:
        """The names of the secrets of one resource."""
        return [saved.id for saved in self.all(workspace) if saved.id.startswith(f"{kind}/{thing}/")]

    # --- handing out ---

    async def use(self, workspace: str, name: str, *, purpose: str, by: str) -> str:
        """The value, for one use. Raises `NotFound`, `Conflict` if it cannot be read, and `AuditUnavailable`."""
        return (await self.use_all(workspace, [name], purpose=purpose, by=by))[name]

    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]:
        """Several values for the same purpose. `purpose` names the use, such as `agent:polly`; `by` names the caller,
        such as a run."""
        values = {name: self._open(workspace, name) for name in dict.fromkeys(names)}
        now_ms = self._clock.now_ms()
        records: list[NewRecord] = []
        for name, value in values.items():
            record: JsonObject = {
                "name": name,
                "revision": self.get(workspace, name).revision,
                "purpose": purpose,
                "by": by,
                "fingerprint": await self.fingerprints.of(workspace, value),
            }
            records.append(
                NewRecord(workspace=workspace, type="secret.used", data=encode_data(record), created_ms=now_ms)
            )
        uses: list[KeptChange] = [PutKept(_use(workspace, name, now_ms)) for name in values]
        await self._write_down(Entry(records=records, keeps=uses, size=sum(len(each.data) for each in records)))
        for name in values:
            self._used_ms[workspace, name] = now_ms
        return values

    async def _write_down(self, entry: Entry) -> None:
        try:
            async with asyncio.timeout(AUDIT_S):
                await self._journal.commit(entry)
        except StorageFull:
            raise
        except (TimeoutError, HostError) as error:
            raise AuditUnavailable(
                "the use of a secret could not be recorded, so the secret was not handed out",
                reason="secret_use_unrecorded",
                hint="check the disk and the journal, then try again",
            ) from error

    def _open(self, workspace: str, name: str) -> str:
        if self.find(workspace, name) is None:
            raise NotFound(
                f"there is no secret {name}",
                reason="secret_missing",
                hint=f"`bollard secrets set {name}` sets it",
                secret=name,
            )
        try:
            return self._sealer.open(_place(workspace, name), self._sealed.get((workspace, name), b"")).decode()
        except Unsealable as error:
            raise Conflict(
                f"the secret {name} cannot be read: {error}",
                reason="secret_unreadable",
                secret=name,
                **caused_by(error),
                hint="bring back keys/secrets.key from a backup with keys, or set the secret again",
            ) from None

    def _noted(self, before: Saved[SecretNote] | None, by: str) -> SecretNote:
        now_ms = self._clock.now_ms()
        return SecretNote(created_ms=now_ms if before is None else before.value.created_ms, set_ms=now_ms, set_by=by)

    def _row(self, workspace: str, name: str, value: str) -> KeptRow:
        """The redactor knows the value from now on, even if it is never saved."""
        content = value.encode()
        others = sum(
            len(body) - SEALED_BYTES
            for (where, other), body in self._sealed.items()
            if where == workspace and other != name
        )
        if others + len(content) > SECRETS_BYTES:
            raise Overloaded(
                f"the secrets of the workspace would exceed {SECRETS_BYTES} bytes",
                reason="secrets_bytes",
                hint="delete some, or put long values into files that plugins read",
                limit=SECRETS_BYTES,
            )
        self._redactor.add(workspace, value)
        return KeptRow(
            kind=_SECRET,
            workspace=workspace,
            id=name,
            body=self._sealer.seal(_place(workspace, name), content),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

    def _keep(self, row: KeptRow) -> None:
        before = self._readable(row.workspace, row.id)
        self._sealed[row.workspace, row.id] = row.body
        self._unreadable.discard((row.workspace, row.id))
        if (value := self._readable(row.workspace, row.id)) is not None:
            self._redactor.hold(row.workspace, value)
        if before is not None:
            self._redactor.release(row.workspace, before)

    def _readable(self, workspace: str, name: str) -> str | None:
        if not self.is_readable(workspace, name):
            return None
        return self._sealer.open(_place(workspace, name), self._sealed[workspace, name]).decode()

    def _forget(self, workspace: str, name: str) -> None:
        if (before := self._readable(workspace, name)) is not None:
            self._redactor.release(workspace, before)
        self._sealed.pop((workspace, name), None)
        self._used_ms.pop((workspace, name), None)
        self._unreadable.discard((workspace, name))


def check_value(value: str) -> None:
    """Raises `InvalidRequest` for a value that cannot be stored."""
    if not value or len(value) > SECRET_CHARACTERS or "\0" in value:
        raise InvalidRequest(
            f"a secret has 1 to {SECRET_CHARACTERS} characters",
            reason="secret_length",
            hint="put a longer value into a file that the plugin reads",
            field="value",
            most=SECRET_CHARACTERS,
        )


def is_masked(value: str) -> bool:
    """Whether the redactor can search for the value."""
    return len(value) >= SECRET_LEAST_CHARACTERS


def _note(body: JsonObject, workspace: str) -> SecretNote:
    del workspace
    return SecretNote(
        created_ms=_number(body.get("created_ms")),
        set_ms=_number(body.get("set_ms")),
        set_by=str(body.get("set_by", "")),
    )


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _place(workspace: str, name: str) -> str:
    """The associated data of a sealed value, so that a moved row does not open."""
    return f"{_SECRET}/{workspace}/{name}"


def _use(workspace: str, name: str, now_ms: int) -> KeptRow:
    return KeptRow(kind=_USE, workspace=workspace, id=name, body=b"", expires_ms=None, updated_ms=now_ms)


def _drops(workspace: str, name: str) -> list[KeptChange]:
    return [DropKept(_SECRET, workspace, name), DropKept(_USE, workspace, name)]
