"""The ports of the executor."""

from typing import Protocol

from bollard.host.approvals.approval import Permission, Proposal
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import Adapter
from bollard.host.errors import ApprovalDenied
from bollard.host.grants.session import RunSession
from bollard.host.log.records import DeliverTo
from bollard.protocol import JsonObject, JsonValue


class Ledger(Protocol):
    """The records of one run's calls, and the state of the run."""

    @property
    def live(self) -> bool:
        """Whether the run is live; false for a detached call."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether this process has recorded all calls of the run."""
        ...

    @property
    def flow(self) -> Flow:
        """The data flow of the run so far."""
        ...

    def touch(self, flow: Flow) -> None:
        """Add to the flow. It never shrinks."""
        ...

    @property
    def answers(self) -> DeliverTo | None:
        """The delivery target of the run's answers. A message there does not send data out."""
        ...

    @property
    def left_s(self) -> float:
        """The remaining time of the run."""
        ...

    def check(self, capability: Capability) -> None:
        """Raises if the call is no longer allowed: after a revocation, a cancellation or the end of the run."""
        ...

    async def write(self, kind: str, data: JsonObject) -> None:
        """Write a record; it is on disk on return. Raises `AuditUnavailable` if that takes too long, and `NotFound` if
        the run accepts no records."""
        ...

    def note(self, kind: str, data: JsonObject) -> None:
        """Write a record without waiting."""
        ...


class Adapters(Protocol):
    """The adapters of the capabilities that are offered now."""

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None: ...

    def stands(self, workspace: str, granted: Capability) -> bool:
        """Whether the capability is offered with the granted definition."""
        ...


class Approver(Protocol):
    """Requests approvals."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """Wait for the decision. Raises `ApprovalDenied`, `ApprovalExpired` or `ApprovalRequired`."""
        ...


class Redactor(Protocol):
    """Removes secrets from recorded and displayed values."""

    def value(self, workspace: str, value: JsonValue) -> JsonValue: ...

    def text(self, workspace: str, text: str) -> str: ...


class Artifacts(Protocol):
    """Stores outputs that are too large for a result."""

    async def keep(
        self, session: RunSession, ledger: Ledger, content: bytes, *, mime_type: str, name: str
    ) -> JsonObject | None:
        """Store an artifact and return its `ArtifactRef`; nothing if the host accepts no artifacts of this type."""
        ...


class NoApprover:
    """Denies every call: the host has no approvals."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        del session
        raise ApprovalDenied(
            f"{proposal.name} needs approval, and this host has no approvers",
            reason="no_approvers_on_host",
            hint="name the approvers in the agent's policy",
            tool=proposal.name,
        )


class NoSecrets:
    """The redactor of a host without secrets."""

    def value(self, workspace: str, value: JsonValue) -> JsonValue:
        del workspace
        return value

    def text(self, workspace: str, text: str) -> str:
        del workspace
        return text
