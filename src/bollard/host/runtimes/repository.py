"""The runtimes of every workspace: enrolled by a one-time code, identified by their key, deleted when revoked.

Every refusal has the same message, so that a caller with half of the credentials does not learn which half is wrong.
"""

import re
from collections.abc import Callable
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest, Overloaded, Unauthenticated
from bollard.host.identity.entities import read
from bollard.host.limits import RUNTIMES_OF_WORKSPACE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.host.runtimes.enrolment import Consented, Enrolled, Invitation, Invitations
from bollard.host.store.store import Store
from bollard.protocol import JsonObject
from bollard.trust import BadSignature, enrol_proof
from bollard.trust.keys import VerifyKey

RUNTIME: Final = ResourceKind(
    kind="runtime", noun="runtime", listed_by="runtimes", limit=RUNTIMES_OF_WORKSPACE, full=Overloaded
)
_KEY: Final = re.compile(r"[0-9a-f]{64}")
Changed = Callable[[Saved[Enrolled] | None, Saved[Enrolled] | None], None]


def _no_listener(before: Saved[Enrolled] | None, after: Saved[Enrolled] | None) -> None:
    del before, after


class RuntimeRepository(Repository[Enrolled]):
    """The enrolled runtimes, and the open invitations."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        super().__init__(
            RUNTIME, SavedChanges(journal, clock), lambda body, _: read(Enrolled, body, "runtime"), Enrolled.to_wire
        )
        self._journal = journal
        self._clock = clock
        self._by_key: dict[str, Saved[Enrolled]] = {}
        self._watch: Changed = _no_listener
        self._invitations = Invitations(journal, clock)

    def watch(self, watch: Changed) -> None:
        """Called after the commit of each change."""
        self._watch = watch

    async def load(self, store: Store) -> None:
        await super().load(store)
        await self._invitations.load(store)

    def of_key(self, public_key: str) -> Saved[Enrolled] | None:
        return self._by_key.get(public_key)

    # --- coming ---

    async def invite(self, workspace: str, name: str, plugin: str | None, by: str) -> tuple[str, Invitation]:
        """A code that enrols one runtime of this name. Raises `Conflict`, `Overloaded`."""
        self._check_new(workspace, name)
        return await self._invitations.make(workspace, name, plugin, by)

    async def enrol(self, code: str, public_key: str, proof: str) -> Saved[Enrolled]:
        """Enrol a runtime that proves its key with an unused code. A repeat with the same key gets the same answer: the
        first one may have been lost."""
        if not _is_proved(code, public_key, proof):
            raise _refused()
        known = self.of_key(public_key)
        if known is not None:
            return known
        invitation = self._invitations.find(code)
        if invitation is None:
            raise _refused()

        def new(before: Saved[Enrolled] | None) -> Enrolled:
            del before
            if self._invitations.find(code) is None:  # another request was faster
                raise _refused()
            self._check_new(invitation.workspace, invitation.name)
            return Enrolled(
                name=invitation.name,
                public_key=public_key,
                plugin=invitation.plugin,
                enrolled_by=invitation.by,
                enrolled_ms=self._clock.now_ms(),
            )

        record: JsonObject = {"runtime": invitation.name, "public_key": public_key, "by": invitation.by}
        return await self._save(
            invitation.workspace,
            invitation.name,
            new,
            by=f"runtime:{invitation.name}",
            keeps=[Invitations.ended(invitation)],
            beside=[("runtime.enrolled", record)],
            then=lambda: self._invitations.forget(invitation),
        )

    def _check_new(self, workspace: str, name: str) -> None:
        if self.find(workspace, name) is not None:
            raise Conflict(
                f"there is a runtime {name} already",
                reason="runtime_exists",
                hint="revoke it first, or choose another name",
                runtime=name,
            )
        if self.count(workspace) >= RUNTIMES_OF_WORKSPACE:
            raise RUNTIME.at_limit()

    # --- changes and deletion ---

    async def consent(self, workspace: str, name: str, consented: Consented, by: str) -> Saved[Enrolled]:
        """Save the consent to the permissions of its plugin."""

        def changed(before: Saved[Enrolled] | None) -> Enrolled:
            return self._existing(before).value.model_copy(update={"consented": consented})

        record: JsonObject = {"runtime": name, **consented.to_wire()}
        return await self._save(workspace, name, changed, by=by, beside=[("runtime.consented", record)])

    async def switch(
        self, workspace: str, name: str, by: str, *, enabled: bool, revision: int | None = None
    ) -> Saved[Enrolled]:
        """Enable or disable a runtime."""

        def changed(before: Saved[Enrolled] | None) -> Enrolled:
            return self._existing(before).value.model_copy(update={"enabled": enabled})

        return await self._save(workspace, name, changed, by=by, edited=revision)

    async def revoke(self, workspace: str, name: str, by: str, revision: int | None = None) -> None:
        """Delete a runtime and its key. From the commit on, it is refused."""
        public_key = self.get(workspace, name).value.public_key
        record: JsonObject = {"runtime": name, "public_key": public_key, "by": by}
        await self._delete(workspace, name, by=by, edited=revision, beside=[("runtime.revoked", record)])

    async def note(self, saved: Saved[Enrolled], kind: str, details: JsonObject) -> None:
        """Record that it connected or disconnected. Raises `HostError`."""
        data = encode_data({"runtime": saved.value.name, **details})
        record = NewRecord(workspace=saved.workspace, type=kind, data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(data)))

    def changed(self, before: Saved[Enrolled] | None, after: Saved[Enrolled] | None) -> None:
        if before is not None:
            self._by_key.pop(before.value.public_key, None)
        if after is not None:
            self._by_key[after.value.public_key] = after
        self._watch(before, after)


def _is_proved(code: str, public_key: str, proof: str) -> bool:
    if _KEY.fullmatch(public_key) is None:
        raise InvalidRequest(
            "public_key is not 64 hex digits",
            reason="public_key_format",
            hint="send the 32 bytes of an Ed25519 public key",
            field="public_key",
        )
    try:
        key = VerifyKey(bytes.fromhex(public_key))
        key.verify(enrol_proof(code, key.public), bytes.fromhex(proof))
    except (BadSignature, ValueError):
        return False
    return True


def _refused() -> HostError:
    return Unauthenticated(
        "the enrolment code is invalid",
        reason="enrolment_code",
        hint="a code is valid once, for minutes: get another one with `bollard runtimes enroll NAME`",
    )
