"""Where capabilities come from and who carries them out. A source knows nothing of policy, an adapter nothing of it
either: what reaches an adapter was decided."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.protocol import JsonObject, JsonValue

__all__ = ["Adapter", "CallContext", "Order", "Progress", "Returned", "Source"]


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """For whom something is done."""

    run_id: str
    workspace: str
    agent_id: str
    actor_type: str | None = None
    actor_id: str | None = None
    conversation: str | None = None
    thread: str | None = None
    locale: str | None = None
    traceparent: str | None = None


Progress = Callable[[float, float | None, str | None], None]
"""How far a call is: done, of how much, in words."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was resolved, checked, allowed and written down."""

    call_id: str
    capability: Capability
    arguments: JsonObject
    context: CallContext
    timeout_s: float
    progress: Progress | None = None


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Content elements are those of the protocol (§4)."""

    content: tuple[JsonObject, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    artifact_refs: tuple[JsonObject, ...] = ()
    flow: Flow = NO_FLOW
    """What the data brought along beside the capability's own bits."""


class Adapter(Protocol):
    """Carries out calls of one kind. A task that is cancelled stops what it does, for real."""

    async def invoke(self, order: Order) -> Returned:
        """Raises `HostError` when it could not be done at all: `ToolFailed` when it surely had no effect,
        `OutcomeUnknown` when nobody can say."""
        ...


class Source(Protocol):
    """Offers capabilities to workspaces."""

    @property
    def adapter(self) -> Adapter: ...

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        """What it offers now: only what is connected and consented to."""
        ...

    def absent(self, workspace: str) -> Mapping[str, str]:
        """What it would offer and cannot now: the capability's id, or a prefix ending in `/`, and why, in a
        sentence."""
        ...

    @property
    def revision(self) -> int:
        """Grows whenever what it offers changes, so that what was made of it can be kept."""
        ...
