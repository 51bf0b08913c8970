"""What a workspace offers: the resources that exist, whoever may use them. Offering grants nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final, Literal, get_args

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import OPERATIONS
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Sources
from bollard.host.files.file_repository import FileRepository
from bollard.protocol import JsonObject
from bollard.trust import canonical_json, sha256_of

Kind = Literal["models", "tools", "knowledge_bases", "files", "agents", "skills", "platform"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_MODEL_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "llm": ("invoke", "stream"),
    "rerank": ("rerank",),
    "embedding": ("embed",),
}


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a connected provider."""

    kind: ClassVar[Kind] = "models"
    named: ClassVar[str] = "model_id"

    model_id: str
    model_type: str
    provider: str | None = None
    context_window: int | None = None
    vision: bool | None = None
    """Whether it looks at images; nothing where it does not."""


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be called, by its qualified id, with the digest of the definition that was consented to."""

    kind: ClassVar[Kind] = "tools"
    named: ClassVar[str] = "tool_name"

    tool_name: str
    tool_type: str
    risk: str
    definition_sha256: str
    description: str | None = None


class OfferedKnowledgeBase(msgspec.Struct, frozen=True, kw_only=True):
    """A knowledge base."""

    kind: ClassVar[Kind] = "knowledge_bases"
    named: ClassVar[str] = "kb_id"

    kb_id: str
    kb_name: str | None = None
    kb_type: str | None = None


class OfferedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file; its source, `config` or `knowledge`, is the operation that reads it."""

    kind: ClassVar[Kind] = "files"
    named: ClassVar[str] = "file_id"

    file_id: str
    source: str
    file_name: str | None = None
    mime_type: str | None = None


class OfferedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent of the workspace."""

    kind: ClassVar[Kind] = "agents"
    named: ClassVar[str] = "agent_id"

    agent_id: str
    name: str | None = None
    description: str | None = None


class OfferedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill."""

    kind: ClassVar[Kind] = "skills"
    named: ClassVar[str] = "skill_name"

    skill_name: str
    display_name: str | None = None
    description: str | None = None


class OfferedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a platform, such as `message.edit`."""

    kind: ClassVar[Kind] = "platform"
    named: ClassVar[str] = "action"

    action: str


OfferedThing = (
    OfferedModel | OfferedTool | OfferedKnowledgeBase | OfferedFile | OfferedAgent | OfferedSkill | OfferedAction
)
NAMED: Final[Mapping[Kind, str]] = {thing.kind: thing.named for thing in get_args(OfferedThing)}
"""By kind, the field that holds the id."""
_ABOUT: Final[Mapping[type[OfferedThing], tuple[str, ...]]] = {
    thing: tuple(name for name in thing.__struct_fields__ if name != thing.named) for thing in get_args(OfferedThing)
}


_DOCUMENTS: Final = "kb:"


def documents_of(kb_id: str) -> str:
    """What stands for every document of a knowledge base among the files of a grant. The id of one of them is behind
    it: documents come and go, and a grant is frozen."""
    return f"{_DOCUMENTS}{kb_id}/"


def base_of(file_id: str) -> str | None:
    """The knowledge base that a file is a document of, or that it stands for."""
    kb_id, slash, _ = file_id.removeprefix(_DOCUMENTS).partition("/")
    return kb_id if slash and file_id.startswith(_DOCUMENTS) else None


def file_as_listed(file_id: str) -> str:
    """The id under which a grant has a file."""
    kb_id = base_of(file_id)
    return file_id if kb_id is None else documents_of(kb_id)


def operations_that_fit(thing: OfferedThing) -> tuple[str, ...]:
    """What can be done with this thing at all. A type nobody knows can do nothing."""
    if isinstance(thing, OfferedModel):
        return _MODEL_OPERATIONS.get(thing.model_type, ())
    if isinstance(thing, OfferedFile):
        return (thing.source,) if thing.source in OPERATIONS["files"] else ()
    return OPERATIONS.get(thing.kind, ())


def about(thing: OfferedThing) -> dict[str, str | int | bool]:
    """What is known of it beside its id."""
    known = ((name, getattr(thing, name)) for name in _ABOUT[type(thing)])
    return {name: value for name, value in known if value is not None}


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything a workspace offers, by kind and id, with the digest of it all. Build it with `Offer.of`."""

    things: Mapping[Kind, Mapping[str, OfferedThing]]
    capabilities: Mapping[str, Capability] = field(default_factory=dict[str, Capability])
    """What is behind the tools, skills, agents and platform actions, by id."""
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """What would be offered and cannot be now: an id, or a prefix ending in `/`, and why."""
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        # What is said of a tool that has a capability behind it is said there.
        body: JsonObject = {
            kind: {
                name: {**about(thing)}
                for name, thing in things.items()
                if kind != "tools" or name not in self.capabilities
            }
            for kind, things in self.things.items()
        }
        parts = [canonical_json(body), canonical_json({**self.absent})]
        parts += (self.capabilities[each].json for each in sorted(self.capabilities))
        object.__setattr__(self, "sha256", sha256_of(b"\n".join(parts)))

    @staticmethod
    def of(
        *things: OfferedThing,
        capabilities: Iterable[Capability] = (),
        absent: Mapping[str, str] = MappingProxyType({}),
    ) -> "Offer":
        """An offer of these things, and of what sources offer. Of two with one id the last stands."""
        behind = {capability.id: capability for capability in capabilities}
        found: dict[Kind, dict[str, OfferedThing]] = {kind: {} for kind in KINDS}
        for thing in (*things, *_offered(behind.values())):
            found[thing.kind][getattr(thing, thing.named)] = thing
        return Offer(found, behind, absent)


def _offered(capabilities: Iterable[Capability]) -> Iterator[OfferedThing]:
    """Each as what it is selected by. An action of a platform is nobody's to select, so it is no tool; a model and a
    knowledge base are asked in ways of their own."""
    for each in capabilities:
        if (special := _special(each)) is not None:
            yield special
            continue
        if each.kind == "skill":
            yield OfferedSkill(skill_name=each.id.partition(":")[2], description=each.description)
        yield OfferedTool(
            tool_name=each.id,
            tool_type=each.kind,
            risk=each.risk,
            definition_sha256=each.definition_sha256,
            description=each.description,
        )


def _special(capability: Capability) -> OfferedThing | None:
    """What is no tool."""
    known = capability.about
    match capability.kind:
        case "channel":
            return OfferedAction(action=capability.name)
        case "model":
            window = known.get("context_window")
            return OfferedModel(
                model_id=capability.id.partition(":")[2],
                model_type=str(known.get("model_type", "")),
                provider=_text(known.get("provider")),
                context_window=window if isinstance(window, int) else None,
                vision=True if known.get("vision") is True else None,
            )
        case "knowledge":
            return OfferedKnowledgeBase(
                kb_id=capability.id.partition(":")[2],
                kb_name=_text(known.get("kb_name")),
                kb_type=_text(known.get("kb_type")),
            )
        case _:
            return None


def _text(value: str | int | bool | None) -> str | None:
    return value if isinstance(value, str) else None


# What each workspace offers now: its agents and files, and what its sources have. Made anew only when one of them
# changes.


class Offers:
    """One per host."""

    def __init__(self, agents: AgentRegistry, sources: Sources, files: FileRepository) -> None:
        self._agents = agents
        self._sources = sources
        self._files = files
        self._made: dict[str, tuple[tuple[int, int, int], Offer]] = {}

    def of(self, workspace: str) -> Offer:
        now = (self._agents.changes, self._sources.revision, self._files.revision)
        made = self._made.get(workspace)
        if made is None or made[0] != now:
            agents = [
                OfferedAgent(agent_id=agent.agent_id, name=agent.label.get("en_US"))
                for agent in self._agents.of(workspace)
            ]
            files = [
                OfferedFile(file_id=file.file_id, source="config", file_name=file.name, mime_type=file.mime_type)
                for file in self._files.all(workspace)
            ]
            offer = Offer.of(
                *agents,
                *files,
                capabilities=self._sources.capabilities(workspace),
                absent=self._sources.absent(workspace),
            )
            made = self._made[workspace] = (now, offer)
        return made[1]
