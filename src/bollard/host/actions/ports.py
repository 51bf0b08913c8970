"""What the executor is connected to, as it sees it. Each has a real implementation elsewhere and one for tests."""

from typing import Protocol

from bollard.host.approvals.approval import Permission, Proposal
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import Adapter
from bollard.host.errors import ApprovalDenied
from bollard.host.grants.session import RunSession
from bollard.host.log.records import DeliverTo
from bollard.protocol import JsonObject, JsonValue


class Ledger(Protocol):
    """Where the calls of one run are written, and what is known of the run besides its session."""

    @property
    def live(self) -> bool:
        """Whether there is a run; not so where a call is made that was allowed after its run had ended."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether no call of this run can have been written before this process began."""
        ...

    @property
    def flow(self) -> Flow:
        """What the run has touched so far."""
        ...

    def touch(self, flow: Flow) -> None:
        """It only grows."""
        ...

    @property
    def answers(self) -> DeliverTo | None:
        """Where the run's answers go: to speak there is no way out."""
        ...

    @property
    def left_s(self) -> float:
        """Time that the run has left."""
        ...

    def check(self, capability: Capability) -> None:
        """Raises what forbids it now, though the grant allowed it: a revocation, the end of the run."""
        ...

    async def write(self, kind: str, data: JsonObject) -> None:
        """A record that is on disk when this returns. Raises `AuditUnavailable` when it is not there in time, and
        `NotFound` when the run takes none any more."""
        ...

    def note(self, kind: str, data: JsonObject) -> None:
        """A record that nobody waits for."""
        ...


class Adapters(Protocol):
    """Who carries out what, now."""

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None: ...

    def stands(self, workspace: str, granted: Capability) -> bool:
        """Whether it is still offered as it was defined when it was granted."""
        ...


class Approver(Protocol):
    """Asks people."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """Waits for the answer. Raises `ApprovalDenied`, `ApprovalExpired` or `ApprovalRequired`."""
        ...


class Redactor(Protocol):
    """Takes secrets out of what is written or shown."""

    def value(self, workspace: str, value: JsonValue) -> JsonValue: ...

    def text(self, workspace: str, text: str) -> str: ...


class Artifacts(Protocol):
    """Keeps what is too large to be an answer."""

    async def keep(
        self, session: RunSession, ledger: Ledger, content: bytes, *, mime_type: str, name: str
    ) -> JsonObject | None:
        """A reference to it, as `ArtifactRef` of the protocol; nothing where artifacts of this type are not taken."""
        ...


class NoApprover:
    """Where nobody can be asked, the answer is no."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        del session
        raise ApprovalDenied(
            f"{proposal.name} needs a yes and nobody can be asked on this host",
            hint="let the agent's policy name who may approve",
        )


class NoSecrets:
    """Where there are none."""

    def value(self, workspace: str, value: JsonValue) -> JsonValue:
        del workspace
        return value

    def text(self, workspace: str, text: str) -> str:
        del workspace
        return text
