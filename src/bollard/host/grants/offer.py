"""What a workspace offers: the resources that exist, whoever may use them. Offering grants nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Final, Literal, get_args

from bollard.host.agents.policies import OPERATIONS
from bollard.protocol import JsonObject
from bollard.trust import canonical_sha256

__all__ = [
    "KINDS",
    "Kind",
    "Offer",
    "OfferedAction",
    "OfferedAgent",
    "OfferedFile",
    "OfferedKnowledgeBase",
    "OfferedModel",
    "OfferedSkill",
    "OfferedThing",
    "OfferedTool",
    "operations_that_fit",
]

Kind = Literal["models", "tools", "knowledge_bases", "files", "agents", "skills", "platform"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_MODEL_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "llm": ("invoke", "stream"),
    "rerank": ("rerank",),
    "embedding": ("embed",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedModel:
    """A model of a connected provider."""

    kind: ClassVar[Kind] = "models"
    named: ClassVar[str] = "model_id"

    model_id: str
    model_type: str
    provider: str | None = None
    context_window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool, with the digest of the definition that was consented to."""

    kind: ClassVar[Kind] = "tools"
    named: ClassVar[str] = "tool_name"

    tool_name: str
    tool_type: str
    risk: str
    definition_sha256: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedKnowledgeBase:
    """A knowledge base."""

    kind: ClassVar[Kind] = "knowledge_bases"
    named: ClassVar[str] = "kb_id"

    kb_id: str
    kb_name: str | None = None
    kb_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedFile:
    """A file; its source, `config` or `knowledge`, is the operation that reads it."""

    kind: ClassVar[Kind] = "files"
    named: ClassVar[str] = "file_id"

    file_id: str
    source: str
    file_name: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedAgent:
    """Another agent of the workspace."""

    kind: ClassVar[Kind] = "agents"
    named: ClassVar[str] = "agent_id"

    agent_id: str
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSkill:
    """A skill."""

    kind: ClassVar[Kind] = "skills"
    named: ClassVar[str] = "skill_name"

    skill_name: str
    display_name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedAction:
    """An action of a platform, such as `message.edit`."""

    kind: ClassVar[Kind] = "platform"
    named: ClassVar[str] = "action"

    action: str


OfferedThing = (
    OfferedModel | OfferedTool | OfferedKnowledgeBase | OfferedFile | OfferedAgent | OfferedSkill | OfferedAction
)
NAMED: Final[Mapping[Kind, str]] = {thing.kind: thing.named for thing in get_args(OfferedThing)}
"""By kind, the field that holds the id."""


def operations_that_fit(thing: OfferedThing) -> tuple[str, ...]:
    """What can be done with this thing at all. A type nobody knows can do nothing."""
    if isinstance(thing, OfferedModel):
        return _MODEL_OPERATIONS.get(thing.model_type, ())
    if isinstance(thing, OfferedFile):
        return (thing.source,) if thing.source in OPERATIONS["files"] else ()
    return OPERATIONS.get(thing.kind, ())


def about(thing: OfferedThing) -> dict[str, str | int]:
    """What is known of it beside its id."""
    known: dict[str, str | int | None] = {item.name: getattr(thing, item.name) for item in fields(thing)}
    del known[thing.named]
    return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything a workspace offers, by kind and id, with the digest of it all. Build it with `Offer.of`."""

    things: Mapping[Kind, Mapping[str, OfferedThing]]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        body: JsonObject = {
            kind: {name: {**about(thing)} for name, thing in things.items()} for kind, things in self.things.items()
        }
        object.__setattr__(self, "sha256", canonical_sha256(body))

    @staticmethod
    def of(*things: OfferedThing) -> "Offer":
        """An offer of these things. Of two with one id the last stands."""
        found: dict[Kind, dict[str, OfferedThing]] = {kind: {} for kind in KINDS}
        for thing in things:
            found[thing.kind][getattr(thing, thing.named)] = thing
        return Offer(found)
