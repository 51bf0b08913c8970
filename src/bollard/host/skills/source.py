"""Everything about skills, put together."""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import HostError, InvalidRequest, NotFound, Revoked, ToolFailed
from bollard.host.limits import SKILL_READ_BYTES
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import SavedChanges
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

# Skills as what a run can do, in three steps: their names and descriptions are in the run's resources, the text of one
# comes when it is activated, its files when they are asked for.
#
# A skill that is granted can be called by itself; `activate` and `skill_file` reach those that are granted by name.
# Text of a skill grants nothing, whatever it says.


ACTIVATE: Final = "tool:builtin/activate"
READ_FILE: Final = "tool:builtin/skill_file"
REGISTER: Final = "tool:builtin/register_skill"
_BY_A_RUN: Final = Flow(reads_private=True, brings_untrusted=True, sends_out=False)
"""A skill that a run wrote may hold whatever that run had seen."""


class RunSkills(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may do with skills."""

    granted: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    """Those of them that an operator took away since."""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The version of each when the run began: another one is not what was granted."""
    authoring: bool = False
    """Whether its runner says that it writes skills."""


SkillReach = Callable[[str], RunSkills]
"""By run id. A run that nobody knows has nothing."""


def _text(description: str, most: int) -> JsonObject:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


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
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(
        self, catalogue: SkillCatalogue, book: SkillRepository, reach: SkillReach, *, host_version: str
    ) -> None:
        self._catalogue = catalogue
        self._book = book
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

    def absent(self, workspace: str) -> Mapping[str, str]:
        return {
            f"skill:{each.skill_id}": f"the skill cannot be used: {each.reason}"
            for each in self._catalogue.unusable(workspace)
        }

    # --- carrying out ---

    async def invoke(self, order: CallOrder) -> CallResult:
        try:
            return await self._do(order)
        except HostError as error:
            if isinstance(error, InvalidRequest | NotFound | Revoked):
                return _said(f"{error.message}. {error.hint}", is_error=True)
            raise ToolFailed(error.message, hint=error.hint) from error

    async def _do(self, order: CallOrder) -> CallResult:
        wanted = order.capability
        reach = self._reach(order.context.run_id)
        if wanted.kind == "skill":
            skill_id = wanted.id.removeprefix("skill:")
            _refuse_revoked(reach, skill_id)
            return await self._show(order, _same(self._find(order, skill_id), wanted.version))
        if wanted.id == REGISTER:
            return await self._register(order)
        skill_id = str(order.arguments["skill"])
        if skill_id not in reach.granted:
            raise _no_such_skill()
        _refuse_revoked(reach, skill_id)
        skill = self._find(order, skill_id)
        return await self._show(order, _same(skill, reach.versions.get(skill_id, skill.digest)))

    def _find(self, order: CallOrder, skill_id: str) -> OfferedSkill:
        skill = self._catalogue.find(order.context.workspace, skill_id)
        if skill is None:
            raise _no_such_skill()
        return skill

    async def _show(self, order: CallOrder, skill: OfferedSkill) -> CallResult:
        """Its text, or a part of one of its files."""
        said, workspace = order.arguments, order.context.workspace
        path = str(said.get("file") or SKILL_FILE)
        entry = skill.file(path)
        if entry is None:
            raise NotFound(f"the skill {skill.skill_id} has no such file", hint="activate it: that lists its files")
        content = await self._catalogue.content(workspace, skill, entry)
        flow = _BY_A_RUN if skill.authored else NO_FLOW
        if "file" not in said:
            return _activated(skill, read_skill_text(content).body, flow)
        offset, length = _number(said, "offset", 0), _number(said, "length", SKILL_READ_BYTES)
        return _piece(skill, path, content, offset, min(length, SKILL_READ_BYTES), flow)

    async def _register(self, order: CallOrder) -> CallResult:
        context, said = order.context, order.arguments
        if not self._reach(context.run_id).authoring:
            raise ToolFailed(
                "this run's runner does not write skills", hint="its manifest must have the capability skill_authoring"
            )
        name = str(said["name"])
        files = {SKILL_FILE: compose_skill_text(name, str(said["description"]), str(said["body"]))}
        for each in _entries(said.get("files")):
            files[str(each["path"])] = str(each["text"]).encode("utf-8", "replace")
        saved = await self._book.save(
            context.workspace, files, by=f"agent:{context.agent_id}", called=name, authored=True
        )
        digest = saved.thing.current.digest
        return _said(
            f"The skill {name} is kept as version {digest[:12]}. Agents have it when their policy names it.",
            structured={"skill": name, "version": digest, "revision": saved.revision},
        )


def _same(skill: OfferedSkill, version: str) -> OfferedSkill:
    if skill.digest != version:
        raise ToolFailed(f"the skill {skill.skill_id} was changed since this run began", hint="start another run")
    return skill


def _refuse_revoked(reach: RunSkills, skill_id: str) -> None:
    if skill_id in reach.revoked:
        raise Revoked("an operator took this skill away from the run", hint="begin a new run")


def _no_such_skill() -> NotFound:
    return NotFound("this run has no such skill", hint="use a name of the skills in the run's resources")


def _number(said: JsonObject, name: str, otherwise: int) -> int:
    value = said.get(name)
    return value if isinstance(value, int) else otherwise


def _entries(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _said(
    text: str, *, is_error: bool = False, structured: JsonObject | None = None, flow: Flow = NO_FLOW
) -> CallResult:
    content: JsonObject = {"type": "text", "text": text}
    return CallResult(content=(content,), structured=structured, is_error=is_error, flow=flow)


def _activated(skill: OfferedSkill, body: str, flow: Flow) -> CallResult:
    files: list[JsonValue] = [{"path": each.path, "size": each.size} for each in skill.files if each.path != SKILL_FILE]
    told: JsonObject = {"skill": skill.skill_id, "version": skill.digest, "files": files}
    if skill.wishes:
        told["requested_tools"] = [*skill.wishes]
    return _said(body, structured=told, flow=flow)


def _piece(skill: OfferedSkill, path: str, content: bytes, offset: int, length: int, flow: Flow) -> CallResult:
    """As text where the file is text, and never half a character."""
    try:
        content.decode("utf-8")
        start, end = _boundary(content, offset), _boundary(content, offset + length)
    except UnicodeDecodeError:
        text, (start, end) = None, (min(offset, len(content)), min(offset + length, len(content)))
    else:
        text = content[start:end].decode("utf-8")
    told: JsonObject = {
        "skill": skill.skill_id,
        "file": path,
        "offset": start,
        "length": end - start,
        "size": len(content),
        "has_more": end < len(content),
    }
    if text is None:
        told["content_base64"] = base64.b64encode(content[start:end]).decode("ascii")
    return _said(text if text is not None else f"{path} is no text.", structured=told, flow=flow)


def _boundary(content: bytes, at: int) -> int:
    """The beginning of the character at this byte."""
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
        flow=_BY_A_RUN if skill.authored else NO_FLOW,
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
    """What the surface and the runs ask about skills."""

    book: SkillRepository
    catalogue: SkillCatalogue
    source: Skills


def open_skills(
    *,
    journal: Journal,
    clock: Clock,
    folder: Path,
    plugins: PluginSkills,
    plugins_revision: Revised,
    reach: SkillReach,
    host_version: str,
) -> SkillParts:
    """Built, and not filled yet."""
    book = SkillRepository(SavedChanges(journal, clock), ContentFiles(folder), clock)
    catalogue = SkillCatalogue(book, plugins, plugins_revision)
    return SkillParts(book=book, catalogue=catalogue, source=Skills(catalogue, book, reach, host_version=host_version))
