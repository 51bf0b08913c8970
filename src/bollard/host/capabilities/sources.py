"""Sources of capabilities and adapters that make their calls. Neither knows policies: a call that reaches an adapter is
allowed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.host.reason import Why, why
from bollard.host.scope import Actor
from bollard.protocol import JsonObject, JsonValue


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """The run, agent and actor of a call."""

    run_id: str
    workspace: str
    agent_id: str
    actor: Actor | None = None
    conversation: str | None = None
    thread: str | None = None
    locale: str | None = None
    traceparent: str | None = None


Progress = Callable[[float, float | None, str | None], None]
"""Reports the progress of a call: done, total, message."""


class CallOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is resolved, validated, allowed and recorded."""

    call_id: str
    capability: Capability
    arguments: JsonObject
    context: CallContext
    timeout_s: float
    progress: Progress | None = None


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call. Content elements are those of the protocol (§4)."""

    content: tuple[JsonObject, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    artifact_refs: tuple[JsonObject, ...] = ()
    flow: Flow = NO_FLOW
    """The flow of the returned data, in addition to the capability's."""


class Adapter(Protocol):
    """Makes calls of one kind. Cancelling the task stops the call itself."""

    async def invoke(self, order: CallOrder) -> CallResult:
        """Make a call. Raises `HostError`: `ToolFailed` if it certainly had no effect, `OutcomeUnknown` if that is not
        known."""
        ...


class CapabilitySource(Protocol):
    """Offers capabilities to workspaces."""

    @property
    def adapter(self) -> Adapter: ...

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        """The capabilities that are connected and consented to now."""
        ...

    def absent(self, workspace: str) -> Mapping[str, Why]:
        """Capabilities that cannot be offered now: the id, or a prefix ending in `/`, and the reason."""
        ...

    @property
    def revision(self) -> int:
        """Grows with each change of the offered capabilities, so that callers can cache."""
        ...


class _Snapshot(msgspec.Struct, frozen=True):
    """The capabilities of one workspace at one revision."""

    revision: int
    offered: Mapping[str, tuple[Capability, CapabilitySource]]
    absent: Mapping[str, Why]


class Sources:
    """All sources of the host as one, cached by workspace until one of them changes. An offer grants nothing."""

    def __init__(self, sources: Iterable[CapabilitySource] = ()) -> None:
        self._sources: list[CapabilitySource] = [*sources]
        self._snapshots: dict[str, _Snapshot] = {}

    def add(self, source: CapabilitySource) -> None:
        self._sources.append(source)

    @property
    def revision(self) -> int:
        """Grows with each change of a source, and with each added source."""
        return len(self._sources) + sum([source.revision for source in self._sources])

    def capabilities(self, workspace: str) -> tuple[Capability, ...]:
        """The capabilities that the workspace offers now, by id."""
        return tuple(capability for capability, _ in self._of(workspace).offered.values())

    def absent(self, workspace: str) -> Mapping[str, Why]:
        """Capabilities that cannot be offered now: an id, or a prefix ending in `/`, and the reason."""
        return self._of(workspace).absent

    def get(self, workspace: str, capability_id: str) -> Capability | None:
        """The capability as it is offered now."""
        offered = self._of(workspace).offered.get(capability_id)
        return None if offered is None else offered[0]

    def offers(self, workspace: str, capability_id: str) -> bool:
        """Whether the capability is offered now."""
        return self.get(workspace, capability_id) is not None

    def stands(self, workspace: str, granted: Capability) -> bool:
        """Whether the capability is offered with the granted definition."""
        now = self.get(workspace, granted.id)
        return now is not None and now.definition_sha256 == granted.definition_sha256

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None:
        """The adapter of a capability; none if it is not offered now."""
        offered = self._of(workspace).offered.get(capability_id)
        return None if offered is None else offered[1].adapter

    def why_absent(self, workspace: str, capability_id: str) -> Why | None:
        """The reason why an id is not offered."""
        return why_absent(self._of(workspace).absent, capability_id)

    def _of(self, workspace: str) -> _Snapshot:
        snapshot, revision = self._snapshots.get(workspace), self.revision
        if snapshot is None or snapshot.revision != revision:
            snapshot = self._snapshots[workspace] = self._read(workspace, revision)
        return snapshot

    def _read(self, workspace: str, revision: int) -> _Snapshot:
        pairs = [(each, source) for source in self._sources for each in source.capabilities(workspace)]
        absent = {each: reason for source in self._sources for each, reason in source.absent(workspace).items()}
        count = Counter(each.id for each, _ in pairs)
        for capability_id, many in count.items():
            if many > 1:  # none of them wins silently
                sentence = f"{many} sources offer this id, so none of them is used"
                absent[capability_id] = why(sentence, "capability.offered_twice", count=many)
        offered = {each.id: (each, source) for each, source in pairs if count[each.id] == 1}
        return _Snapshot(
            revision=revision,
            offered=MappingProxyType(dict(sorted(offered.items()))),
            absent=MappingProxyType({each: absent[each] for each in sorted(absent) if each not in offered}),
        )


def why_absent(absent: Mapping[str, Why], capability_id: str) -> Why | None:
    """The reason for an id, or for the longest prefix of it that ends in `/`."""
    if capability_id in absent:
        return absent[capability_id]
    prefix = capability_id
    while "/" in prefix:
        prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]
        if prefix in absent:
            return absent[prefix]
    return None
