"""The offer of a workspace: the resources that exist in it. An offer grants nothing."""

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
from bollard.host.reason import Why
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
    """`True` if it accepts images, otherwise absent."""


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, by its qualified id, with the digest of the definition that people consented to."""

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
    """A file. Its source, `config` or `knowledge`, is the operation that reads it."""

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
"""By kind, the field with the id."""
_ABOUT: Final[Mapping[type[OfferedThing], tuple[str, ...]]] = {
    thing: tuple(name for name in thing.__struct_fields__ if name != thing.named) for thing in get_args(OfferedThing)
}


_DOCUMENTS: Final = "kb:"


def documents_of(kb_id: str) -> str:
    """The prefix that stands for all documents of a knowledge base in a grant, which is frozen while documents change.
    The id of a document begins with it."""
    return f"{_DOCUMENTS}{kb_id}/"


def base_of(file_id: str) -> str | None:
    """The knowledge base of a document or of a `documents_of` prefix."""
    kb_id, slash, _ = file_id.removeprefix(_DOCUMENTS).partition("/")
    return kb_id if slash and file_id.startswith(_DOCUMENTS) else None


def file_as_listed(file_id: str) -> str:
    """The id under which a grant lists a file."""
    kb_id = base_of(file_id)
    return file_id if kb_id is None else documents_of(kb_id)


def operations_that_fit(thing: OfferedThing) -> tuple[str, ...]:
    """The operations that apply to a resource; none for an unknown type."""
    if isinstance(thing, OfferedModel):
        return _MODEL_OPERATIONS.get(thing.model_type, ())
    if isinstance(thing, OfferedFile):
        return (thing.source,) if thing.source in OPERATIONS["files"] else ()
    return OPERATIONS.get(thing.kind, ())


def about(thing: OfferedThing) -> dict[str, str | int | bool]:
    """The facts of a resource besides its id."""
    known = ((name, getattr(thing, name)) for name in _ABOUT[type(thing)])
    return {name: value for name, value in known if value is not None}


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of a workspace, by kind and id, with its digest. Made by `Offer.of`."""

    things: Mapping[Kind, Mapping[str, OfferedThing]]
    capabilities: Mapping[str, Capability] = field(default_factory=dict[str, Capability])
    """The capabilities of tools, skills, agents and platform actions, by id."""
    absent: Mapping[str, Why] = field(default_factory=dict[str, Why])
    """Capabilities that cannot be offered now: an id, or a prefix ending in `/`, and the reason."""
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        # A tool with a capability is covered by the capability's JSON.
        body: JsonObject = {
            kind: {
                name: {**about(thing)}
                for name, thing in things.items()
                if kind != "tools" or name not in self.capabilities
            }
            for kind, things in self.things.items()
        }
        parts = [canonical_json(body), canonical_json({name: why.sentence for name, why in self.absent.items()})]
        parts += (self.capabilities[each].json for each in sorted(self.capabilities))
        object.__setattr__(self, "sha256", sha256_of(b"\n".join(parts)))

    @staticmethod
    def of(
        *things: OfferedThing, capabilities: Iterable[Capability] = (), absent: Mapping[str, Why] = MappingProxyType({})
    ) -> "Offer":
        """Build an offer of resources and capabilities. The last of several with one id wins."""
        by_id = {capability.id: capability for capability in capabilities}
        by_kind: dict[Kind, dict[str, OfferedThing]] = {kind: {} for kind in KINDS}
        for thing in (*things, *_offered(by_id.values())):
            by_kind[thing.kind][getattr(thing, thing.named)] = thing
        return Offer(by_kind, by_id, absent)


def _offered(capabilities: Iterable[Capability]) -> Iterator[OfferedThing]:
    """Each capability as the resource by which agents select it."""
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
    """The resource of a capability that is not a tool."""
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


class Offers:
    """The current offer of each workspace: its agents, files and capabilities. Rebuilt when one of them changes."""

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
