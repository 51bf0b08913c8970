"""`/skills`: save and list the skills of a workspace. Skills of plugins are listed too."""

import base64
import binascii
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, fields, maybe
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes
from bollard.host.identity.caller import Caller
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILL_PATH_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.host.skills.catalogue import SkillCatalogue
from bollard.host.skills.repository import SKILL, SkillRepository
from bollard.host.skills.skill import SKILL_FILE, KeptSkill, KeptVersion, OfferedSkill, Unusable, read_skill_text
from bollard.protocol import Int, JsonObject, JsonValue, Strict

_DIGEST: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_FILE: Final = fields(path=TEXT, size=NUMBER, sha256=TEXT)
_LISTED: Final = answer_body(
    "ListedSkill",
    {
        "skill_id": "report-writer",
        "description": "Writes a weekly report. Use it for requests of reports.",
        "source": "workspace",
        "version": _DIGEST,
        "usable": True,
        "problem": None,
        "problem_details": {},
    },
    version=maybe(TEXT),
    problem=maybe(TEXT),
    problem_details=ANY,
)
_VERSION: Final = fields(version=TEXT, by=TEXT, created_at=TIME, authored=FLAG)
_SKILL: Final = answer_body(
    "Skill",
    {
        "skill_id": "report-writer",
        "description": "Writes a weekly report. Use it for requests of reports.",
        "version": _DIGEST,
        "authored": False,
        "requested_tools": ["http_fetch"],
        "files": [{"path": "SKILL.md", "size": 120, "sha256": _DIGEST}],
        "text": "Begin with what changed.",
        "versions": [{"version": _DIGEST, "by": "user:ann", "created_at": 1794735484.0, "authored": False}],
        "revision": 1,
    },
    files=array_of(_FILE),
    versions=array_of(_VERSION),
)


_TEXT: Final = "---\nname: report-writer\ndescription: Writes a weekly report.\n---\nBegin with what changed.\n"


class SkillFile(Strict):
    """One file of a skill: as text, or as base64."""

    path: Annotated[str, Field(min_length=1, max_length=SKILL_PATH_CHARACTERS)]
    text: Annotated[str, Field(max_length=SKILL_BYTES)] | None = None
    content_base64: Annotated[str, Field(max_length=SKILL_BYTES * 2)] | None = None


class SavedSkill(Strict):
    """`PUT /api/v1/skills/{id}`."""

    skill_id: Annotated[str, Field(min_length=1, max_length=64)]
    files: Annotated[tuple[SkillFile, ...], Field(min_length=1, max_length=SKILL_FILES)]
    revision: Int | None = Field(default=None, ge=0, description="The edited revision.")


_RESOURCE: Final = SavedResource(
    kind=SKILL,
    path="/api/v1/skills",
    id="skill_id",
    names=("Skill", "Skills"),
    right="skills",
    body=SavedSkill,
    body_example={"files": [{"path": "SKILL.md", "text": _TEXT}]},
    shown=_SKILL,
    listed=_LISTED,
    summaries={
        "list": "List the skills of the workspace and of its plugins.",
        "get": "Show one skill of the workspace: its text, its files, its versions.",
        "delete": "Delete a skill with every version.",
    },
    descriptions={
        "save": "Send all files at once, with `SKILL.md`. The version is the digest of their content. An agent gets "
        "the skill when its policy names it."
    },
    get_errors=("not_found", "storage_unavailable"),
)


class Skills(SavedRoutes[KeptSkill]):
    """The skills of a workspace, and those of its plugins."""

    resource = _RESOURCE

    def __init__(self, repository: SkillRepository, catalogue: SkillCatalogue, pages: Pages) -> None:
        super().__init__(repository, pages)
        self._repository: SkillRepository = repository
        self._catalogue = catalogue

    async def list(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        found = [*self._catalogue.all(workspace), *self._catalogue.unusable(workspace)]
        found.sort(key=_id)
        return self._pages.of_all(request, "skills.list", found, _id, _listed)

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[KeptSkill], JsonObject]:
        files = _files(parsed(SavedSkill, body))
        saved = await self._repository.save(caller.workspace, files, by=caller.name, called=resource_id, edited=edited)
        return saved, {}

    async def show(self, saved: Saved[KeptSkill]) -> JsonObject:
        now = saved.value.current
        digest = next(each.sha256 for each in now.files if each.path == SKILL_FILE)
        text = read_skill_text(await self._repository.read(saved.workspace, digest)).body
        files: list[JsonValue] = [each.to_wire() for each in now.files]
        versions: list[JsonValue] = [_version(each) for each in (now, *saved.value.earlier)]
        return _SKILL.of(
            now,
            skill_id=saved.id,
            version=now.digest,
            requested_tools=[*now.wishes],
            files=files,
            text=text,
            versions=versions,
            revision=saved.revision,
        )


def _files(wanted: SavedSkill) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in wanted.files:
        if each.path in found:
            raise InvalidRequest(
                f"{each.path!a} appears twice",
                reason="skill_file_twice",
                hint="send each file once",
                field="files",
                path=each.path,
            )
        if (each.text is None) == (each.content_base64 is None):
            raise InvalidRequest(
                f"{each.path!a} needs text or content_base64",
                reason="skill_file_content",
                hint="send one of the two",
                field="files",
                path=each.path,
            )
        try:
            found[each.path] = (
                base64.b64decode(each.content_base64, validate=True)
                if each.content_base64 is not None
                else (each.text or "").encode()
            )
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest(
                f"{each.path!a} is not base64",
                reason="skill_file_base64",
                hint="encode it again",
                field="files",
                path=each.path,
            ) from error
    return found


def _id(each: OfferedSkill | Unusable) -> str:
    return each.skill_id


def _listed(each: OfferedSkill | Unusable) -> JsonObject:
    if isinstance(each, OfferedSkill):
        return _LISTED.of(each, version=each.digest, usable=True, problem=None, problem_details={})
    source, why = f"plugin:{each.skill_id.rpartition('/')[0]}", each.reason
    found: JsonObject = {"problem": why.sentence, "problem_details": {**why.details}}
    return _LISTED.of(each, description="", source=source, version=None, usable=False, **found)


def _version(version: KeptVersion) -> JsonObject:
    return {
        "version": version.digest,
        "by": version.by,
        "created_at": version.at_ms / 1000,
        "authored": version.authored,
    }
