"""What the built-in tools need of the rest of the host. Tests have small ones."""

from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import Flow
from bollard.host.capabilities.sources import CallContext, Order
from bollard.host.egress.places import EgressRequest, EgressResponse
from bollard.protocol import JsonObject

__all__ = ["ArtifactPiece", "Fetcher", "Questions", "ToolArtifacts"]


class ArtifactPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an artifact, and what is known of all of it."""

    name: str | None
    mime_type: str
    size: int
    content: bytes
    flow: Flow
    """What its content brings along."""


class ToolArtifacts(Protocol):
    """Artifacts that a run may reach."""

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        """Raises `NotFound` for what is absent and for what is not the run's."""
        ...

    async def write(
        self, context: CallContext, *, call_id: str, name: str, mime_type: str, content: bytes
    ) -> JsonObject:
        """Keeps it as an artifact of the run; a reference to it."""
        ...


class Fetcher(Protocol):
    """The guarded way out."""

    async def fetch(self, request: EgressRequest) -> EgressResponse: ...


class Questions(Protocol):
    """A way to ask the person in the run's conversation."""

    async def ask(self, order: Order, question: str, choices: tuple[str, ...]) -> str:
        """What was answered. The run waits meanwhile. Raises `ApprovalExpired` when nobody answers in time."""
        ...
