"""The enrolment of remote runtimes: stored values, signed challenges, and one-time codes."""

import asyncio
import hashlib
import hmac
import os
import secrets
from typing import Annotated, Final

import msgspec
from pydantic import Field

from bollard.host.agents.names import ChosenName
from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.limits import RUNTIME_CHALLENGE_S, RUNTIME_CODE_S, RUNTIME_CODES
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.plugins.description import Description, RequestedAccess, permission_names
from bollard.host.plugins.tool_definitions import claims_of, definition_digests
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import Digest, Flag, InitializeResult, Int, JsonObject, Strict
from bollard.trust import BadSignature, connect_proof
from bollard.trust.keys import VerifyKey
from bollard.wire import RunnerCatalogue, ToolCatalogue

VERSION_CHARACTERS: Final = 64
"""Stored characters of a version that a worker reports."""
PluginName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=129)]
"""`author/name`."""


class Consented(Strict):
    """A person's consent to the code of a runtime, by digest, and to its access."""

    plugin: str
    version: str
    digest: Digest
    asks: JsonObject
    definitions: dict[str, Digest] = Field(
        default_factory=dict, description="The digests of its tools' definitions. A tool without one is not used."
    )
    by: str
    at_ms: Int = Field(ge=0)

    @property
    def access(self) -> RequestedAccess:
        return RequestedAccess.from_wire(self.asks)

    def is_same(self, other: "Consented") -> bool:
        """Whether both consent to the same code and access."""
        return (self.digest, self.asks, self.definitions) == (other.digest, other.asks, other.definitions)


class Enrolled(Strict):
    """One enrolled runtime, with its public key. The private key never leaves its machine."""

    name: ChosenName
    public_key: Digest = Field(description="32 bytes, as hex.")
    plugin: PluginName | None = Field(default=None, description="The only plugin that the runtime may offer, if set.")
    enabled: Flag = True
    enrolled_by: str
    enrolled_ms: Int = Field(ge=0)
    consented: Consented | None = None


def described_by(introduced: InitializeResult, runners: RunnerCatalogue, tools: ToolCatalogue) -> Description:
    """The description of a remote plugin, from the declaration of its worker. It requests no environment variables: a
    remote worker does not see the host's environment."""
    identity = introduced.plugin
    access = RequestedAccess(
        runners=tuple(
            sorted((each.runner_name, permission_names(each.manifest.permissions)) for each in runners.runners)
        ),
        tools=tuple(sorted((each.name, claims_of(each.risk, each.flow)) for each in tools.tools)),
    )
    return Description(
        author=identity.author,
        name=identity.name,
        version=identity.version[:VERSION_CHARACTERS],
        label={"en_US": identity.name},
        description=None,
        access=access,
        definitions=tuple(sorted(definition_digests(tools.tools).items())),
    )


# --- challenges ---

_RANDOM_BYTES: Final = 16
_SEAL_CHARACTERS: Final = 32


class Challenges:
    """Issues and checks challenges: each is valid once, for a short time, at this host only.

    A challenge carries its expiry and a MAC, so an unauthenticated request stores nothing. Used challenges are
    remembered until they expire. A restart invalidates all challenges.
    """

    def __init__(self, host_id: str, clock: Clock, secret: bytes | None = None) -> None:
        self.host_id = host_id
        self._clock = clock
        self._secret = secret or os.urandom(32)
        self._used: dict[str, int] = {}
        """Used challenges and when they expire, oldest first."""

    def issue(self) -> tuple[str, int]:
        """A new challenge, and when it expires."""
        expires_ms = self._clock.now_ms() + round(RUNTIME_CHALLENGE_S * 1000)
        head = f"{expires_ms:x}.{os.urandom(_RANDOM_BYTES).hex()}"
        return f"{head}.{self._seal(head)}", expires_ms

    def answer(self, nonce: str, public_key: str, signature: str) -> bool:
        """Whether this key signed this challenge in time and for the first time. A valid answer uses it up."""
        now_ms = self._clock.now_ms()
        head, _, seal = nonce.rpartition(".")
        if not nonce.isascii() or not hmac.compare_digest(seal, self._seal(head)):
            return False
        expires_ms = int(head.partition(".")[0], 16)  # the MAC proves that the host wrote it
        if expires_ms <= now_ms or nonce in self._used or not self._is_signed(nonce, public_key, signature):
            return False
        self._forget(now_ms)
        self._used[nonce] = expires_ms
        return True

    def _is_signed(self, nonce: str, public_key: str, signature: str) -> bool:
        try:
            key = VerifyKey(bytes.fromhex(public_key))
            key.verify(connect_proof(self.host_id, nonce, key.public), bytes.fromhex(signature))
        except (BadSignature, ValueError):
            return False
        return True

    def _seal(self, head: str) -> str:
        return hmac.new(self._secret, head.encode(), hashlib.sha256).hexdigest()[:_SEAL_CHARACTERS]

    def _forget(self, now_ms: int) -> None:
        for nonce in [nonce for nonce, expires_ms in self._used.items() if expires_ms <= now_ms]:
            del self._used[nonce]


# --- one-time codes ---

KIND: Final = "runtime_code"
_CODE: Final = "blr_"
"""The prefix of a code, so that people and secret scanners recognize it."""


class _Body(msgspec.Struct, frozen=True):
    name: str
    plugin: str | None
    by: str


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """The enrolment that a code permits."""

    digest: str
    workspace: str
    name: str
    plugin: str | None
    by: str
    expires_ms: int


class Invitations:
    """One-time enrolment codes, valid for minutes and stored as digests. One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._open: dict[str, Invitation] = {}

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, KIND, None, self._clock.now_ms()):
            body = msgspec.json.decode(row.body, type=_Body)
            self._open[row.id] = Invitation(
                digest=row.id,
                workspace=row.workspace,
                name=body.name,
                plugin=body.plugin,
                by=body.by,
                expires_ms=row.expires_ms or 0,
            )

    async def make(self, workspace: str, name: str, plugin: str | None, by: str) -> tuple[str, Invitation]:
        """Create a code for this name; it replaces an earlier one. Raises `Overloaded`."""
        now_ms = self._clock.now_ms()
        self._sweep(now_ms)
        code = _CODE + secrets.token_urlsafe(24)
        invitation = Invitation(
            digest=_digest(code),
            workspace=workspace,
            name=name,
            plugin=plugin,
            by=by,
            expires_ms=now_ms + round(RUNTIME_CODE_S * 1000),
        )
        unused = [each for each in self._open.values() if each.workspace == workspace]
        replaced = [each for each in unused if each.name == name]
        if len(unused) - len(replaced) >= RUNTIME_CODES:
            raise Overloaded(
                f"the workspace has {RUNTIME_CODES} unused enrolment codes",
                reason="runtime_codes",
                hint="wait until some expire",
                limit=RUNTIME_CODES,
            )

        def apply(outcome: CommitResult | object) -> None:
            if isinstance(outcome, Committed):
                for each in replaced:
                    self._open.pop(each.digest, None)
                self._open[invitation.digest] = invitation

        row = KeptRow(
            kind=KIND,
            workspace=workspace,
            id=invitation.digest,
            body=msgspec.json.encode(_Body(name, plugin, by)),
            expires_ms=invitation.expires_ms,
            updated_ms=now_ms,
        )
        data = encode_data({"runtime": name, "plugin": plugin, "expires_ms": invitation.expires_ms, "by": by})
        record = NewRecord(workspace=workspace, type="runtime.invited", data=data, created_ms=now_ms)
        keeps = [PutKept(row), *(self.ended(each) for each in replaced)]
        await self._journal.commit(Entry(records=[record], keeps=keeps, size=len(data)), apply)
        return code, invitation

    def find(self, code: str) -> Invitation | None:
        """The invitation of an unused code that has not expired."""
        invitation = self._open.get(_digest(code))
        return invitation if invitation is not None and invitation.expires_ms > self._clock.now_ms() else None

    @staticmethod
    def ended(invitation: Invitation) -> DropKept:
        """The write that deletes an invitation."""
        return DropKept(KIND, invitation.workspace, invitation.digest)

    def forget(self, invitation: Invitation) -> None:
        """Drop an invitation that was used."""
        self._open.pop(invitation.digest, None)

    def _sweep(self, now_ms: int) -> None:
        for each in [each for each in self._open.values() if each.expires_ms <= now_ms]:
            self._open.pop(each.digest, None)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
