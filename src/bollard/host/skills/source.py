"""Offers skills to runs as capabilities, in three steps: their names and descriptions are in the run's resources, the
text of a skill comes when it is activated, and its files when the run reads them.

A granted skill is a capability of its own; `activate` and `skill_file` reach granted skills by name. The text of a
skill grants nothing.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import HostError, InvalidRequest, NotFound, Revoked, ToolFailed, caused_by
from bollard.host.limits import SKILL_READ_BYTES
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.reason import Why, why
from bollard.host.skills.catalogue import PluginSkills, Revised, SkillCatalogue
from bollard.host.skills.repository import ContentFiles, SkillRepository
from bollard.host.skills.skill import (
    DESCRIPTION_CHARACTERS,
    NAME_CHARACTERS,
    SKILL_FILE,
    OfferedSkill,
    compose_skill_text,
    read_skill_text,
)
from bollard.protocol import JsonObject, JsonValue

ACTIVATE: Final = "tool:builtin/activate"
READ_FILE: Final = "tool:builtin/skill_file"
REGISTER: Final = "tool:builtin/register_skill"
_AUTHORED_FLOW: Final = Flow(reads_private=True, brings_untrusted=True, sends_out=False)
"""The flow of a skill that a run wrote: it may contain anything that the run had read."""


class RunSkills(msgspec.Struct, frozen=True, kw_only=True):
    """The skills that one run may use."""

    granted: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    """Granted skills that were revoked during the run."""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The version of each skill when the run began. The grant does not cover other versions."""
    authoring: bool = False
    """Whether its runner declares `skill_authoring`."""


SkillReach = Callable[[str], RunSkills]
"""The skills of a run, by run id. An unknown run has none."""


def _text(description: str, limit: int) -> JsonObject:
    return {"type": "string", "minLength": 1, "maxLength": limit, "description": description}


_OFFSET: Final[JsonObject] = {"type": "integer", "minimum": 0, "default": 0, "description": "The first byte."}
_LENGTH: Final[JsonObject] = {
    "type": "integer",
    "minimum": 1,
    "maximum": SKILL_READ_BYTES,
    "default": SKILL_READ_BYTES,
    "description": "Bytes to read.",
}
_NAMED: Final = _text("The name of the skill, as the run's resources have it.", 256)
_PATH: Final = _text("One of the files that activating the skill listed.", 256)


def _schema(required: Sequence[str], **properties: JsonValue) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


class Skills:
    """Implements `CapabilitySource` and `Adapter` for skills."""

    def __init__(
        self, catalogue: SkillCatalogue, repository: SkillRepository, reach: SkillReach, *, host_version: str
    ) -> None:
        self._catalogue = catalogue
        self._repository = repository
        self._reach = reach
        self._tools = _tools(host_version)

    @property
    def adapter(self) -> "Skills":
        return self

    @property
    def revision(self) -> int:
        return self._catalogue.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return [*self._tools, *(_capability(skill) for skill in self._catalogue.all(workspace))]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        return {
            f"skill:{each.skill_id}": why(
                f"the skill cannot be used: {each.reason}", "skill.unusable", inner={**each.reason.whole}
            )
            for each in self._catalogue.unusable(workspace)
        }

    # --- calls ---

    async def invoke(self, order: CallOrder) -> CallResult:
        try:
            return await self._execute(order)
        except ToolFailed:
            raise
        except HostError as error:
            if isinstance(error, InvalidRequest | NotFound | Revoked):
                return _result(f"{error.message}. {error.hint}", is_error=True)
            raise ToolFailed(error.message, reason="skill", hint=error.hint, **caused_by(error)) from error

    async def _execute(self, order: CallOrder) -> CallResult:
        capability = order.capability
        reach = self._reach(order.context.run_id)
        if capability.kind == "skill":
            skill_id = capability.id.removeprefix("skill:")
            _check_revoked(reach, skill_id)
            return await self._read(order, _check_version(self._find(order, skill_id), capability.version))
        if capability.id == REGISTER:
            return await self._register(order)
        skill_id = str(order.arguments["skill"])
        if skill_id not in reach.granted:
            raise _no_such_skill(skill_id)
        _check_revoked(reach, skill_id)
        skill = self._find(order, skill_id)
        return await self._read(order, _check_version(skill, reach.versions.get(skill_id, skill.digest)))

    def _find(self, order: CallOrder, skill_id: str) -> OfferedSkill:
        skill = self._catalogue.find(order.context.workspace, skill_id)
        if skill is None:
            raise _no_such_skill(skill_id)
        return skill

    async def _read(self, order: CallOrder, skill: OfferedSkill) -> CallResult:
        """The text of a skill, or a part of one of its files."""
        arguments, workspace = order.arguments, order.context.workspace
        path = str(arguments.get("file") or SKILL_FILE)
        entry = skill.file(path)
        if entry is None:
            raise NotFound(
                f"the skill {skill.skill_id} has no file {path[:80]!a}",
                reason="skill_file",
                hint="activate the skill to list its files",
                skill=skill.skill_id,
                file=ascii(path[:80]),
            )
        content = await self._catalogue.content(workspace, skill, entry)
        flow = _AUTHORED_FLOW if skill.authored else NO_FLOW
        if "file" not in arguments:
            return _activation(skill, read_skill_text(content).body, flow)
        offset, length = _number(arguments, "offset", 0), _number(arguments, "length", SKILL_READ_BYTES)
        return _piece(skill, path, content, offset, min(length, SKILL_READ_BYTES), flow)

    async def _register(self, order: CallOrder) -> CallResult:
        context, arguments = order.context, order.arguments
        if not self._reach(context.run_id).authoring:
            raise ToolFailed(
                "the runner of this run does not write skills",
                reason="skill_authoring",
                hint="add the capability skill_authoring to its manifest",
            )
        name = str(arguments["name"])
        files = {SKILL_FILE: compose_skill_text(name, str(arguments["description"]), str(arguments["body"]))}
        for each in _entries(arguments.get("files")):
            files[str(each["path"])] = str(each["text"]).encode("utf-8", "replace")
        saved = await self._repository.save(
            context.workspace, files, by=f"agent:{context.agent_id}", called=name, authored=True
        )
        digest = saved.value.current.digest
        return _result(
            f"The skill {name} is saved as version {digest[:12]}. Agents can use it when their policy names it.",
            structured={"skill": name, "version": digest, "revision": saved.revision},
        )


def _check_version(skill: OfferedSkill, version: str) -> OfferedSkill:
    if skill.digest != version:
        raise ToolFailed(
            f"the skill {skill.skill_id} was changed since this run began",
            reason="skill_changed",
            hint="start another run",
            skill=skill.skill_id,
        )
    return skill


def _check_revoked(reach: RunSkills, skill_id: str) -> None:
    if skill_id in reach.revoked:
        raise Revoked(
            f"an operator revoked the skill {skill_id} for this run",
            reason="skill",
            hint="start another run",
            skill=skill_id,
        )


def _no_such_skill(skill_id: str) -> NotFound:
    return NotFound(
        "this run has no such skill",
        reason="run_skill",
        hint="use the name of a skill in the run's resources",
        skill=skill_id,
    )


def _number(arguments: JsonObject, name: str, otherwise: int) -> int:
    value = arguments.get(name)
    return value if isinstance(value, int) else otherwise


def _entries(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _result(
    text: str, *, is_error: bool = False, structured: JsonObject | None = None, flow: Flow = NO_FLOW
) -> CallResult:
    content: JsonObject = {"type": "text", "text": text}
    return CallResult(content=(content,), structured=structured, is_error=is_error, flow=flow)


def _activation(skill: OfferedSkill, body: str, flow: Flow) -> CallResult:
    files: list[JsonValue] = [{"path": each.path, "size": each.size} for each in skill.files if each.path != SKILL_FILE]
    structured: JsonObject = {"skill": skill.skill_id, "version": skill.digest, "files": files}
    if skill.wishes:
        structured["requested_tools"] = [*skill.wishes]
    return _result(body, structured=structured, flow=flow)


def _piece(skill: OfferedSkill, path: str, content: bytes, offset: int, length: int, flow: Flow) -> CallResult:
    """A part of a file: text that ends at a character boundary, or Base64 for a binary file."""
    try:
        content.decode("utf-8")
        start, end = _boundary(content, offset), _boundary(content, offset + length)
    except UnicodeDecodeError:
        text, (start, end) = None, (min(offset, len(content)), min(offset + length, len(content)))
    else:
        text = content[start:end].decode("utf-8")
    structured: JsonObject = {
        "skill": skill.skill_id,
        "file": path,
        "offset": start,
        "length": end - start,
        "size": len(content),
        "has_more": end < len(content),
    }
    if text is None:
        structured["content_base64"] = base64.b64encode(content[start:end]).decode("ascii")
    return _result(text if text is not None else f"{path} is not text.", structured=structured, flow=flow)


def _boundary(content: bytes, at: int) -> int:
    """The start of the character at this byte."""
    at = min(at, len(content))
    while 0 < at < len(content) and content[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _capability(skill: OfferedSkill) -> Capability:
    return Capability(
        id=f"skill:{skill.skill_id}",
        name=skill.skill_id.rpartition("/")[2],
        kind="skill",
        description=skill.description,
        input_schema=_schema((), file=_PATH, offset=_OFFSET, length=_LENGTH),
        risk="low",
        flow=_AUTHORED_FLOW if skill.authored else NO_FLOW,
        effects="none",
        source=skill.source,
        version=skill.digest,
    )


def _tools(version: str) -> tuple[Capability, ...]:
    file = _schema(("path", "text"), path=_text("Its name in the skill's folder.", 200), text={"type": "string"})
    return (
        Capability(
            id=ACTIVATE,
            name="activate",
            kind="tool",
            description="Read a skill: its instructions, and the list of its files.",
            input_schema=_schema(("skill",), skill=_NAMED),
            risk="low",
            flow=NO_FLOW,
            effects="none",
            source="builtin",
            version=version,
        ),
        Capability(
            id=READ_FILE,
            name="skill_file",
            kind="tool",
            description="Read a file of a skill, or a part of one.",
            input_schema=_schema(("skill", "file"), skill=_NAMED, file=_PATH, offset=_OFFSET, length=_LENGTH),
            risk="low",
            flow=NO_FLOW,
            effects="none",
            source="builtin",
            version=version,
        ),
        Capability(
            id=REGISTER,
            name="register_skill",
            kind="tool",
            description="Keep instructions as a skill of the workspace, or as the new version of one that was kept so.",
            input_schema=_schema(
                ("name", "description", "body"),
                name={**_text("Small letters, digits and single hyphens.", NAME_CHARACTERS), "pattern": "^[a-z0-9-]+$"},
                description=_text("What it is for and when to use it.", DESCRIPTION_CHARACTERS),
                body=_text("The instructions, as Markdown.", 60_000),
                files={"type": "array", "maxItems": 63, "items": file},
            ),
            risk="high",
            flow=NO_FLOW,
            effects="at_most_once",
            source="builtin",
            version=version,
        ),
    )


class SkillParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that serve skills."""

    repository: SkillRepository
    catalogue: SkillCatalogue
    source: Skills


def build_skills(
    *,
    journal: Journal,
    clock: Clock,
    folder: Path,
    plugins: PluginSkills,
    plugins_revision: Revised,
    reach: SkillReach,
    host_version: str,
) -> SkillParts:
    """Build the parts, not loaded yet."""
    repository = SkillRepository(SavedChanges(journal, clock), ContentFiles(folder), clock)
    catalogue = SkillCatalogue(repository, plugins, plugins_revision)
    source = Skills(catalogue, repository, reach, host_version=host_version)
    return SkillParts(repository=repository, catalogue=catalogue, source=source)
