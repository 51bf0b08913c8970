"""A capability as a frozen value. People consent to the digest of its definition."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import msgspec

from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_json, sha256_of

Kind = Literal["tool", "mcp", "skill", "outpost", "agent", "channel", "model", "knowledge"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Risk = Literal["low", "medium", "high", "critical"]
RISKS: Final[tuple[Risk, ...]] = get_args(Risk)
"""In ascending order."""
Effects = Literal["none", "idempotent", "at_most_once"]
Approval = Literal["never", "on_risk", "always"]


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """The data flow of a capability or of data. Unknown flow counts as all three."""

    reads_private: bool
    brings_untrusted: bool
    sends_out: bool

    def __or__(self, other: "Flow") -> "Flow":
        return Flow(
            reads_private=self.reads_private or other.reads_private,
            brings_untrusted=self.brings_untrusted or other.brings_untrusted,
            sends_out=self.sends_out or other.sends_out,
        )

    @property
    def bits(self) -> int:
        """The stored form: 1 private, 2 untrusted, 4 sent out."""
        return self.reads_private | self.brings_untrusted << 1 | self.sends_out << 2

    @staticmethod
    def of_bits(bits: int) -> "Flow":
        return Flow(reads_private=bool(bits & 1), brings_untrusted=bool(bits & 2), sends_out=bool(bits & 4))


ALL_FLOW: Final = Flow(reads_private=True, brings_untrusted=True, sends_out=True)
NO_FLOW: Final = Flow(reads_private=False, brings_untrusted=False, sends_out=False)


class CapabilityLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one call."""

    timeout_s: float = 60.0
    output_bytes: int = 64 * 1024
    """A larger output becomes an artifact with a preview."""
    calls_per_run: int | None = None
    cost: float | None = None

    def to_json(self) -> JsonObject:
        return {
            "timeout_s": self.timeout_s,
            "output_bytes": self.output_bytes,
            "calls_per_run": self.calls_per_run,
            "cost": self.cost,
        }


ASKED_RISKS: Final = frozenset[Risk]({"high", "critical"})
"""The risks for which `on_risk` asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A capability as its source defines it and people consented to it."""

    id: str
    """Qualified and unique: `tool:builtin/now`, `tool:author/plugin/name`, `mcp:github/create_issue`, `agent:polly`."""
    name: str
    """The short name from its source. A graph may add a prefix."""
    kind: Kind
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    risk: Risk = "high"
    flow: Flow = ALL_FLOW
    effects: Effects = "at_most_once"
    approval: Approval = "on_risk"
    limits: CapabilityLimits = field(default_factory=CapabilityLimits)
    source: str
    """`builtin`, `plugin:author/name`, `mcp:github`, `workspace`."""
    version: str = ""
    """The version of the source: a digest, an endpoint, the host's version."""
    about: Mapping[str, str | int | bool] = field(default_factory=dict[str, str | int | bool])
    """Facts of a capability that is not a tool: a model's type and window, a knowledge base's name."""
    definition_sha256: str = field(init=False)
    """The digest of name, description, schemas, source and version."""
    json: bytes = field(init=False, repr=False, compare=False)
    """The whole capability as canonical JSON. Encoded once, so that graphs are cheap to build."""

    def __post_init__(self) -> None:
        defined: dict[str, JsonValue] = {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "source": self.source,
            "version": self.version,
        }
        texts = {name: canonical_json(value) for name, value in defined.items()}
        object.__setattr__(self, "definition_sha256", sha256_of(_object(texts)))
        settings: dict[str, JsonValue] = {
            "id": self.id,
            "kind": self.kind,
            "risk": self.risk,
            "flow": self.flow.bits,
            "effects": self.effects,
            "approval": self.approval,
            "limits": self.limits.to_json(),
            "definition_sha256": self.definition_sha256,
        }
        if self.about:
            settings["about"] = dict(self.about)
        texts |= {name: canonical_json(value) for name, value in settings.items()}
        object.__setattr__(self, "json", _object(texts))

    @property
    def requires_approval(self) -> bool:
        """Whether each call needs approval, whatever the policy of the agent."""
        return self.approval == "always" or (self.approval == "on_risk" and self.risk in ASKED_RISKS)


def _object(texts: Mapping[str, bytes]) -> bytes:
    """Canonical JSON of an object with encoded members and plain names."""
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), texts[name]) for name in sorted(texts))
