"""Where capabilities come from and who carries them out. A source knows nothing of policy, an adapter nothing of it
either: what reaches an adapter was decided."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.protocol import JsonObject, JsonValue


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


class CallOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was resolved, checked, allowed and written down."""

    call_id: str
    capability: Capability
    arguments: JsonObject
    context: CallContext
    timeout_s: float
    progress: Progress | None = None


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Content elements are those of the protocol (§4)."""

    content: tuple[JsonObject, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    artifact_refs: tuple[JsonObject, ...] = ()
    flow: Flow = NO_FLOW
    """What the data brought along beside the capability's own bits."""


class Adapter(Protocol):
    """Carries out calls of one kind. A task that is cancelled stops what it does, for real."""

    async def invoke(self, order: CallOrder) -> CallResult:
        """Raises `HostError` when it could not be done at all: `ToolFailed` when it surely had no effect,
        `OutcomeUnknown` when nobody can say."""
        ...


class CapabilitySource(Protocol):
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


# Every source of a host as one. Holds no policy: what a workspace offers is granted to nobody by that.


class _Found(msgspec.Struct, frozen=True):
    """What all sources said of one workspace at one time."""

    revision: int
    offered: Mapping[str, tuple[Capability, CapabilitySource]]
    absent: Mapping[str, str]


class Sources:
    """Built by the composition root. Asked again only when something changed."""

    def __init__(self, sources: Iterable[CapabilitySource] = ()) -> None:
        self._sources: list[CapabilitySource] = [*sources]
        self._found: dict[str, _Found] = {}

    def add(self, source: CapabilitySource) -> None:
        """A source that could only be made later."""
        self._sources.append(source)

    @property
    def revision(self) -> int:
        """Grows whenever any source's does, or one is added."""
        return len(self._sources) + sum(source.revision for source in self._sources)

    def capabilities(self, workspace: str) -> tuple[Capability, ...]:
        """What the workspace offers now, by id."""
        return tuple(capability for capability, _ in self._of(workspace).offered.values())

    def absent(self, workspace: str) -> Mapping[str, str]:
        """What it would offer and cannot now: an id, or a prefix ending in `/`, and why."""
        return self._of(workspace).absent

    def get(self, workspace: str, capability_id: str) -> Capability | None:
        """The capability as it is offered now."""
        found = self._of(workspace).offered.get(capability_id)
        return None if found is None else found[0]

    def offers(self, workspace: str, capability_id: str) -> bool:
        """Whether the capability is offered now."""
        return self.get(workspace, capability_id) is not None

    def stands(self, workspace: str, granted: Capability) -> bool:
        """Whether what was granted is still offered as it was defined. One that changed since is another one."""
        now = self.get(workspace, granted.id)
        return now is not None and now.definition_sha256 == granted.definition_sha256

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None:
        """Who carries it out; nobody where it is not offered now."""
        found = self._of(workspace).offered.get(capability_id)
        return None if found is None else found[1].adapter

    def why_absent(self, workspace: str, capability_id: str) -> str | None:
        """What the sources say about an id that is not offered; the longest prefix knows best."""
        return why_absent(self._of(workspace).absent, capability_id)

    def _of(self, workspace: str) -> _Found:
        found, revision = self._found.get(workspace), self.revision
        if found is None or found.revision != revision:
            found = self._found[workspace] = self._ask(workspace, revision)
        return found

    def _ask(self, workspace: str, revision: int) -> _Found:
        pairs = [(each, source) for source in self._sources for each in source.capabilities(workspace)]
        absent = {thing: why for source in self._sources for thing, why in source.absent(workspace).items()}
        count = Counter(each.id for each, _ in pairs)
        for thing, many in count.items():
            if many > 1:  # none of them wins silently
                absent[thing] = f"{many} sources offer something of this id, so that nobody knows which is meant"
        offered = {each.id: (each, source) for each, source in pairs if count[each.id] == 1}
        return _Found(
            revision=revision,
            offered=MappingProxyType(dict(sorted(offered.items()))),
            absent=MappingProxyType({thing: why for thing, why in sorted(absent.items()) if thing not in offered}),
        )


def why_absent(absent: Mapping[str, str], capability_id: str) -> str | None:
    """The reason for an id, or for the longest prefix of it that ends in `/`."""
    if capability_id in absent:
        return absent[capability_id]
    prefix = capability_id
    while "/" in prefix:
        prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]
        if prefix in absent:
            return absent[prefix]
    return None
