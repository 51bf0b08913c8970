"""A runtime of another machine, as it is saved: whose key it is, and what its plugin was said yes to. Values only."""

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
"""What is kept of a version that a worker says."""
PluginName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=129)]
"""`author/name`."""


class Consented(Strict):
    """The code that somebody said yes to, by its digest, and what it may ask for."""

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
        """Whether both are a yes to the same."""
        mine, its = (self.digest, self.asks, self.definitions), (other.digest, other.asks, other.definitions)
        return mine == its


class Enrolled(Strict):
    """One runtime. Its private key never left its machine; this is the public half."""

    name: ChosenName
    public_key: Digest = Field(description="32 bytes, as hex.")
    plugin: PluginName | None = Field(default=None, description="The only plugin that it may bring, where one is said.")
    enabled: Flag = True
    enrolled_by: str
    enrolled_ms: Int = Field(ge=0)
    consented: Consented | None = None


def described_by(introduced: InitializeResult, runners: RunnerCatalogue, tools: ToolCatalogue) -> Description:
    """What a runtime's worker says of its plugin, as the files of an installed one would. The host's environment is
    not within its reach, so it asks for none of it."""
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


# Challenges for who says to be a runtime: each good once, for a short time, at this host only.
#
# A challenge carries its own time and a seal, so that nothing is kept for a stranger who only asks; what was signed
# and used is remembered until it has expired. A restart forgets the seal, and with it every challenge before.


_RANDOM_BYTES: Final = 16
_SEAL_CHARACTERS: Final = 32


class Challenges:
    """One per host."""

    def __init__(self, host_id: str, clock: Clock, secret: bytes | None = None) -> None:
        self.host_id = host_id
        self._clock = clock
        self._secret = secret or os.urandom(32)
        self._used: dict[str, int] = {}
        """With when each has expired; the oldest first."""

    def issue(self) -> tuple[str, int]:
        """A challenge, and when it expires."""
        expires_ms = self._clock.now_ms() + round(RUNTIME_CHALLENGE_S * 1000)
        head = f"{expires_ms:x}.{os.urandom(_RANDOM_BYTES).hex()}"
        return f"{head}.{self._seal(head)}", expires_ms

    def answer(self, nonce: str, public_key: str, signature: str) -> bool:
        """Whether this key signed this challenge, now and for the first time. Uses the challenge up."""
        now_ms = self._clock.now_ms()
        head, _, seal = nonce.rpartition(".")
        if not nonce.isascii() or not hmac.compare_digest(seal, self._seal(head)):
            return False
        expires_ms = int(head.partition(".")[0], 16)  # sealed, so it is ours
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


# One-time codes that enrol a runtime: shown once, good for minutes, kept as digests beside the log.


KIND: Final = "runtime_code"
_CODE: Final = "blr_"
"""How a code begins, so that people and scanners know what it is."""


class _Body(msgspec.Struct, frozen=True):
    name: str
    plugin: str | None
    by: str


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What a code stands for."""

    digest: str
    workspace: str
    name: str
    plugin: str | None
    by: str
    expires_ms: int


class Invitations:
    """One per host. In memory as they are on disk."""

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
        """A code for this name; one that was made before for it is good for nothing from here on."""
        now_ms = self._clock.now_ms()
        self._sweep(now_ms)
        code = _CODE + secrets.token_urlsafe(24)
        made = Invitation(
            digest=_digest(code),
            workspace=workspace,
            name=name,
            plugin=plugin,
            by=by,
            expires_ms=now_ms + round(RUNTIME_CODE_S * 1000),
        )
        here = [each for each in self._open.values() if each.workspace == workspace]
        before = [each for each in here if each.name == name]
        if len(here) - len(before) >= RUNTIME_CODES:
            raise Overloaded("too many codes wait to be used", hint="wait until some expire", limit=RUNTIME_CODES)

        def told(outcome: CommitResult | object) -> None:
            if isinstance(outcome, Committed):
                for each in before:
                    self._open.pop(each.digest, None)
                self._open[made.digest] = made

        row = KeptRow(
            kind=KIND,
            workspace=workspace,
            id=made.digest,
            body=msgspec.json.encode(_Body(name, plugin, by)),
            expires_ms=made.expires_ms,
            updated_ms=now_ms,
        )
        data = encode_data({"runtime": name, "plugin": plugin, "expires_ms": made.expires_ms, "by": by})
        record = NewRecord(workspace=workspace, type="runtime.invited", data=data, created_ms=now_ms)
        keeps = [PutKept(row), *(self.ended(each) for each in before)]
        await self._journal.commit(Entry(records=[record], keeps=keeps, size=len(data)), told)
        return code, made

    def find(self, code: str) -> Invitation | None:
        """What an unused code stands for."""
        found = self._open.get(_digest(code))
        return found if found is not None and found.expires_ms > self._clock.now_ms() else None

    @staticmethod
    def ended(invitation: Invitation) -> DropKept:
        """What takes it from the disk."""
        return DropKept(KIND, invitation.workspace, invitation.digest)

    def forget(self, invitation: Invitation) -> None:
        """It was used."""
        self._open.pop(invitation.digest, None)

    def _sweep(self, now_ms: int) -> None:
        for each in [each for each in self._open.values() if each.expires_ms <= now_ms]:
            self._open.pop(each.digest, None)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
